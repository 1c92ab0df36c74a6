"""Acknowledgements read in bulk are those that nats-py's parser and a JSON parser would find, however cut."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.errors import ProtocolError
from nats.protocol.parser import Parser

from mainspring.engine.publishing.ack_filter import BUFFER_BYTES, AckFilter
from mainspring.engine.publishing.acks import INDEX_BITS, Acks, frame_bytes
from mainspring.engine.publishing.answers import read_answer

INBOX = b"_INBOX.abc"
Found = tuple[int, bool, bool]  # reply number, stored, duplicate


def message(body: bytes, number: int = 7, subject: bytes = INBOX, reply: bytes = b"") -> bytes:
    return b"MSG %s.%d 1 %s%d\r\n%s\r\n" % (subject, number, reply, len(body), body)


def stored(number: int, tail: bytes = b"") -> bytes:
    return message(b'{"stream":"RUNS", "seq":%d%s}' % (number + 1, tail), number)


PLAIN = [
    stored(0),
    stored(4097, b',"duplicate": true'),
    stored(12, b',"duplicate":true'),
    stored(10**17),
    message(b'{"stream":"A","domain":"hub","seq":5}', 33),
    message(b'{"stream":"A", "domain":"hub", "seq":5,"duplicate": true}', 34),
]
NOT_PLAIN = [
    b"PING\r\n",
    b"PONG\r\n",
    b"+OK\r\n",
    b'INFO {"server_id":"a\\r\\n", "max_payload":5}\r\n',
    b"-ERR 'Permissions Violation for Publish to \"x.y\"'\r\n",
    b"HMSG %s.9 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n" % INBOX,
    message(b'{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"},"seq":0}', 8),
    message(b'{"stream":"A","seq":0}', 11),
    message(b'{"seq":4,"stream":"A"}', 13),
    message(b'{"stream":"A","seq":6,"duplicate":false}', 14),
    message(b'{"stream":"a\\"b", "seq":6}', 15),
    message(b'{"stream":"A", "seq":6} ', 16),
    message(b'{"stream":"A", "seq":1234567890123456789012}', 18),
    message(b'{"stream":"", "seq":6}', 19),
    message(b"", 20),
    message(b'{"stream":"A", "seq":6}', subject=b"_INBOX.abd"),
    message(b'{"stream":"A", "seq":6}', 21, reply=b"to.me "),
    message(b'MSG _INBOX.abc.5 1 2\r\n{"stream":"A", "seq":6}\r\n', 22),
]
FRAMES = [frame for pair in zip(PLAIN * 3, NOT_PLAIN, strict=True) for frame in pair]


class Client:
    """What nats-py's parser calls, noting what it makes of messages to the inbox."""

    def __init__(self) -> None:
        self.found: list[Found] = []

    async def _process_msg(
        self, _sid: int, subject: bytes, _reply: bytes, data: bytes, header: bytes
    ) -> None:
        inbox, _, number = subject.rpartition(b".")
        if inbox == INBOX and number.isdigit():
            answer = read_answer(data, "503" if header else None)
            self.found.append((int(number), answer.stored, answer.duplicate))

    async def _process_err(self, text: str) -> None: ...
    async def _process_ping(self) -> None: ...
    async def _process_pong(self) -> None: ...
    async def _process_info(self, info: object) -> None: ...


class Connection:
    """Stands for both neighbours of the filter: the socket's transport, and nats-py's reader behind it."""

    def __init__(self) -> None:
        self.client = Client()
        self.passed = b""
        self.left = False
        self.in_bulk = 0
        self._parser = Parser(self.client)
        self._filter = AckFilter(self, Acks(INBOX), self._take)  # type: ignore[arg-type]
        self._filter.connection_made(self)  # type: ignore[arg-type]

    def _take(self, acks: Acks) -> None:
        if self.left:  # nats-py sees what it refuses a moment later, so that the filter may be ahead of it
            return
        numbers, duplicates = acks.numbers.tolist(), acks.duplicates.tolist()
        self.client.found += [(n, True, d) for n, d in zip(numbers, duplicates, strict=True)]
        self.in_bulk += len(acks)

    def receive(self, *chunks: bytes) -> None:
        for chunk in chunks:
            while chunk and not self.left:
                room = self._filter.get_buffer(-1)
                size = min(len(room), len(chunk))
                room[:size] = chunk[:size]
                self._filter.buffer_updated(size)
                chunk = chunk[size:]  # noqa: PLW2901

    def connection_made(self, transport: object) -> None: ...

    def abort(self) -> None:
        self.left = True

    def data_received(self, frame: bytes) -> None:
        self.passed += frame
        try:
            asyncio.run(self._parser.parse(frame))
        except ProtocolError:
            self.left = True


def by_nats_py(stream: bytes) -> list[Found]:
    """All that nats-py's own parser finds, up to where it would leave the connection."""
    client = Client()
    try:
        asyncio.run(Parser(client).parse(stream))
    except Exception:
        return client.found
    return client.found


def received(*chunks: bytes) -> Connection:
    connection = Connection()
    connection.receive(*chunks)
    return connection


def pieces(stream: bytes, cuts: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted(cuts), len(stream)]
    return [stream[start:stop] for start, stop in pairwise(edges)]


@pytest.mark.parametrize("frame", PLAIN)
def test_a_plain_acknowledgement_needs_no_other_parser(frame: bytes) -> None:
    connection = received(frame)
    assert (connection.client.found, connection.passed) == (by_nats_py(frame), b"")


@pytest.mark.parametrize("frame", NOT_PLAIN)
def test_anything_else_is_passed_on_whole(frame: bytes) -> None:
    for cut in range(len(frame)):
        connection = received(frame[:cut])
        assert connection.passed == b""
        connection.receive(frame[cut:])
        assert connection.passed == frame


