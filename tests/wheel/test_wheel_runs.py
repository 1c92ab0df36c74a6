"""What the wheel gives, second by second, and what it refuses."""

import json

import numpy as np
import pytest
from wheel_rows import Change, Job, batch, drain, drain_until, every, faults, put, runs_of

from mainspring.wheel import (
    OP_DELETE,
    OP_INSERT,
    OP_LOAD,
    OP_UPDATE,
    Frames,
    Schedule,
    ScheduleError,
    Wheel,
    interval_next,
    job_hash,
    next_fires,
    phase_of,
    shard_of,
)

NOW = 1_764_500_000
EDGES = (NOW, 2**31 - 5, 2**32 - 5, -3)
IDS = (0, 42, -1, 2**63 - 1, -(2**63), 2**32)


def first_frame(wheel: Wheel, **frames: int) -> bytes:
    out = Frames(**frames)
    out.reset(7)
    while not len(out):
        wheel.drain(wheel.now + 1, wheel.now + 1, out)
    return bytes(out.frame(0))


def body_of(frame: bytes) -> dict[str, object]:
    body: dict[str, object] = json.loads(frame[frame.index(b"\r\n\r\n") + 4 : -2])
    return body


def test_a_frame_is_exactly_what_the_broker_reads() -> None:
    wheel = Wheel(1_764_499_999, instance="spring", reply_prefix="_INBOX.me")
    put(wheel, every(42, 1, key='say "hi"', data='{"a": 1}', route="checks.http"))
    headers = b"NATS/1.0\r\nNats-Msg-Id: 42@1764500000\r\nContent-Type: application/cloudevents+json\r\n\r\n"
    body = (
        b'{"specversion":"1.0","type":"mainspring.run","source":"spring","id":"42@1764500000",'
        b'"subject":"say \\"hi\\"","time":"2025-11-30T10:53:20Z","data":{"a": 1}}'
    )
    line = b"HPUB spring.run.checks.http _INBOX.me.7 %d %d\r\n" % (len(headers), len(headers + body))
    assert first_frame(wheel) == line + headers + body + b"\r\n"


@pytest.mark.parametrize(
    "key",
    [
        None,
        "plain",
        'é\u2028\x01\t\\"',
        "123e4567-e89b-12d3-a456-426614174000",
        "123E4567-e89b-12d3-a456-426614174000",
        "\x1f" * 255,
    ],
)
@pytest.mark.parametrize("data", [None, "null", '"' + "x" * 65_534 + '"', '{"k":[1,2]}'])
def test_key_and_payload_come_back_as_they_went_in(key: str | None, data: str | None) -> None:
    wheel = Wheel(NOW)
    put(wheel, every(-7, 1, key=key, data=data))
    event = body_of(first_frame(wheel))
    assert event["subject"] == (key or "-7")
    assert ("data" in event) == (data is not None)
    assert event.get("data") == json.loads(data or "null")


@pytest.mark.parametrize("start", EDGES)
@pytest.mark.parametrize("seconds", [1, 60, 3599, 3600, 3601, 7200])
def test_intervals_come_on_their_grid_and_at_no_other_time(start: int, seconds: int) -> None:
    wheel = Wheel(start)
    put(wheel, *(every(job_id, seconds) for job_id in IDS))
    end = start + 2 * seconds + 60
    expected = set()
    for job_id in IDS:
        due = interval_next(seconds, phase_of(job_id, seconds), 0, start)
        expected |= {(job_id, at) for at in range(due, end + 1, seconds)}
    runs = drain_until(wheel, end)
    assert len(runs) == len(expected)
    assert set(runs) == expected
    assert [at for _, at in runs] == sorted(at for _, at in runs)
    assert faults(wheel) == {}


def test_days_go_by_and_every_daily_run_comes() -> None:
    wheel = Wheel(NOW)
    jobs = [Job(i, Schedule(every_s=86_400 + 600 * (i % 3))) for i in range(60)]
    put(wheel, *jobs)
    end = NOW + 2 * 86_400 + 7
    runs = drain_until(wheel, end)
    expected = {(job.id, at) for job in jobs for at in next_fires(job.schedule, job.id, NOW, 4) if at <= end}
    assert set(runs) == expected
    assert len(runs) == len(expected)
    assert faults(wheel) == {}


