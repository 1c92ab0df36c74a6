"""Rows come out of a stream of messages whole and in order, wherever it is cut; the rest as it came."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.changelog_tailer.copy_frames import CopyFrames

MESSAGES = st.lists(st.tuples(st.sampled_from([b"d", b"d", b"C", b"Z", b"N"]), st.binary(max_size=40)))


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack(">I", len(body) + 4) + body


@given(MESSAGES, st.integers(1, 50), st.integers(4, 200))
def test_rows_and_messages_are_told_apart_however_the_stream_is_cut(
    messages: list[tuple[bytes, bytes]], piece: int, page_bytes: int
) -> None:
    frames = CopyFrames(page_bytes)
    stream = b"".join(message(*parts) for parts in messages)
    rows = others = b""
    while stream:
        room = frames.room()
        part, stream = stream[: min(piece, len(room))], stream[min(piece, len(room)) :]
        room[: len(part)] = part
        others += frames.take(len(part))
        if frames.full:
            rows += frames.cut()
    rows += frames.cut()
    assert rows == b"".join(body for kind, body in messages if kind == b"d")
    assert others == b"".join(message(kind, body) for kind, body in messages if kind != b"d")
    assert frames.cut() == b""


def test_a_length_that_no_message_has_is_refused() -> None:
    frames = CopyFrames(100)
    frames.room()[:5] = b"d\x00\x00\x00\x03"
    with pytest.raises(ValueError, match="length"):
        frames.take(5)


@pytest.mark.parametrize("nbytes", [-1, 126])
def test_more_than_there_was_room_for_is_refused(nbytes: int) -> None:
    with pytest.raises(ValueError, match="room"):
        CopyFrames(100).take(nbytes)
