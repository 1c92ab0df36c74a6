"""Runs between their sending and their acknowledgement."""

import numpy as np
import pytest

from mainspring.engine.publishing.acks import INDEX_BITS, Acks
from mainspring.engine.publishing.inflight import (
    FRAMES_MAX,
    RETRY_MAX_S,
    SILENCE_FIRST_S,
    Batch,
    InFlight,
    Stored,
)


def add(flying: InFlight, *frames: bytes, second: int = 7) -> Batch:
    offsets = np.cumsum([0, *map(len, frames)]).astype(np.uint32)
    return flying.add(flying.next_number(), second, b"".join(frames), offsets)


def test_a_reply_number_finds_its_run_and_only_once() -> None:
    flying = InFlight()
    add(flying, b"a")
    first = flying.next_number()
    batch = add(flying, b"bb", b"ccc")
    found = flying.find(first + 1)
    assert found == (batch, 1)
    flying.settle(*found)
    assert flying.find(first + 1) is None
    assert (flying.runs, batch.unacknowledged()) == (2, b"bb")


def test_numbers_that_were_never_given_are_not_found() -> None:
    flying = InFlight()
    add(flying, b"a")
    assert [flying.find(n) for n in (1, FRAMES_MAX - 1, FRAMES_MAX, 10**15)] == [None] * 4


def test_a_settled_batch_is_forgotten_with_its_bytes() -> None:
    flying = InFlight()
    batch = add(flying, b"abc", b"de")
    assert (flying.runs, flying.size) == (2, 5)
    flying.settle(batch, 0)
    flying.settle(batch, 1)
    assert (flying.runs, flying.size, list(flying)) == (0, 0, [])


def test_what_is_sent_again_is_the_open_rest_in_order() -> None:
    flying = InFlight()
    batch = add(flying, b"a", b"b", b"c", b"d")
    flying.settle(batch, 2)
    assert batch.unacknowledged() == b"abd"


def test_silence_waits_longer_each_time_and_a_refusal_shortens_the_wait() -> None:
    flying = InFlight()
    batch = add(flying, b"a")
    batch.sent(100.0)
    assert (batch.resend_at, flying.overdue(100.0 + SILENCE_FIRST_S - 0.1)) == (100.0 + SILENCE_FIRST_S, [])
    batch.sent(103.0)
    assert batch.resend_at == 103.0 + 2 * SILENCE_FIRST_S
    batch.refuse("stream_full", 103.0)
    assert flying.overdue(103.25) == [batch]
    assert batch.first_sent_at == 100.0


def test_a_batch_that_is_refused_for_hours_is_tried_again_at_the_longest_pause() -> None:
    batch = add(InFlight(), b"a", b"b")
    now = 0.0
    for _ in range(5000):
        batch.refused = ""  # as the sending does
        batch.resend_at = now + SILENCE_FIRST_S * 10
        batch.refuse("stream_full", now)
        batch.refuse("stream_full", now)  # its other run
        now = batch.resend_at
    batch.refused, batch.resend_at = "", now + SILENCE_FIRST_S * 10
    batch.refuse("stream_full", now)
    assert batch.resend_at == now + RETRY_MAX_S


def test_numbers_may_leave_batches_out_but_never_come_twice() -> None:
    flying, offsets = InFlight(), np.array([0, 1], np.uint32)
    batch = flying.add(5 * FRAMES_MAX, 7, b"a", offsets)
    assert flying.find(5 * FRAMES_MAX) == (batch, 0)
    assert flying.next_number() == 6 * FRAMES_MAX
    for first in (0, 5 * FRAMES_MAX, 6 * FRAMES_MAX + 1):
        with pytest.raises(ValueError, match=f"reply number {first}"):
            flying.add(first, 7, b"a", offsets)


def acks_of(*numbers: int) -> Acks:
    frames = b"".join(b'MSG in.%d 1 23\r\n{"stream":"S","seq":12}\r\n' % number for number in numbers)
    acks = Acks(b"in")
    assert acks.read(bytearray(frames), 0, len(frames)) == len(frames)
    return acks


def test_acknowledgements_in_bulk_settle_what_is_open_and_nothing_else() -> None:
    flying = InFlight()
    one, other = add(flying, b"a", b"b", b"c"), add(flying, b"dd", second=8)
    unknown = 5 << INDEX_BITS
    acks = acks_of(0, 2, unknown, unknown + 1, other.number << INDEX_BITS, 2, FRAMES_MAX - 1)
    assert list(flying.cross_off(acks)) == [Stored(one, 2, 0, [0, 2]), Stored(other, 1, 0, [0])]
    assert (flying.runs, flying.size, list(flying), one.open()) == (1, 3, [one], [1])
    assert list(flying.cross_off(acks)) == []
    assert list(flying.cross_off(acks_of(1))) == [Stored(one, 1, 0, [1])]
    assert (flying.runs, flying.size, list(flying)) == (0, 0, [])
