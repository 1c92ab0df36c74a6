"""What can happen to a node's runs and their acknowledgements on the way to NATS and back.

    faults = BrokerFaults()
    async with proxied(nats.port, faults.watch) as proxy:   # the node connects to proxy.port
        await faults.cut(upward=True, share=0.5)

All of it happens to the publishing connection alone, which says that it is one as it greets the server.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from mainspring.engine.publishing.frame import run_id
from mainspring.loadtest.tcp_proxy import Cut, Link

_LINE_END: Final = b"\r\n"
_WITH_BODY: Final = (b"HPUB", b"PUB", b"HMSG", b"MSG")
_RUN: Final = b"HPUB "
_ANSWERS: Final = (b"MSG ", b"HMSG ")
_GREETING: Final = b"CONNECT "
_PUBLISHING: Final = b' publish"'


class Frames:
    """Cuts one way of a connection into the protocol's frames, whole ones only."""

    def __init__(self) -> None:
        self._kept = b""

    def take(self, chunk: bytes) -> Iterator[bytes]:
        """The frames that are complete with this chunk."""
        kept, at = self._kept + chunk, 0
        while (end := self._end(kept, at)) <= len(kept):
            yield kept[at:end]
            at = end
        self._kept = kept[at:]

    @staticmethod
    def _end(kept: bytes, at: int) -> int:
        line_end = kept.find(_LINE_END, at)
        if line_end < 0:
            return len(kept) + 1
        words = kept[at:line_end].split()
        body = int(words[-1]) + len(_LINE_END) if words and words[0] in _WITH_BODY else 0
        return line_end + len(_LINE_END) + body


@dataclass(slots=True)
class Loss:
    """One run of `second` is lost, or its acknowledgement; what is sent and answered from that second on.

    run: its id, once it was. again: it was sent again. sent, answered: by second, each run once.
    """

    second: int
    upward: bool
    run: str = ""
    reply: bytes = b""
    again: bool = False
    sent: Counter[int] = field(default_factory=Counter)
    answered: Counter[int] = field(default_factory=Counter)
    _second_of: dict[bytes, int] = field(default_factory=dict)

    def passes_up(self, reply: bytes, run: str) -> bool:
        """Whether this run passes; note that it was sent."""
        second = int(run.rpartition("@")[2])
        if second < self.second:
            return True
        if reply not in self._second_of:
            self._second_of[reply] = second
            self.sent[second] += 1
        if run == self.run:
            self.again = True
        elif second == self.second and not self.run:
            self.run, self.reply = run, reply
            return not self.upward
        return True

    def passes_down(self, reply: bytes) -> bool:
        """Whether this answer passes; note it."""
        if reply == self.reply and not self.again:
            return False
        if (second := self._second_of.get(reply)) is not None:
            self.answered[second] += 1
        return True

    def complete(self, second: int) -> bool:
        """Whether all runs that were sent of it are answered, and there were some."""
        return 0 < self.sent[second] == self.answered[second]


class BrokerFaults:
    """delay_s: for each acknowledgement. drop: which share of them is lost. Both may be set at any time."""

    def __init__(self, seed: int = 1) -> None:
        self.delay_s = 0.0
        self.drop = 0.0
        self.loss: Loss | None = None
        self.dropped = self.delayed = 0
        self._random = random.Random(seed)
        self._cut: tuple[bool, float] | None = None
        self._was_cut = asyncio.Event()

    async def cut(self, *, upward: bool, share: float) -> None:
        """End the connection amid the next run, or the next answer, of which a share still passes."""
        self._was_cut.clear()
        self._cut = (upward, share)
        await self._was_cut.wait()

    def watch(self, link: Link) -> None:
        """Of a proxy before NATS."""
        _Watched(self, link)

    def up(self, frame: bytes) -> bytes:
        """What passes of a run."""
        self._perhaps_cut(frame, upward=True)
        if self.loss is not None:
            passes = self.loss.passes_up(frame.split(b" ", 3)[2], run_id(frame))
            return frame if passes else b""
        return frame

    def down(self, frame: bytes, link: Link) -> bytes:
        """What passes of an answer now."""
        self._perhaps_cut(frame, upward=False)
        if self.loss is not None and not self.loss.passes_down(frame.split(b" ", 2)[1]):
            return b""
        if self._random.random() < self.drop:
            self.dropped += 1
            return b""
        if self.delay_s:
            self.delayed += 1
            asyncio.get_running_loop().call_later(self.delay_s, link.answer, frame)
            return b""
        return frame

    def _perhaps_cut(self, frame: bytes, *, upward: bool) -> None:
        if self._cut is not None and self._cut[0] == upward:
            share, self._cut = self._cut[1], None
            self._was_cut.set()
            raise Cut(frame[: min(max(1, int(share * len(frame))), len(frame) - 1)])


class _Watched:
    """One connection, of whatever purpose."""

    def __init__(self, faults: BrokerFaults, link: Link) -> None:
        self._faults, self._link = faults, link
        self._up, self._down = Frames(), Frames()
        self._publishes = False
        link.upward, link.downward = self._passes_up, self._passes_down

    def _passes_up(self, chunk: bytes) -> bytes:
        return _passed(self._up.take(chunk), self._up_frame)

    def _passes_down(self, chunk: bytes) -> bytes:
        return _passed(self._down.take(chunk), self._down_frame)

    def _up_frame(self, frame: bytes) -> bytes:
        if frame.startswith(_GREETING):
            self._publishes = _PUBLISHING in frame
        return self._faults.up(frame) if self._publishes and frame.startswith(_RUN) else frame

    def _down_frame(self, frame: bytes) -> bytes:
        answers = self._publishes and frame.startswith(_ANSWERS)
        return self._faults.down(frame, self._link) if answers else frame


def _passed(frames: Iterator[bytes], fault: Callable[[bytes], bytes]) -> bytes:
    passed = bytearray()
    for frame in frames:
        try:
            passed += fault(frame)
        except Cut as cut:
            raise Cut(bytes(passed) + cut.rest) from None
    return bytes(passed)
