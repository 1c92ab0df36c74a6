"""What the demo shows: a live page on a terminal, a line each second elsewhere."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from mainspring.engine.node import NodeStatus

HISTORY_S = 60
RECENT_MAX = 12
BEHIND_S = 5
BARS = " ▁▂▃▄▅▆▇█"
Further = Sequence[tuple[str, str]]


class Pace:
    """Runs a second, from a counter that is looked at now and then."""

    def __init__(self) -> None:
        self.history: deque[float] = deque(maxlen=HISTORY_S)
        self._last: tuple[float, int] | None = None

    def observe(self, at: float, acknowledged: int) -> None:
        """Note the counter at ``at`` (seconds of any steady clock)."""
        if self._last is not None and at > self._last[0]:
            self.history.append((acknowledged - self._last[1]) / (at - self._last[0]))
        self._last = (at, acknowledged)

    @property
    def per_s(self) -> float:
        """The newest rate."""
        return self.history[-1] if self.history else 0.0


class View(Protocol):
    """Something that shows a status each second."""

    def show(self, status: NodeStatus, pace: Pace) -> None:
        """Show it now."""

    def close(self) -> None:
        """Leave the screen in order."""


class PlainView:
    """One line a second."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def show(self, status: NodeStatus, pace: Pace) -> None:
        """Print the line."""
        self._console.print(plain_line(status, pace), soft_wrap=True)

    def close(self) -> None:
        """Nothing is held."""


class LiveView:
    """A page that is drawn over itself."""

    def __init__(self, console: Console, further: Further) -> None:
        self._further = further
        # Drawn by `show` alone: a refreshing thread would fight with the engine for the interpreter.
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._live.start()

    def show(self, status: NodeStatus, pace: Pace) -> None:
        """Draw the page."""
        self._live.update(page(status, pace, self._further), refresh=True)

    def close(self) -> None:
        """Give the terminal back."""
        self._live.stop()


class DemoWatch:
    """Looks at the node once a second."""

    def __init__(self, status: Callable[[], NodeStatus], view: View, *, period_s: float = 1.0) -> None:
        self._status = status
        self._view = view
        self._period_s = period_s
        self._pace = Pace()
        self._closed = asyncio.Event()

    def run_once(self) -> None:
        """Take one look and show it."""
        status = self._status()
        self._pace.observe(asyncio.get_running_loop().time(), status.acknowledged)
        self._view.show(status, self._pace)

    async def run(self) -> None:
        """Look each period until `aclose`."""
        try:
            # The pause comes first: a node that has just been started has not yet connected everywhere.
            while not await self._closed_within(self._period_s):
                self.run_once()
        finally:
            self._view.close()

    async def aclose(self) -> None:
        """End `run` at once."""
        self._closed.set()

    async def _closed_within(self, period_s: float) -> bool:
        try:
            return await asyncio.wait_for(self._closed.wait(), period_s)
        except TimeoutError:
            return False


def plain_line(status: NodeStatus, pace: Pace) -> str:
    """The status on one line."""
    parts = [
        f"jobs {status.jobs:,}",
        f"runs {status.acknowledged:,}",
        f"{pace.per_s:,.0f}/s",
        f"lateness p50 {_ms(status.lateness_p50_s)} p99 {_ms(status.lateness_p99_s)}",
        f"in flight {status.in_flight:,}",
        *(f"last {run_id} {subject}" for run_id, subject, _ in status.recent[-1:]),
        *_troubles(status),
    ]
    return "  ".join(parts)


def summary(status: NodeStatus) -> str:
    """The demo in one line."""
    return (
        f"{status.acknowledged:,} runs of {status.jobs:,} jobs acknowledged by JetStream, "
        f"{status.duplicates:,} duplicates; "
        f"lateness p50 {_ms(status.lateness_p50_s)}, p99 {_ms(status.lateness_p99_s)}"
    )


def page(status: NodeStatus, pace: Pace, further: Further) -> RenderableType:
    """The whole live page."""
    return Group(
        Panel(_counts(status, pace), title="mainspring", title_align="left", border_style="cyan"),
        Panel(_recent(status), title="last runs, each acknowledged by JetStream", title_align="left"),
        _further_table(further),
        Text("Ctrl-C stops all of it.", style="dim"),
    )


def sparkline(values: Sequence[float]) -> str:
    """Values as a row of bars, the tallest being the greatest."""
    top = max(values, default=0.0)
    if top <= 0:
        return BARS[0] * len(values)
    return "".join(BARS[round(max(value, 0.0) / top * (len(BARS) - 1))] for value in values)


def _counts(status: NodeStatus, pace: Pace) -> RenderableType:
    table = Table.grid(padding=(0, 3))
    table.add_row("jobs", "runs", "runs a second", "lateness p50", "p99", "in flight", style="dim")
    table.add_row(
        f"[bold]{status.jobs:,}",
        f"[bold]{status.acknowledged:,}",
        f"[bold green]{pace.per_s:,.0f}",
        _ms(status.lateness_p50_s),
        _ms(status.lateness_p99_s),
        f"{status.in_flight:,}",
    )
    return Group(table, Text(sparkline(pace.history), style="green"), *_trouble_lines(status))


def _recent(status: NodeStatus) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for run_id, subject, lateness_s in reversed(status.recent[-RECENT_MAX:]):
        table.add_row(_due(run_id), f"[cyan]{run_id}", subject, f"[dim]{_ms(lateness_s)}")
    for _ in range(RECENT_MAX - table.row_count):
        table.add_row("")  # so that the page does not jump
    return table


def _further_table(further: Further) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for what, how in further:
        table.add_row(f"[dim]{what}", Text(how, overflow="fold"))
    return table


def _trouble_lines(status: NodeStatus) -> list[Text]:
    return [Text(trouble, style="bold red") for trouble in _troubles(status)]


def _troubles(status: NodeStatus) -> list[str]:
    """What is not as it should be, in words."""
    found = []
    if not status.postgres_connected:
        found.append("Postgres is away: firing goes on with what is known")
    if not status.broker_connected:
        found.append("NATS is away: owed runs are kept")
    elif status.behind_s > BEHIND_S:
        found.append(f"working through {status.behind_s} owed seconds: the runs of an outage come late")
    if status.quarantined:
        found.append(f"{status.quarantined:,} jobs are quarantined: see the log")
    return found


def _due(run_id: str) -> str:
    """The scheduled instant in a run id, as a time of day in UTC."""
    return datetime.fromtimestamp(int(run_id.rpartition("@")[2]), UTC).strftime("%H:%M:%SZ")


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms"
