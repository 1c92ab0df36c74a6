"""Runs of missed seconds: given or skipped by each job's own rule, and always counted."""

import pytest
from wheel_rows import Job, drain, faults, put

from mainspring.wheel import CATCH_UP_ALL, CATCH_UP_LATEST, CATCH_UP_NONE, Frames, Schedule, Wheel

NOW = 1_764_500_000
MINUTELY = Schedule(every_s=60, phase_s=(NOW + 1) % 60)
DAILY = Schedule(every_s=86_400, phase_s=(NOW + 1) % 86_400)
ENDED = Schedule(every_s=60, phase_s=(NOW + 1) % 60, ends_at=NOW + 2)
HOURLY = Schedule(every_s=3600, phase_s=(NOW + 1) % 3600)
LONGER = Schedule(every_s=3601, phase_s=(NOW + 1) % 3601)
WEEKLY = Schedule(every_s=604_800, phase_s=(NOW + 1) % 604_800)
ONCE = Schedule(run_at=NOW + 1)


@pytest.mark.parametrize(
    ("schedule", "catch_up", "late_s", "reason"),
    [
        (MINUTELY, CATCH_UP_NONE, 5, None),
        (MINUTELY, CATCH_UP_NONE, 6, "none"),
        (MINUTELY, CATCH_UP_ALL, 90, None),
        (MINUTELY, CATCH_UP_ALL, 91, "window"),
        (MINUTELY, CATCH_UP_LATEST, 65, None),
        (MINUTELY, CATCH_UP_LATEST, 66, "latest"),
        (HOURLY, CATCH_UP_ALL, 91, "window"),
        (LONGER, CATCH_UP_ALL, 3606, None),
        (LONGER, CATCH_UP_ALL, 3607, "window"),
        (LONGER, CATCH_UP_LATEST, 3606, None),
        (LONGER, CATCH_UP_LATEST, 3607, "latest"),
        (DAILY, CATCH_UP_NONE, 6, "none"),
        (DAILY, CATCH_UP_ALL, 86_400, None),
        (DAILY, CATCH_UP_ALL, 86_401, "window"),
        (DAILY, CATCH_UP_LATEST, 86_400, None),
        (WEEKLY, CATCH_UP_ALL, 86_401, "window"),
        (WEEKLY, CATCH_UP_LATEST, 86_401, "window"),
        (ONCE, CATCH_UP_NONE, 6, "none"),
        (ONCE, CATCH_UP_ALL, 86_400, None),
        (ONCE, CATCH_UP_LATEST, 86_400, None),
        (ONCE, CATCH_UP_ALL, 86_401, "window"),
        (ENDED, CATCH_UP_ALL, 91, "window"),
        (ENDED, CATCH_UP_LATEST, 300, None),
    ],
)
def test_a_late_run_is_owed_as_its_job_says(
    schedule: Schedule, catch_up: int, late_s: int, reason: str | None
) -> None:
    wheel, frames = Wheel(NOW), Frames()
    put(wheel, Job(1, schedule, catch_up=catch_up))
    assert wheel.drain(NOW + 1, NOW + 1 + late_s, frames)
    assert frames.due == 1
    assert len(frames) == (reason is None)
    assert {name: count for name, count in frames.skipped.items() if count} == ({reason: 1} if reason else {})
    assert faults(wheel) == {}


@pytest.mark.parametrize(("key", "data"), [("k" * 40, None), (None, '"d"'), ("k", '"' + "d" * 300 + '"')])
@pytest.mark.parametrize(
    ("schedule", "catch_up", "last_late_s"),
    [
        (MINUTELY, CATCH_UP_NONE, 5),
        (MINUTELY, CATCH_UP_LATEST, 65),
        (MINUTELY, CATCH_UP_ALL, 90),
        (LONGER, CATCH_UP_ALL, 3606),
        (LONGER, CATCH_UP_LATEST, 3606),
        (ONCE, CATCH_UP_ALL, 86_400),
    ],
)
def test_the_last_run_that_is_still_owed_carries_its_key_and_payload(
    schedule: Schedule, catch_up: int, last_late_s: int, key: str | None, data: str | None
) -> None:
    """What surely nobody reads is not fetched: the edge of that is the edge of what is owed."""
    frames = {}
    for late_s in (0, last_late_s - 1, last_late_s):
        wheel, frames[late_s] = Wheel(NOW), Frames()
        put(wheel, Job(1, schedule, key=key, data=data, catch_up=catch_up))
        assert wheel.drain(NOW + 1, NOW + 1 + late_s, frames[late_s])
    assert len({bytes(each.view()) for each in frames.values()}) == 1
    assert (key or "1").encode() in bytes(frames[0].view())
    assert (data or "").encode() in bytes(frames[0].view())


def test_the_window_is_the_wheels_own() -> None:
    wheel = Wheel(NOW, catch_up_window_s=10)
    put(wheel, Job(1, MINUTELY), Job(2, Schedule(every_s=60, phase_s=(NOW + 2) % 60)))
    assert drain(wheel, NOW + 12) == []
    assert drain(wheel, NOW + 12) == [(2, NOW + 2)]


def test_a_clock_set_back_owes_every_run() -> None:
    wheel = Wheel(NOW)
    put(wheel, Job(1, MINUTELY, catch_up=CATCH_UP_NONE))
    assert drain(wheel, NOW - 3600) == [(1, NOW + 1)]


def test_skipped_runs_need_no_room_in_the_frames() -> None:
    wheel, frames = Wheel(NOW), Frames(max_frames=1)
    put(wheel, *(Job(i, Schedule(every_s=1), catch_up=CATCH_UP_NONE) for i in range(1000)))
    assert wheel.drain(NOW + 1, NOW + 100, frames)
    assert (frames.due, frames.skipped["none"], len(frames)) == (1000, 1000, 0)