def test_a_stream_cut_anywhere_in_two_says_the_same() -> None:
    stream = b"".join(FRAMES)
    expected, others = by_nats_py(stream), b"".join(NOT_PLAIN)
    for cut in range(len(stream) + 1):
        connection = received(stream[:cut], stream[cut:])
        assert connection.client.found == expected
        assert connection.passed == others
        assert connection.in_bulk == 3 * len(PLAIN)


@given(st.data())
def test_a_stream_cut_into_any_pieces_says_the_same(data: st.DataObject) -> None:
    stream = b"".join(data.draw(st.lists(st.sampled_from(FRAMES), max_size=12)))
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=30))
    assert received(*pieces(stream, cuts)).client.found == by_nats_py(stream)


def test_a_stream_that_comes_byte_by_byte_says_the_same() -> None:
    stream = b"".join(FRAMES)
    assert received(*[stream[i : i + 1] for i in range(len(stream))]).client.found == by_nats_py(stream)


@given(st.data())
def test_hostile_bytes_store_no_run_that_nats_py_would_not_store(data: st.DataObject) -> None:
    stream = bytearray(b"".join(data.draw(st.lists(st.sampled_from(FRAMES), min_size=1, max_size=6))))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(stream)))
        gone = data.draw(st.integers(0, 5))
        stream[at : at + gone] = data.draw(
            st.binary(max_size=4) | st.sampled_from([b"\r\n", b" ", b"9", b'"'])
        )
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=6))
    found = received(*pieces(bytes(stream), cuts)).client.found
    assert found == by_nats_py(bytes(stream))[: len(found)]


@given(st.binary(max_size=200), st.integers(0, 200))
def test_no_bytes_at_all_do_harm(noise: bytes, cut: int) -> None:
    received(noise[:cut], noise[cut:], stored(1))
    received(b"MSG " + noise[:cut], noise[cut:], stored(1))


@pytest.mark.parametrize(
    "stream",
    [
        message(b"{}").replace(b" 2\r\n", b" 1\r\n"),
        message(b"{}").replace(b" 2\r\n", b" \r\n"),
        message(b"{}").replace(b" 2\r\n", b" 99999999\r\n"),
        message(b"{}").replace(b" 2\r\n", b" 1234567890123456789012\r\n"),
        b"INFO " + b"x" * (1 << 20),
        b"\r\n",
        b"PINGS\r\n",
        b"+OKAY\r\n",
        b"MSGS a 1 2\r\nhi\r\n",
        b"SUB a 1\r\n",
    ],
)
def test_what_can_be_no_frame_ends_the_connection(stream: bytes) -> None:
    connection = received(stored(3), stream)
    assert connection.left
    assert connection.client.found == [(3, True, False)]


def test_frames_of_any_length_pass_however_large_the_buffer() -> None:
    large = message(b"x" * (3 * BUFFER_BYTES), 5)
    connection = received(stored(1), large, stored(2), large, stored(3))
    assert connection.passed == large + large
    assert [number for number, _, _ in connection.client.found] == [1, 5, 2, 5, 3]
    assert connection.in_bulk == 3


def test_one_read_gives_no_more_than_it_has_room_for() -> None:
    buffer = bytearray(b"".join(stored(number) for number in range(5000)))
    acks = Acks(INBOX)
    at = acks.read(buffer, 0, len(buffer))
    assert acks.numbers.tolist() == list(range(4096))
    assert acks.read(buffer, at, len(buffer)) == len(buffer)
    assert acks.numbers.tolist() == list(range(4096, 5000))
    assert received(bytes(buffer)).client.found == [(n, True, False) for n in range(5000)]


def test_bytes_outside_of_the_buffer_are_refused() -> None:
    acks, buffer = Acks(INBOX), bytearray(10)
    for at, end in ((-1, 5), (6, 5), (0, 11)):
        with pytest.raises(IndexError):
            acks.read(buffer, at, end)
        with pytest.raises(IndexError):
            frame_bytes(buffer, at, end)


def read(*numbers: int) -> Acks:
    acks, buffer = Acks(INBOX), bytearray(b"".join(stored(number) for number in numbers))
    assert acks.read(buffer, 0, len(buffer)) == len(buffer)
    return acks


def test_runs_are_crossed_off_a_batch_at_a_time_and_once() -> None:
    other = 1 << INDEX_BITS
    acks = read(0, 2, 2, other + 1, other + 4095, 3)
    open_runs = bytearray(b"\x01" * 3)
    assert acks.cross_off(0, open_runs) == (3, 2, 0, [0, 2])
    assert open_runs == b"\x00\x01\x00"
    assert (acks.batch(3), acks.skip_batch(3)) == (1, 5)
    assert acks.cross_off(3, bytearray(b"\x01\x01")) == (5, 1, 0, [1])
    assert acks.cross_off(5, open_runs) == (6, 0, 0, [])
    for beyond in (-1, 6):
        for call in (acks.batch, acks.skip_batch, lambda i: acks.cross_off(i, open_runs)):
            with pytest.raises(IndexError):
                call(beyond)


def test_duplicates_are_counted_among_the_runs_that_were_open() -> None:
    acks, stream = Acks(INBOX), bytearray(stored(0, b',"duplicate": true') * 2 + stored(1))
    acks.read(stream, 0, len(stream))
    assert acks.cross_off(0, bytearray(b"\x01\x01")) == (3, 2, 1, [0, 1])


def test_only_the_newest_indices_are_named() -> None:
    assert read(*range(100)).cross_off(0, bytearray(b"\x01" * 100)) == (100, 100, 0, list(range(80, 100)))
