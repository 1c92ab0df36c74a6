"""Why a job runs when it does: where it lives in the wheel, its runs before and after a moment, and why a run
did or did not come at an instant.

Pure functions of a definition and the clock; `mainspring explain` reads the definition and prints.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version

from mainspring.engine.jobs.cron_words import cron_words, listed, values_of
from mainspring.engine.jobs.definition import Definition
from mainspring.engine.jobs.instants import epoch_s, iso_of_epoch
from mainspring.wheel import (
    NEVER,
    Schedule,
    ScheduleError,
    interval_next,
    load_zone,
    phase_of,
    shard_of,
    spread_of,
)
from mainspring.wheel.cron_eval import CompiledCron
from mainspring.wheel.cron_rule import matching_days
from mainspring.wheel.schedule import Plan

_LOOKBACK_MAX_S = 200 * 366 * 86_400
_LONG_GAP_S = 3600
_CATCH_UP_MAX_S = 86_400
_FIRST_RUN_TOLD_S = 60
"""A new job is told of its first run for so long: an engine that is there has read it in a second or two."""


@dataclass(frozen=True)
class Verdict:
    """Whether the job has a run at the instant by its definition, and why or why not, most telling first."""

    at: int
    due: bool
    reasons: list[str]


def facts(job: Definition) -> dict[str, str]:
    """Where and how the job stands in the wheel: name and value, for people."""
    assert job.id is not None
    found = {"shard": f"{shard_of(job.id)} of 256"}
    if job.every_s is not None:
        own = "its own" if job.phase_s is not None else "hashed from the id"
        found["schedule"] = f"every {job.every_s} s"
        found["phase"] = f"{_phase(job)} s, {own}"
    if job.cron is not None:
        found |= _cron_facts(job, job.cron)
    if job.run_at is not None:
        found["schedule"] = f"once at {iso_of_epoch(epoch_s(job.run_at))}"
    if job.boost_every_s is not None and job.boost_until is not None:
        until = iso_of_epoch(epoch_s(job.boost_until))
        found["boost"] = (
            f"every {job.boost_every_s} s, phase {phase_of(job.id, job.boost_every_s)} s, until {until}"
        )
    return found


def _cron_facts(job: Definition, expression: str) -> dict[str, str]:
    assert job.id is not None
    cron = CompiledCron(expression, job.tz)
    window_s = _window(job, cron)
    found = {"schedule": expression, "in words": cron_words(cron.spec.drawn(cron.outcomes(job.id)))}
    found["zone"] = f"{job.tz}, by tzdata {version('tzdata')}"
    found["spread"] = "none: exactly on the second"
    if window_s > 1:
        found["spread"] = f"{spread_of(job.id, window_s)} s into {window_s} s, cut to the gap before the next"
    return found


def runs_after(schedule: Schedule, job_id: int, after: int, count: int) -> list[int]:
    """The next `count` runs after a moment."""
    return list(_walk(Plan(schedule, job_id), after, NEVER, count))


def runs_before(schedule: Schedule, job_id: int, at: int, count: int, since: int) -> list[int]:
    """The last `count` runs at or before a moment, none before `since`; ascending."""
    plan, back = Plan(schedule, job_id), 60
    while True:
        start = max(at - back, since - 1)
        runs = list(_walk(plan, start, at, None))
        if len(runs) >= count or start == since - 1 or back > _LOOKBACK_MAX_S:
            return runs[len(runs) - min(count, len(runs)) :]
        back *= 4


def _walk(plan: Plan, after: int, last: int, count: int | None) -> Iterator[int]:
    due = plan.next(after)
    while due <= last and due != NEVER and (count is None or count > 0):
        yield due
        count = None if count is None else count - 1
        due = plan.next(due)


def first_run(job: Definition, age_s: float) -> str | None:
    """When the run soon after the insert comes, which is `age_s` seconds ago."""
    if not (job.first_run_soon and job.enabled and job.run_at is None and 0 <= age_s < _FIRST_RUN_TOLD_S):
        return None
    assert job.id is not None
    within_s = 5 if job.every_s is None else max(1, min(5, job.every_s // 2))
    return (
        f"once beside the schedule, {1 + phase_of(job.id, within_s)} s after the second in which it was "
        "inserted (changed_at in the change log)"
    )


def unsure(changed_at: datetime, pruned_at: datetime) -> str:
    """Why a verdict that rests on a pruned change log may be of another definition than the one that held."""
    changed, pruned = (iso_of_epoch(epoch_s(moment)) for moment in (changed_at, pruned_at))
    return (
        f"not certain: the change log was pruned at {pruned}, and of this job it tells nothing before its "
        f"change at {changed}; what held just before that is taken here, and an earlier change may be gone"
    )


# -------------------------------------------------------------------------------------------- at an instant


def verdict(job: Definition | None, at: int, now: int, window_s: int) -> Verdict:
    """Whether and why the definition that held at `at` (None: there was none) has a run there.

    `window_s` is the engine's catch_up_window_s.
    """
    if job is None:
        return Verdict(at, False, ["the job was not there yet: it was created later"])
    if quarantined := job.quarantine_reason():
        return Verdict(at, False, [f"the job was quarantined: {quarantined}"])
    try:
        return _judged(job, job.schedule(), at, now, window_s)
    except ScheduleError as error:
        return Verdict(at, False, [f"the job was quarantined: {error}"])


def _judged(job: Definition, schedule: Schedule, at: int, now: int, window_s: int) -> Verdict:
    assert job.id is not None
    due = Plan(schedule, job.id).next(at - 1) == at
    reasons = _outside(job, at) + _boosted(job, at) if not due else []
    if not reasons:
        reasons = _by_kind(job, at, due)
    if not job.enabled:
        return Verdict(at, False, ["the job was paused then", *reasons])
    return Verdict(at, due, reasons + ([_delivery(job, at, now, window_s)] if due else []))


def _outside(job: Definition, at: int) -> list[str]:
    if job.starts_at is not None and at < epoch_s(job.starts_at):
        return [f"outside the window: it starts at {iso_of_epoch(epoch_s(job.starts_at))}"]
    if job.ends_at is not None and at >= epoch_s(job.ends_at):
        return [f"outside the window: it ended at {iso_of_epoch(epoch_s(job.ends_at))}"]
    return []


def _boosted(job: Definition, at: int) -> list[str]:
    if job.boost_every_s is None or job.boost_until is None or at >= epoch_s(job.boost_until):
        return []
    return [
        f"the job was boosted until {iso_of_epoch(epoch_s(job.boost_until))}: until then it runs every "
        f"{job.boost_every_s} s and not by its own schedule"
    ]


def _by_kind(job: Definition, at: int, due: bool) -> list[str]:
    assert job.id is not None
    if due and _boosted(job, at):
        phase = phase_of(job.id, job.boost_every_s or 1)
        return [f"the boost runs every {job.boost_every_s} s, at phase {phase} s"]
    if job.every_s is not None:
        told = f"the grid is every {job.every_s} s at phase {_phase(job)} s"
        before = interval_next(job.every_s, _phase(job), 0, at - 1) - job.every_s
        near = f"{iso_of_epoch(before)} and {iso_of_epoch(before + job.every_s)}"
        return [told if due else f"off the grid: {told}; beside it lie {near}"]
    if job.cron is not None:
        return _cron_reasons(job, CompiledCron(job.cron, job.tz), at, due)
    assert job.run_at is not None
    return [f"it is a one-shot at {iso_of_epoch(epoch_s(job.run_at))}"]


def _delivery(job: Definition, at: int, now: int, window_s: int) -> str:
    """What an engine that was away at that second still owes of this run, and until when."""
    if at > now:
        return "it is still to come"
    if job.catch_up == "none":
        return "published in its second; one that the engine missed is not made up for: catch_up is none"
    owed_s = _owed_s(job, at, window_s)
    if now - at > owed_s:
        return (
            f"published in its second; if the engine missed that, it is older than the catch-up, {owed_s} s"
        )
    return f"published in its second; if the engine missed that, it is owed for {owed_s} s"


def _owed_s(job: Definition, at: int, window_s: int) -> int:
    """How long a missed run is owed: the window, or while it is the newest where that is what counts."""
    gap = min(Plan(job.schedule(), job.id).next(at) - at, _CATCH_UP_MAX_S)
    if job.catch_up == "latest":
        return gap
    return max(window_s, gap) if gap > _LONG_GAP_S else window_s


# ---------------------------------------------------------------------------------------------------- cron


def _cron_reasons(job: Definition, cron: CompiledCron, at: int, due: bool) -> list[str]:
    assert job.id is not None
    base, following = cron.last(at, job.id), cron.next(at, job.id)
    window_s = min(_window(job, cron), following - base)
    spread = spread_of(job.id, window_s)
    if due:
        reasons = [f"{local_of(job.tz, base)} is named by the expression"]
        reasons += [f"and the id spreads it by {spread} s of {window_s} s"] if spread else []
        return reasons + _skipped(cron, job.id, base)
    if base <= at < base + window_s and spread != at - base:
        return [f"spread: {local_of(job.tz, base)} is named, and the id puts its run {spread} s after it"]
    return _unnamed(cron, job.id, at)


def _unnamed(cron: CompiledCron, job_id: int, at: int) -> list[str]:
    """Which fields do not name the instant; or, where all do, that a clock showed this time before."""
    spec = cron.spec.drawn(cron.outcomes(job_id))
    wall = _wall(cron.tz, at)
    shown = ((spec.seconds, "second", wall.second), (spec.minutes, "minute", wall.minute))
    shown += ((spec.hours, "hour", wall.hour), (spec.months, "month", wall.month))  # type: ignore[assignment]
    wrong = [
        f"{name} {value} is not {listed([str(v) for v in values_of(mask)], 'or')}"
        for mask, name, value in shown
        if not mask >> value & 1
    ]
    if not wrong and not matching_days(spec, wall.year, wall.month) >> wall.day & 1:
        wrong = [f"{wall:%A} {wall.day} is no day that it names"]
    if wrong:
        return [f"the wall shows {local_of(cron.tz, at)}, and {listed(wrong)}", *_change_near(cron.tz, at)]
    return [
        f"overlap: {local_of(cron.tz, at)} is shown for the second time, and a fixed time runs at the first",
        *_change_near(cron.tz, at),
    ]


def _skipped(cron: CompiledCron, job_id: int, base: int) -> list[str]:
    """A run in the first second after a gap may stand for times that the clock left out."""
    spec, wall = cron.spec.drawn(cron.outcomes(job_id)), _wall(cron.tz, base)
    named = spec.hours >> wall.hour & spec.minutes >> wall.minute & spec.seconds >> wall.second & 1
    if named and matching_days(spec, wall.year, wall.month) >> wall.day & 1:
        return []
    return ["gap: its time was skipped, so it runs at the first moment after", *_change_near(cron.tz, base)]


def _change_near(tz: str, at: int) -> list[str]:
    """The change of the clock in the day around an instant, where there is one."""
    zone = load_zone(tz)
    near = [int(start) for start in zone.starts if abs(int(start) - at) < 86_400]
    return [
        f"the clock of {tz} went from {_wall(tz, start - 1, 1):%H:%M} to {_wall(tz, start):%H:%M} at "
        f"{iso_of_epoch(start)}"
        for start in near
    ]


def _window(job: Definition, cron: CompiledCron) -> int:
    return cron.spec.window_s if job.jitter_s is None else job.jitter_s


def _phase(job: Definition) -> int:
    assert job.every_s is not None
    assert job.id is not None
    return phase_of(job.id, job.every_s) if job.phase_s is None else job.phase_s % job.every_s


def _wall(tz: str, at: int, later: int = 0) -> datetime:
    return datetime.fromtimestamp(at + load_zone(tz).offset_at(at) + later, UTC)


def local_of(tz: str, at: int) -> str:
    """The instant as the wall shows it: ISO 8601 with the offset of that moment."""
    minutes = load_zone(tz).offset_at(at) // 60
    sign = "-" if minutes < 0 else "+"
    offset = f"{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    return _wall(tz, at).replace(tzinfo=None).isoformat() + offset
