"""Only an acknowledgement with a sequence number means that the run is stored."""

import json

import pytest

from mainspring.engine.metrics import PUBLISH_ERRORS
from mainspring.engine.publishing.answers import Answer, read_answer


@pytest.mark.parametrize(
    ("data", "status", "answer"),
    [
        (b'{"stream":"S","seq":7}', None, Answer(True)),
        (b'{"stream":"S","seq":7,"duplicate":true}', None, Answer(True, duplicate=True)),
        (b"", "503", Answer(False, reason="no_responders", text="status 503: no stream listens there")),
        (
            b'{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"},"seq":0}',
            None,
            Answer(False, reason="stream_full", text="maximum bytes exceeded"),
        ),
        (
            b'{"error":{"err_code":10167,"description":"too many"},"seq":5}',
            None,
            Answer(False, reason="too_many", text="too many"),
        ),
        (b"", "429", Answer(False, reason="too_many", text="status 429: too many runs wait in the server")),
        (b"", "408", Answer(False, reason="refused", text="status 408: unknown to us")),
        (b"+OK", None, Answer(False, reason="refused", text="unreadable answer b'+OK'")),
        (b"[1]", None, Answer(False, reason="refused", text="unreadable answer b'[1]'")),
        (b"{}", None, Answer(False, reason="refused", text="neither an acknowledgement nor an error")),
    ],
)
def test_an_answer_is_read_for_what_it_says(data: bytes, status: str | None, answer: Answer) -> None:
    assert read_answer(data, status) == answer


@pytest.mark.parametrize(
    ("code", "text", "reason", "permanent"),
    [
        (10077, "maximum messages exceeded", "stream_full", False),
        (10077, "maximum bytes exceeded", "stream_full", False),
        (10077, "maximum messages per subject exceeded", "stream_full", False),
        (10077, "no space left on device", "no_space", False),
        (10077, "store is closed", "refused", False),
        (10002, "resource limits exceeded for account", "no_space", False),
        (10023, "insufficient resources", "no_space", False),
        (10028, "insufficient memory resources available", "no_space", False),
        (10047, "insufficient storage resources available", "no_space", False),
        (10167, "too many requests", "too_many", False),
        (10054, "message size exceeds maximum allowed", "too_large", True),
        (10097, "header size exceeds maximum allowed of 64k", "too_large", True),
        (10109, "invalid operation on sealed stream", "refused", False),
        ("10054", "a code that is no number", "refused", False),
    ],
)
def test_each_refusal_has_its_reason(code: object, text: str, reason: str, permanent: bool) -> None:
    error = {"code": 400, "err_code": code, "description": text}
    answer = read_answer(json.dumps({"error": error, "stream": "S", "seq": 0}).encode(), None)
    assert answer == Answer(False, reason=reason, text=text)
    assert answer.permanent is permanent
    assert reason in PUBLISH_ERRORS
