"""The tick thread: drains each second as it begins, whether or not Python is busy."""

from mainspring.wheel.frames import Frames
from mainspring.wheel.wheel import Wheel

class ManualClock:
    """A clock that stands still until it is set, for tests; a ``Ticker`` sees it within a millisecond or two.

    ``at`` and what the methods give are epoch seconds. Any thread may call any method.
    """

    def __init__(self, at: float) -> None: ...
    def set(self, at: float) -> None:
        """Let time pass until then, for all three readings alike."""

    def step(self, by_s: float) -> None:
        """Set the wall clock alone forward, or back where it is negative."""

    def now(self) -> float: ...
    def monotonic(self) -> float:
        """``now`` without the steps."""

    def boot(self) -> float:
        """The same as ``monotonic``."""

class Piece(Frames):
    """Runs of one second, as a ``Ticker`` gives them: as many as one buffer of its ring holds."""

    @property
    def mark(self) -> int:
        """The ticker's ``mark`` as it stood when the draining of the second began."""

    @property
    def whole(self) -> bool:
        """Whether this is the last piece of its second. A second without runs has one, without frames."""

    @property
    def took_s(self) -> float:
        """Seconds from the beginning of the second's draining to its end; of the last piece alone."""

    @property
    def late_s(self) -> float:
        """Seconds from the second's edge to the end of its draining; of the last piece alone."""

class Ticker:
    """Drains the seconds of ``wheel`` in order, each as it begins, on a thread that enters no Python.

        ticker = Ticker(wheel, late_after_s=3)
        ticker.start()
        loop.add_reader(ticker.fileno(), rung.set)

        await rung.wait()
        rung.clear()
        ticker.hear()
        while (piece := ticker.take()) is not None:
            send(piece.view())
            ticker.give_back(piece)

    The runs lie in ``buffers`` buffers of ``capacity`` bytes and ``max_frames`` frames. While none is free
    the thread waits, and the seconds are drained late. A second that is ``late_after_s`` or more seconds late
    is begun only with a ``permit``, and so are those after it that are owed by then, and those owed at the
    start: there may be something to be done before each. The reply number of the first frame of each piece is
    ``max_frames`` above that of the piece before, beginning with ``first``.

    Nobody else may drain the wheel meanwhile. Edits, sweeps and ``clear`` may come at any moment: a job is
    then taken before its edit or after it. One thread takes and gives back; all else any thread may call.
    """

    def __init__(
        self,
        wheel: Wheel,
        *,
        late_after_s: int,
        first: int = 0,
        buffers: int = 32,
        capacity: int = 262_144,
        max_frames: int = 4096,
        clock: ManualClock | None = None,
    ) -> None:
        """``clock`` takes the place of the machine's. OSError when there is no eventfd left."""

    def start(self) -> None:
        """Begin with the second after ``wheel.now``; once. OSError when no thread can be made."""

    def stop(self) -> None:
        """Ask the thread to end after the piece in hand; returns at once. The rest of that second stays in
        the wheel, for another ``Ticker``.
        """

    def close(self) -> None:
        """``stop``, and wait for the end. What was drained can still be taken."""

    def fileno(self) -> int:
        """An eventfd, readable once there is something to look at: a piece, a wish for a permit, a step
        of the clock, a refusal of memory, the end. -1 once closed.
        """

    def hear(self) -> None:
        """Make ``fileno`` unreadable until it is rung again."""

    def take(self) -> Piece | None:
        """The oldest piece that was not taken yet; None when there is none now."""

    def give_back(self, piece: Piece) -> None:
        """Let the piece be filled again. ValueError unless it is the oldest of those taken."""

    def leap(self, second: int, now: int) -> bool:
        """``Wheel.leap`` while the thread waits for a permit; it goes on with the second after, once that is
        permitted. False, and nothing is done, while it waits for anything else, works, or has ended.
        """

    def permit(self, second: int) -> None:
        """Let all seconds up to this one be drained, however late they are."""

    @property
    def gate(self) -> int:
        """The last second that may be drained, 2**63 - 1 at first. Any thread may move it; a second that has
        begun is drained to its end.
        """

    @gate.setter
    def gate(self, second: int) -> None: ...
    def trust(self, offset_s: float) -> None:
        """Take it as right that the wall clock is ``offset_s`` ahead of ``CLOCK_BOOTTIME``; at first it is
        what the two say when the ticker is made. While they differ from that by more than 5 s the wall clock
        has stepped, and no second is begun. What it is moved by from one look to the next, at least once a
        second, is followed. A machine that was suspended has not stepped.
        """

    @property
    def mark(self) -> int:
        """Any number; each piece shows what it was when its second began. 0 at first."""

    @mark.setter
    def mark(self, mark: int) -> None: ...
    @property
    def waits_for(self) -> str:
        """What holds the thread up now: "clock", "permit", "room" (a buffer to be given back), "memory" (a
        pause after an allocation failed), "gate", "step" (of the wall clock: see ``trust``). "" while it
        works.
        """

    @property
    def refused(self) -> int:
        """How many allocations have failed so far; each is tried again after a pause."""

    @property
    def ended(self) -> bool:
        """Whether the thread has ended: nothing is added to what can be taken."""

    @property
    def error(self) -> Exception | None:
        """Why it ended unasked: MemoryError after several refusals in a row, RuntimeError when somebody else
        has drained the wheel.
        """
