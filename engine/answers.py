"""What the broker answers to a published run."""

import json
import re
from dataclasses import dataclass
from typing import Any

STREAM_FULL = 10077
MESSAGE_TOO_LARGE = 10054
_NO_RESPONDERS = "503"


@dataclass(frozen=True, slots=True)
class Answer:
    """Stored, or refused for a `reason` (a metric's label) that `text` explains.

    permanent: the same run would be refused again, however often it is sent.
    """

    stored: bool
    duplicate: bool = False
    reason: str = ""
    text: str = ""
    permanent: bool = False


_STORED, _DUPLICATE = Answer(True), Answer(True, duplicate=True)
# The server's own spelling, which nearly every answer has: a JSON parser would cost several times as much.
_PLAIN = re.compile(rb'\{"stream":"[^"]+", ?"seq":[1-9]\d*(,"duplicate": ?true)?\}').fullmatch


def read_answer(data: bytes, status: str | None) -> Answer:
    """Only a publish acknowledgement with a sequence number means stored; anything else is a refusal."""
    if plain := _PLAIN(data):
        return _DUPLICATE if plain[1] else _STORED
    if status is not None:
        reason = "no_responders" if status == _NO_RESPONDERS else "refused"
        return Answer(False, reason=reason, text=f"status {status}: no stream listens there")
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
    code = error.get("err_code")
    reason = "stream_full" if code == STREAM_FULL else "refused"
    text = str(error.get("description", error))
    return Answer(False, reason=reason, text=text, permanent=code == MESSAGE_TOO_LARGE)
