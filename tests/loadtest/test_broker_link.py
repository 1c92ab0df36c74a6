"""What a drill does to frames: whole ones are found however they are cut, and only what is meant is hit."""

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.loadtest.broker_link import BrokerFaults, Frames, Loss
from mainspring.loadtest.tcp_proxy import Cut, Passes

GREETING = b'CONNECT {"name": "broker publish", "verbose": false}\r\n'


def run(number: int, second: int) -> bytes:
    headers = f"NATS/1.0\r\nNats-Msg-Id: {number}@{second}\r\n\r\n".encode()
    body = b'{"n": "\r\nPING\r\n"}'
    line = f"HPUB broker.run.a _INBOX.x.{number} {len(headers)} {len(headers) + len(body)}\r\n"
    return line.encode() + headers + body + b"\r\n"


def answer(number: int) -> bytes:
    body = b'{"stream":"BROKER", "seq":7}'
    return f"MSG _INBOX.x.{number} 1 {len(body)}\r\n".encode() + body + b"\r\n"


@dataclass
class Connection:
    """In the place of a proxy's link."""

    upward: Passes = bytes
    downward: Passes = bytes
    answered: list[bytes] = field(default_factory=list)

    def answer(self, frame: bytes) -> None:
        self.answered.append(frame)


def watched(faults: BrokerFaults, greeting: bytes = GREETING) -> Connection:
    link = Connection()
    faults.watch(link)  # type: ignore[arg-type]
    assert link.upward(greeting) == greeting
    return link


@given(st.lists(st.integers(1, 400), max_size=20))
def test_frames_come_whole_and_in_order_however_the_bytes_are_cut(cuts: list[int]) -> None:
    whole = [GREETING, b"PING\r\n", run(1, 5), b"\r\n", answer(1), run(2, 5), b"PONG\r\n"]
    stream, frames, seen = b"".join(whole), Frames(), list[bytes]()
    for size in cuts:
        seen += frames.take(stream[:size])
        stream = stream[size:]
    seen += frames.take(stream)
    assert seen == whole


def test_a_cut_leaves_a_true_part_of_a_run_behind_what_came_before_it() -> None:
    for share in (0.0, 0.5, 1.0):
        faults = BrokerFaults()
        link = watched(faults)
        faults._cut = (True, share)
        with pytest.raises(Cut) as cut:
            link.upward(b"PING\r\n" + run(1, 5) + run(2, 5))
        rest = cut.value.rest.removeprefix(b"PING\r\n")
        assert 0 < len(rest) < len(run(1, 5))
        assert run(1, 5).startswith(rest)


def test_answers_are_dropped_of_the_publishing_connection_alone() -> None:
    faults = BrokerFaults()
    publishing, other = watched(faults), watched(faults, GREETING.replace(b"publish", b"control"))
    faults.drop = 1.0
    assert publishing.downward(b"PONG\r\n" + answer(1) + answer(2)) == b"PONG\r\n"
    assert other.downward(answer(3)) == answer(3)
    assert faults.dropped == 2


async def test_a_delayed_answer_comes_later_and_all_else_at_once() -> None:
    faults = BrokerFaults()
    link = watched(faults)
    faults.delay_s = 0.05
    assert link.downward(answer(1) + b"PING\r\n" + answer(2)) == b"PING\r\n"
    assert link.answered == []
    await asyncio.sleep(0.2)
    assert link.answered == [answer(1), answer(2)]


@pytest.mark.parametrize("upward", [True, False])
def test_one_run_of_the_second_is_lost_and_what_follows_is_counted(upward: bool) -> None:
    faults = BrokerFaults()
    link = watched(faults)
    faults.loss = loss = Loss(5, upward=upward)
    assert link.upward(run(1, 4) + run(2, 5) + run(3, 5)) == (
        run(1, 4) + run(3, 5) if upward else run(1, 4) + run(2, 5) + run(3, 5)
    )
    assert link.downward(answer(1) + answer(3)) == answer(1) + answer(3)
    assert link.downward(answer(2)) == b""
    assert link.upward(run(4, 6)) == run(4, 6)
    assert not loss.complete(6)
    assert link.downward(answer(4)) == answer(4)
    assert (loss.run, loss.complete(5), loss.complete(6), loss.again) == ("2@5", False, True, False)
    assert link.upward(run(2, 5)) == run(2, 5)
    assert loss.again
    assert link.downward(answer(2)) == answer(2)
    assert loss.complete(5)