def test_a_full_buffer_resumes_in_the_same_order() -> None:
    whole, pieces = Wheel(NOW), Wheel(NOW)
    jobs = [Job(i, Schedule(every_s=10, phase_s=(NOW + 1) % 10)) for i in range(3000)]
    put(whole, *jobs)
    put(pieces, *jobs)
    expected = drain(whole)
    assert len(expected) == 3000
    assert drain(pieces, frames=Frames(max_frames=7)) == expected
    assert faults(pieces) == {}


def test_a_herd_in_one_shard_comes_in_bounded_pieces_and_is_promoted_whole() -> None:
    wheel = Wheel(NOW)
    herd = [i for i in range(400_000) if job_hash(i) >> 56 == 5][:1400]
    put(wheel, *(Job(i, Schedule(run_at=NOW + 9000)) for i in herd))
    assert drain_until(wheel, NOW + 8999) == []
    assert sorted(drain(wheel)) == [(i, NOW + 9000) for i in herd]
    assert faults(wheel) == {}


def test_frames_that_are_full_by_bytes_go_on_in_the_next() -> None:
    wheel = Wheel(NOW)
    put(wheel, *(every(i, 1, data='"' + "x" * 60_000 + '"') for i in range(5)))
    frames = Frames(capacity=69_632)
    assert len(drain(wheel, frames=frames)) == 5


def test_only_the_second_after_now_can_be_drained() -> None:
    wheel = Wheel(NOW)
    for second in (NOW, NOW + 2):
        with pytest.raises(ValueError, match=f"next second to drain is {NOW + 1}"):
            wheel.drain(second, second, Frames())


def test_frames_of_one_second_are_not_mixed_with_those_of_another() -> None:
    wheel, frames = Wheel(NOW), Frames()
    put(wheel, every(1, 1))
    wheel.drain(NOW + 1, NOW + 1, frames)
    with pytest.raises(ValueError, match="reset them"):
        wheel.drain(NOW + 2, NOW + 2, frames)
    frames.reset(1)
    assert wheel.drain(NOW + 2, NOW + 2, frames)
    assert frames.run_id(0) == f"1@{NOW + 2}"
    assert (frames.second, frames.due, frames.view().nbytes) == (NOW + 2, 1, frames.nbytes)


# ----------------------------------------------------------------------------------------- edits


def test_an_older_change_is_passed_over_and_a_load_never() -> None:
    wheel = Wheel(NOW)
    assert put(wheel, every(1, 7), seq=10) == 1
    assert put(wheel, every(1, 8), op=OP_UPDATE, seq=9) == 0
    assert put(wheel, every(1, 9), op=OP_UPDATE, seq=10) == 0
    assert put(wheel, every(1, 7), op=OP_DELETE, seq=9) == 0
    assert put(wheel, every(1, 11), op=OP_LOAD) == 1
    assert put(wheel, every(1, 12), op=OP_UPDATE, seq=3) == 1


def test_seqs_that_wrap_around_32_bits_are_still_compared_right() -> None:
    wheel = Wheel(NOW)
    put(wheel, every(1, 7), seq=2**32 - 1)
    assert put(wheel, every(1, 8), op=OP_UPDATE, seq=2**32 + 1) == 1
    assert put(wheel, every(1, 9), op=OP_UPDATE, seq=2**32 - 1) == 0


def test_a_paused_or_deleted_job_gives_no_run() -> None:
    wheel = Wheel(NOW)
    put(wheel, every(1, 1), every(2, 1))
    put(wheel, Job(1, Schedule(every_s=1), enabled=False), op=OP_UPDATE)
    put(wheel, every(2, 1), op=OP_DELETE)
    assert drain(wheel) == []
    assert wheel.counts() == {"interval": 0, "cron": 0, "once": 0, "paused": 1}
    assert (1 in wheel, 2 in wheel, wheel.next_due(1)) == (True, False, None)


def test_rows_of_one_job_in_one_batch_apply_in_order() -> None:
    wheel = Wheel(NOW)
    changes = [
        Change(every(1, 1), OP_INSERT, 1),
        Change(every(1, 1), OP_DELETE, 2),
        Change(Job(1, Schedule(run_at=NOW + 2)), OP_INSERT, 3),
    ]
    assert wheel.apply(*batch(wheel, changes)) == 3
    assert drain_until(wheel, NOW + 5) == [(1, NOW + 2)]
    assert wheel.counts()["once"] == 1


