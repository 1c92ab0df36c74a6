"""The figures of the wheel: their names, what they say, and both ways to print them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.table import Table

from mainspring.loadtest.plan import Figures


@dataclass(frozen=True)
class Figure:
    """One figure; its name ends in its unit. ``digits`` are those after the point."""

    name: str
    says: str
    digits: int = 1


FIGURES: Final = (
    Figure("jobs", "interval jobs, the mix of a product that monitors", 0),
    Figure("uuid_keys", "each job has a UUID for its key"),
    Figure("memory_chain_ns", "the machine: a random read of 1 GiB, each after the one before", 0),
    Figure("memory_random_ns", "the same, reads side by side"),
    Figure("bytes_per_job", "resident growth by a fresh load"),
    Figure("accounted_bytes_per_job", "of which the wheel knows"),
    Figure("huge_pages", "more than half of that lies on huge pages"),
    Figure("huge_share", "the part that does", 2),
    Figure("bytes_per_job_after_edits", "after five turns of replacing a fifth, and ticking"),
    Figure("bytes_per_job_peak", "the most on the way there"),
    Figure("bytes_per_job_before_edits", "before the first turn"),
    Figure("bytes_per_job_edited_fresh", "a fresh load of the definitions they end in"),
    Figure("after_edits_ratio", "the end, in fresh loads", 3),
    Figure("peak_ratio", "the peak, in fresh loads", 3),
    Figure("simulated_s", "seconds ticked after the edits", 0),
    Figure("touch_s", "first touch of as much memory, by one thread", 2),
    Figure("load_s", "load from arrays on one thread, first touch subtracted", 2),
    Figure("load_total_s", "with it", 2),
    Figure("touch_2_threads_s", "first touch by two threads", 2),
    Figure("load_2_threads_s", "load on two threads, that subtracted", 2),
    Figure("load_2_threads_total_s", "with it", 2),
    Figure("rearm_ns", "re-arm a due job, no envelope"),
    Figure("fire_ns", "re-arm and envelope"),
    Figure("fire_2_threads_ns", "the same drained by two threads"),
    Figure("two_threads_speedup", "by what factor they are faster", 2),
    Figure("tick_p50_ms", "one second's tick while edits come in: median"),
    Figure("tick_p99_ms", "99th percentile"),
    Figure("tick_p999_ms", "99.9th percentile"),
    Figure("tick_max_ms", "the longest"),
    Figure("ticks", "how many", 0),
    Figure("edits_per_s", "edits that came in meanwhile", 0),
    Figure("lock_hold_p999_us", "a shard's lock held, CPU time, 99.9th percentile"),
    Figure("lock_hold_max_us", "the longest"),
    Figure("lock_holds", "how many", 0),
    Figure("herd_s", "all jobs due in one second, drained whole", 2),
    Figure("edit_ns", "one edit a call", 0),
    Figure("edit_batch_ns", "one of 32 edits a call", 0),
    Figure("edit_grouped_ns", "one of 65,536 edits a call", 0),
    Figure("delete_ns", "one delete a call", 0),
    Figure("lookup_ns", "one of 65,536 jobs looked up a call", 0),
    Figure("watchdog_shard_ms", "one shard proved and healed: median", 2),
    Figure("watchdog_shard_max_ms", "the longest", 2),
    Figure("interval_load_s", "as many jobs with intervals loaded, first touch and all", 2),
    Figure("cron_load_s", "cron jobs on 5,000 expressions loaded, compiled and all", 2),
    Figure("interval_tick_ms", "a second in which a fifth of the intervals is due", 1),
    Figure("cron_tick_ms", "a full hour at which a fifth of the cron jobs is due", 1),
)


def as_json(figures: Figures, shown: Sequence[Figure] = FIGURES) -> Figures:
    """Every figure by name, None where it was not measured; six digits are more than the machine repeats."""
    return {figure.name: _rounded(figures.get(figure.name)) for figure in shown}


def as_table(figures: Figures, shown: Sequence[Figure] = FIGURES) -> Table:
    """The figures that were measured, for people."""
    table = Table(box=None, pad_edge=False)
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_column("is", style="dim")
    for figure in shown:
        if figure.name in figures:
            table.add_row(figure.name, _shown(figures[figure.name], figure.digits), figure.says)
    return table


def _rounded(value: float | int | bool | None) -> float | int | bool | None:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _shown(value: float | int | bool | None, digits: int) -> str:
    if value is None:
        return "not measured"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.{digits}f}"
