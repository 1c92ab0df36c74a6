"""What a protocol frame says of itself, for people and for looking it up."""

import re

_RUN_ID = re.compile(rb"Nats-Msg-Id: ([^\r]+)")
_SUBJECT_AT = len(b"HPUB ")


def run_id(frame: bytes) -> str:
    """The id under which the stream stores the run."""
    found = _RUN_ID.search(frame)
    if found is None:
        raise ValueError(f"no run id in frame {frame[:120]!r}")
    return found.group(1).decode()


def message_bytes(frame: bytes) -> int:
    """Headers and body: what the server's limit counts."""
    return int(frame[: frame.index(b"\r\n")].rsplit(b" ", 1)[1])


def subject(frame: bytes) -> str:
    """Where the run is published."""
    return frame[_SUBJECT_AT : frame.index(b" ", _SUBJECT_AT)].decode()