@pytest.mark.parametrize(
    ("op", "late_s", "runs"),
    [(OP_INSERT, 0, 1), (OP_INSERT, 86_399, 1), (OP_INSERT, 86_400, 0), (OP_UPDATE, 5, 1), (OP_LOAD, 5, 0)],
)
def test_a_one_shot_committed_late_runs_at_once_under_its_own_id(op: int, late_s: int, runs: int) -> None:
    wheel = Wheel(NOW)
    put(wheel, Job(1, Schedule(run_at=NOW - late_s)), op=op)
    assert drain_until(wheel, NOW + 3) == [(1, NOW - late_s)] * runs
    assert wheel.next_due(1) is None
    assert faults(wheel) == {}


def test_a_finished_one_shot_stays_finished_when_only_its_payload_changes() -> None:
    wheel = Wheel(NOW)
    put(wheel, Job(1, Schedule(run_at=NOW + 1)))
    assert drain(wheel) == [(1, NOW + 1)]
    put(wheel, Job(1, Schedule(run_at=NOW + 1), data="1"), op=OP_UPDATE)
    assert drain(wheel) == []


def test_one_shots_beyond_the_reach_of_32_bits_wait_with_their_exact_instant() -> None:
    wheel = Wheel(NOW)
    for instant in (NOW + 2**32 - 2, NOW + 2**32, 2**40):
        put(wheel, Job(1, Schedule(run_at=instant)))
        assert wheel.next_due(1) == instant
        assert faults(wheel) == {}


@pytest.mark.parametrize(
    "schedule", [Schedule(every_s=3600), Schedule(every_s=4), Schedule(cron="0 3 * * *")]
)
def test_the_first_run_comes_soon_and_then_the_schedule(schedule: Schedule) -> None:
    wheel = Wheel(NOW)
    put(wheel, Job(9, schedule, first_run_soon=True))
    window = 2 if schedule.every_s == 4 else 5
    soon = NOW + 1 + job_hash(9) % window
    assert wheel.next_due(9) == min(soon, *next_fires(schedule, 9, NOW, 1))
    end = NOW + 30
    expected = {soon, *(at for at in next_fires(schedule, 9, NOW, 20) if at <= end)}
    assert [at for _, at in drain_until(wheel, end)] == sorted(expected)
    assert faults(wheel) == {}


def test_clear_forgets_all_jobs_amid_a_second_and_keeps_the_clock() -> None:
    wheel, frames = Wheel(NOW), Frames(max_frames=1)
    put(wheel, *(every(i, 1) for i in range(50)))
    assert not wheel.drain(NOW + 1, NOW + 1, frames)
    wheel.clear()
    assert (len(wheel), drain(wheel), wheel.now) == (0, [], NOW + 1)
    put(wheel, every(1, 1))
    assert drain(wheel) == [(1, NOW + 2)]
    assert faults(wheel) == {}


@pytest.mark.parametrize(
    ("old", "new", "owes"),
    [
        (Job(1, Schedule(every_s=1)), Job(1, Schedule(every_s=1), data="2"), True),
        (Job(1, Schedule(every_s=1)), Job(1, Schedule(every_s=2, phase_s=(NOW + 1) % 2)), True),
        (Job(1, Schedule(every_s=1)), Job(1, Schedule(every_s=2, phase_s=NOW % 2)), False),
        (Job(1, Schedule(every_s=1)), Job(1, Schedule(run_at=NOW + 1)), True),
        (Job(1, Schedule(every_s=1)), Job(1, Schedule(every_s=1), enabled=False), False),
        (Job(1, Schedule(run_at=NOW + 1)), Job(1, Schedule(run_at=NOW + 1), key="new"), True),
        (Job(1, Schedule(run_at=NOW + 1)), Job(1, Schedule(run_at=NOW + 9)), False),
    ],
)
def test_an_edit_of_a_job_that_waits_amid_a_second_leaves_it_what_the_new_definition_owes(
    old: Job, new: Job, owes: bool
) -> None:
    wheel, frames = Wheel(NOW), Frames(max_frames=1)
    before = [Job(i, Schedule(every_s=1)) for i in range(2, 60_000) if shard_of(i) == shard_of(1)][:3]
    put(wheel, old, *before)
    assert not wheel.drain(NOW + 1, NOW + 1, frames)
    assert frames.job_id(0) != 1
    assert put(wheel, new, op=OP_UPDATE, seq=1)
    assert faults(wheel) == {}
    runs = drain(wheel)
    assert ((1, NOW + 1) in runs) == owes
    assert len(runs) == len(before) - 1 + owes
    assert faults(wheel) == {}


