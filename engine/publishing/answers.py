"""What the broker answers to a published run, and what each refusal asks for.

| reason | the broker says | what is done |
| --- | --- | --- |
| no_responders | status 503: no stream takes the subject | the stream is made again, the run is sent again |
| stream_full | 10077 and a maximum that is exceeded | sent again until there is room |
| no_space | a limit of the account or the server, or a full disk | sent again until there is room |
| too_many | 10167 or status 429: more wait in the server than it takes | sent again, others are ahead |
| too_large | 10054, 10097: over what the stream ever takes | set aside |
| refused | anything else | sent again |

A login without permission to publish is told apart from any run: see denials.py.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

REASONS: Final = {
    10002: "no_space",  # of the account
    10023: "no_space",  # of the server
    10028: "no_space",  # memory
    10047: "no_space",  # file storage
    10077: "stream_full",
    10167: "too_many",
    10054: "too_large",  # message
    10097: "too_large",  # headers
}
NEVER_STORED: Final = frozenset({"too_large"})
MENDS: Final = {
    "no_responders": "a stream has to take these subjects; the engine makes its own again",
    "stream_full": "raise the stream's limits, or let it discard old messages",
    "no_space": "raise the limits of the account or max_file_store of the server, or free disk space",
}
_STORE_FAILED: Final = 10077
STATUSES: Final = {
    "503": ("no_responders", "no stream listens there"),
    "429": ("too_many", "too many runs wait in the server"),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """Stored, or refused for a `reason` (a metric's label) that `text` explains.

    permanent: the same run would be refused again, however often it is sent.
    """

    stored: bool
    duplicate: bool = False
    reason: str = ""
    text: str = ""

    @property
    def permanent(self) -> bool:
        return self.reason in NEVER_STORED


_STORED, _DUPLICATE = Answer(True), Answer(True, duplicate=True)
# The server's own spelling, which nearly every answer has: a JSON parser would cost several times as much.
_PLAIN = re.compile(rb'\{"stream":"[^"]+", ?"seq":[1-9]\d*(,"duplicate": ?true)?\}').fullmatch


def read_answer(data: bytes, status: str | None) -> Answer:
    """Only a publish acknowledgement with a sequence number means stored; anything else is a refusal."""
    if plain := _PLAIN(data):
        return _DUPLICATE if plain[1] else _STORED
    if status is not None:
        reason, text = STATUSES.get(status, ("refused", "unknown to us"))
        return Answer(False, reason=reason, text=f"status {status}: {text}")
    try:
        answer = json.loads(data)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        return Answer(False, reason="refused", text=f"unreadable answer {data[:80]!r}")
    if answer.get("seq") and "error" not in answer:
        return Answer(True, duplicate=bool(answer.get("duplicate")))
    return _refusal(answer.get("error"))


def _refusal(error: Any) -> Answer:
    if not isinstance(error, dict):
        return Answer(False, reason="refused", text="neither an acknowledgement nor an error")
    code, text = error.get("err_code"), str(error.get("description", error))
    reason = REASONS.get(code, "refused") if isinstance(code, int) else "refused"
    if code == _STORE_FAILED and "maximum" not in text:
        reason = "no_space" if "space" in text else "refused"
    return Answer(False, reason=reason, text=text)
