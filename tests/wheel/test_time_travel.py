"""The whole wheel under a virtual clock, second by second over the hours when clocks and calendars are odd.

Its runs are exactly those that the twin finds by playing the minutes through. `make travel` takes a week for
each moment.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from itertools import pairwise

import pytest
from wheel_rows import Job, drain, faults, put

from mainspring.wheel import OP_UPDATE, Frames, Schedule, Wheel, load_zone, twin

HOUR = 3600
# Hours before and after each odd moment.
BEFORE, AFTER = 3, int(os.environ.get("MAINSPRING_TRAVEL_HOURS", "4"))

# A zone and one of its changes of the clock: both directions, half hours, two hours, midnight, whole days.
CHANGES = [
    ("Europe/Berlin", "2026-03-29T01:00Z"),
    ("Europe/Berlin", "2026-10-25T01:00Z"),
    ("America/New_York", "2026-03-08T07:00Z"),
    ("America/New_York", "2026-11-01T06:00Z"),
    ("Europe/Dublin", "2026-10-25T01:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T15:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T15:30Z"),
    ("Pacific/Chatham", "2026-09-26T14:00Z"),
    ("Antarctica/Troll", "2026-03-29T01:00Z"),
    ("Asia/Beirut", "2026-03-28T22:00Z"),
    ("America/St_Johns", "2026-11-01T04:30Z"),
    ("America/Sao_Paulo", "2018-11-04T03:00Z"),
    ("Africa/Casablanca", "2026-02-15T02:00Z"),
    ("America/Nuuk", "2026-03-29T01:00Z"),
    ("Pacific/Apia", "2011-12-30T10:00Z"),
]
MOMENTS = [
    ("UTC", "2028-02-29T00:00Z"),
    ("Asia/Tokyo", "2027-12-31T15:00Z"),
    ("UTC", "2100-02-28T23:59Z"),
    ("UTC", "2038-01-19T03:14Z"),
    ("Europe/London", "2106-02-07T06:28Z"),
]
CRONS = [
    ("30 2 * * *", None),
    ("0 0 * * *", 0),
    ("0,15,30,45 1-3 * * *", 0),
    ("*/30 * * * *", None),
    ("17 */2 * * *", 600),
    ("59 23 L,LW * *", None),
    ("0 0 29,1 2,3,1 ?", 3600),
    ("H * * * *", None),
    ("H H(0-4) * * *", 7200),
    ("*/20 30 1,2 * * *", None),
    ("10 */15 0-4 * * *", 30),
    ("5 0 * * SUN#1,SUN#5,SUNL", None),
]


def epoch(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def jobs_around(tz: str, moment: int) -> list[Job]:
    crons = [Schedule(cron=cron, tz=tz, jitter_s=jitter_s) for cron, jitter_s in CRONS]
    others = [
        Schedule(every_s=1800),
        Schedule(every_s=86_400),
        Schedule(run_at=moment),
        Schedule(every_s=600, phase_s=7, starts_at=moment - 100, ends_at=moment + 4000),
        Schedule(cron="*/10 * * * *", tz=tz, ends_at=moment + HOUR),
        Schedule(cron="0 * * * *", tz=tz, boost_every_s=100, boost_until=moment + 1234),
    ]
    return [Job(1000 + number, schedule) for number, schedule in enumerate(crons + others)]


def own_runs(schedule: Schedule, job_id: int, first: int, last: int) -> Iterator[int]:
    """The runs in [first, last] without window and boost, as the twin sees them."""
    if schedule.cron is None:
        due = twin.own_next(schedule, job_id, first - 1)
        while due <= last:
            yield due
            due = twin.own_next(schedule, job_id, due)
        return
    default = 1 if len(schedule.cron.split()) == 6 else 60
    window_s = default if schedule.jitter_s is None else schedule.jitter_s
    bases = twin.base_instants(schedule.cron, schedule.tz, first - window_s - 1, job_id)
    for base, following in pairwise(bases):
        if base > last:
            return
        due = base + twin.spread_of(job_id, min(window_s, following - base))
        if first <= due <= last:
            yield due


def runs(schedule: Schedule, job_id: int, first: int, last: int) -> list[int]:
    if schedule.boost_every_s is not None and schedule.boost_until is not None:
        fast = Schedule(every_s=schedule.boost_every_s)
        found = list(own_runs(fast, job_id, first, min(last, schedule.boost_until - 1)))
        found += own_runs(schedule, job_id, max(first, schedule.boost_until), last)
    else:
        found = list(own_runs(schedule, job_id, first, last))
    starts = first if schedule.starts_at is None else schedule.starts_at
    ends = last + 1 if schedule.ends_at is None else schedule.ends_at
    return [due for due in found if starts <= due < ends]


def drained(wheel: Wheel, last: int) -> set[tuple[int, int]]:
    frames, found = Frames(), []
    while wheel.now < last:
        found += drain(wheel, frames=frames)
    assert len(set(found)) == len(found), "no run comes twice"
    return set(found)


@pytest.mark.parametrize(("tz", "text"), CHANGES + MOMENTS)
def test_the_runs_are_the_twins(tz: str, text: str) -> None:
    moment = epoch(text)
    first, last = moment - BEFORE * HOUR, moment + AFTER * HOUR
    jobs = jobs_around(tz, moment)
    wheel = Wheel(first - 1)
    put(wheel, *jobs)
    expected = {(job.id, due) for job in jobs for due in runs(job.schedule, job.id, first, last)}
    found = drained(wheel, last)
    assert sorted(found - expected) == []
    assert sorted(expected - found) == []
    assert faults(wheel) == {}


@pytest.mark.parametrize(("tz", "text"), CHANGES)
def test_the_moments_are_changes_of_the_clock(tz: str, text: str) -> None:
    assert epoch(text) in load_zone(tz).starts


@pytest.mark.parametrize("own", [Schedule(every_s=900), Schedule(cron="30 2 * * *", tz="Europe/Berlin")])
def test_a_boost_that_comes_amid_a_change_ends_by_itself(own: Schedule) -> None:
    moment = epoch("2026-03-29T01:00Z")
    begins, until, last = moment - 1000, moment + 2000, moment + 26 * HOUR
    wheel = Wheel(moment - 4 * HOUR)
    job = Job(77, own)
    put(wheel, job)
    found = drained(wheel, begins - 1)
    boosted = replace(own, boost_every_s=30, boost_until=until)
    put(wheel, replace(job, schedule=boosted), op=OP_UPDATE)
    found |= drained(wheel, last)
    expected = runs(own, 77, moment - 4 * HOUR + 1, begins - 1) + runs(boosted, 77, begins, last)
    assert sorted(found) == [(77, due) for due in expected]
    assert len([due for due in expected if begins <= due < until]) == 100