# ---------------------------------------------------------------------------------------- borders


@pytest.mark.parametrize(
    "field", ["every_s", "route", "kind", "op", "catch_up", "key_len", "data_len", "cron"]
)
def test_a_row_that_cannot_be_good_is_named_and_nothing_is_applied(field: str) -> None:
    wheel = Wheel(NOW)
    rows, texts = batch(wheel, [Change(every(1, 5)), Change(every(2, 5))])
    if field == "cron":
        rows["kind"][1] = 2
    rows[field][1] = {"every_s": 0, "route": 9, "kind": 4, "cron": 3}.get(field, 200)
    with pytest.raises(ValueError, match=f"row 1, job 2: .*{field}="):
        wheel.apply(rows, texts)
    assert len(wheel) == 0


def test_rows_of_another_type_are_refused() -> None:
    with pytest.raises(TypeError, match="DEFINITION"):
        Wheel(NOW).apply(np.zeros(3, np.int64), b"")


@pytest.mark.parametrize(
    "route", ["", "a b", "a\r\nPUB", "*", "a.>", "a.", ".a", "a..b", "é", "a." * 8 + "a", "a" * 129, "a\n"]
)
def test_a_route_that_may_not_stand_in_a_subject_is_refused(route: str) -> None:
    with pytest.raises(ValueError, match="route="):
        Wheel(NOW).route(route)


def test_routes_and_expressions_are_numbered_once() -> None:
    wheel = Wheel(NOW)
    assert [wheel.route(route) for route in ("a", "b.c", "a")] == [0, 1, 0]
    assert [wheel.cron("@daily", tz) for tz in ("UTC", "Europe/Berlin", "UTC")] == [0, 1, 0]
    with pytest.raises(ScheduleError):
        wheel.cron("61 * * * *", "UTC")


def test_more_routes_than_16_bits_can_name_still_go_where_they_belong() -> None:
    wheel = Wheel(NOW)
    for i in range(65_540):
        wheel.route(f"r{i}")
    put(wheel, every(1, 1, route="r65539"), every(2, 1, route="r65535"), every(3, 1, route="r65534"))
    frames = Frames()
    wheel.drain(NOW + 1, NOW + 1, frames)
    routes = {frames.job_id(i): bytes(frames.frame(i)).split()[1] for i in range(3)}
    assert routes == {1: b"mainspring.run.r65539", 2: b"mainspring.run.r65535", 3: b"mainspring.run.r65534"}
    assert faults(wheel) == {}


@pytest.mark.parametrize(
    "bad", [{"instance": "a b"}, {"reply_prefix": "a b"}, {"reply_prefix": "a.>"}, {"catch_up_window_s": -1}]
)
def test_a_wheel_is_not_made_with_what_would_break_the_protocol(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        Wheel(NOW, **bad)  # type: ignore[arg-type]


def test_frames_say_what_they_need() -> None:
    with pytest.raises(ValueError, match="capacity=1000"):
        Frames(capacity=1000)
    with pytest.raises(ValueError, match="max_frames=0"):
        Frames(max_frames=0)
    with pytest.raises(IndexError, match="frame 0 of 0"):
        Frames().frame(0)


def test_a_view_outlives_its_frames() -> None:
    wheel, frames = Wheel(NOW), Frames()
    put(wheel, every(1, 1))
    wheel.drain(NOW + 1, NOW + 1, frames)
    view, expected = frames.view(), bytes(frames.view())
    runs = runs_of(frames)
    del frames
    assert (bytes(view), view.readonly, runs) == (expected, True, [(1, NOW + 1)])
