"""An independent account of which runs are owed: no code of the engine, only the published rules.

An interval job fires at every instant t with t = h mod every_s, modulo every_s, where h is XXH64 of its id. A
change committed between two moments may take effect anywhere between the first and a little after the
second; outside that stretch the account is exact.
"""

import math
import struct
from dataclasses import dataclass, field

import xxhash

Run = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Change:
    """From some moment in (begun, committed + slack] on the job runs every `every_s`; None: not at all."""

    begun: float
    committed: float
    every_s: int | None


@dataclass(slots=True)
class JobHistory:
    """The changes of one job, oldest first."""

    job_id: int
    changes: list[Change] = field(default_factory=list)

    def owed(self, start: int, stop: int, slack_s: float) -> tuple[set[int], set[int]]:
        """Instants in [start, stop) that must have come, and those that may have."""
        must: set[int] = set()
        may: set[int] = set()
        for change, following in zip(self.changes, [*self.changes[1:], None], strict=True):
            if change.every_s is None:
                continue
            sure_from = change.committed + slack_s
            sure_until = following.begun if following else math.inf
            maybe_until = following.committed + slack_s if following else math.inf
            for instant in grid(self.job_id, change.every_s, start, stop):
                if sure_from < instant <= sure_until:
                    must.add(instant)
                if change.begun < instant <= maybe_until:
                    may.add(instant)
        return must, may


def phase(job_id: int, every_s: int) -> int:
    """The job's place on the grid."""
    return xxhash.xxh64_intdigest(struct.pack("<q", job_id), seed=0) % every_s


def grid(job_id: int, every_s: int, start: int, stop: int) -> range:
    """The instants in [start, stop)."""
    first = start + (phase(job_id, every_s) - start) % every_s
    return range(first, stop, every_s)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the stream holds against what was owed."""

    owed: int
    missing: list[Run]
    unexpected: list[Run]
    doubled: list[Run]

    @property
    def clean(self) -> bool:
        return not (self.missing or self.unexpected or self.doubled)

    def __str__(self) -> str:
        parts = [f"{self.owed} runs owed"]
        for name in ("missing", "unexpected", "doubled"):
            runs = getattr(self, name)
            parts.append(f"{len(runs)} {name} {sorted(runs, key=lambda run: run[1])[:5] if runs else ''}")
        return ", ".join(parts)


def judge(
    histories: dict[int, JobHistory], arrived: dict[Run, int], start: int, stop: int, *, slack_s: float
) -> Verdict:
    """Compare all runs of instants in [start, stop). arrived: how often each run is stored."""
    must: set[Run] = set()
    may: set[Run] = set()
    for job_id, history in histories.items():
        job_must, job_may = history.owed(start, stop, slack_s)
        must.update((job_id, instant) for instant in job_must)
        may.update((job_id, instant) for instant in job_may)
    seen = {run for run in arrived if start <= run[1] < stop}
    return Verdict(
        owed=len(must),
        missing=list(must - seen),
        unexpected=list(seen - may - must),
        doubled=[run for run in seen if arrived[run] > 1],
    )
