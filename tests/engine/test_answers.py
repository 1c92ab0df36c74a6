"""Only an acknowledgement with a sequence number means that the run is stored."""

import pytest

from mainspring.engine.answers import Answer, read_answer


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
            Answer(False, reason="refused", text="too many"),
        ),
        (b"+OK", None, Answer(False, reason="refused", text="unreadable answer b'+OK'")),
        (b"[1]", None, Answer(False, reason="refused", text="unreadable answer b'[1]'")),
        (b"{}", None, Answer(False, reason="refused", text="neither an acknowledgement nor an error")),
    ],
)
def test_an_answer_is_read_for_what_it_says(data: bytes, status: str | None, answer: Answer) -> None:
    assert read_answer(data, status) == answer
