"""A digest tells two wheels apart if and only if their jobs differ, whatever way they came."""

import threading
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from wheel_rows import Change, Job, batch, drain_until, every, put

from mainspring.wheel import (
    DEFINITION,
    OP_DELETE,
    OP_LOAD,
    SHARDS,
    Digester,
    Schedule,
    Wheel,
    shard_of,
    shards_of,
)

START = 1_764_500_000
UUID = "0b54a4a6-6f0f-4a55-9d0c-1f5f2e4b7c11"
PLAIN = every(42, 60, key="web", data='{"n":1}')
CRON = Job(42, Schedule(cron="0 4 * * *", tz="Europe/Berlin"))
ONCE = Job(42, Schedule(run_at=START + 500))


def of(schedule: Schedule, **rest: object) -> Job:
    return replace(PLAIN, schedule=schedule, **rest)  # type: ignore[arg-type]


# Each differs from every other in what one field says.
DISTINCT = [
    PLAIN,
    replace(PLAIN, id=43),
    replace(PLAIN, id=-42),
    replace(PLAIN, enabled=False),
    replace(PLAIN, catch_up=1),
    replace(PLAIN, catch_up=2),
    replace(PLAIN, route="checks"),
    replace(PLAIN, key="web "),
    replace(PLAIN, key=None),
    replace(PLAIN, key=UUID),
    replace(PLAIN, key=UUID.upper()),
    replace(PLAIN, key='we"b'),
    replace(PLAIN, key='we\\"b'),
    replace(PLAIN, data=None),
    replace(PLAIN, data='{"n":2}'),
    replace(PLAIN, data='{"n":1 }'),
    replace(PLAIN, key="web{", data='"n":1}'),
    replace(PLAIN, data="7" * 3000),
    replace(PLAIN, data="7" * 3001),
    of(Schedule(every_s=61)),
    of(Schedule(every_s=60, phase_s=0)),
    of(Schedule(every_s=60, phase_s=1)),
    of(Schedule(every_s=60, starts_at=START)),
    of(Schedule(every_s=60, starts_at=START + 1)),
    of(Schedule(every_s=60, ends_at=START)),
    of(Schedule(every_s=60, starts_at=START, ends_at=START + 1)),
    of(Schedule(every_s=60, boost_every_s=5, boost_until=START)),
    of(Schedule(every_s=60, boost_every_s=5, boost_until=START + 1)),
    of(Schedule(every_s=60, boost_every_s=6, boost_until=START)),
    CRON,
    replace(CRON, schedule=Schedule(cron="0 4 * * *", tz="Europe/Paris")),
    replace(CRON, schedule=Schedule(cron="1 4 * * *", tz="Europe/Berlin")),
    replace(CRON, schedule=Schedule(cron="0 4 * * *", tz="Europe/Berlin", jitter_s=0)),
    replace(CRON, schedule=Schedule(cron="0 4 * * *", tz="Europe/Berlin", jitter_s=60)),
    ONCE,
    replace(ONCE, schedule=Schedule(run_at=START + 501)),
    replace(ONCE, schedule=Schedule(run_at=60)),
    replace(ONCE, schedule=Schedule(run_at=2**40)),
]


def by_rows(wheel: Wheel, jobs: Iterable[Job]) -> NDArray[np.uint64]:
    """The sums of the rows, by shard."""
    rows, texts = batch(wheel, [Change(job) for job in jobs])
    sums = np.zeros(SHARDS, np.uint64)
    np.add.at(sums, shards_of(np.ascontiguousarray(rows["id"])), wheel.digests(rows, texts))
    return sums


def by_walk(wheel: Wheel) -> NDArray[np.uint64]:
    with Digester(wheel) as digester:
        digester.walk()
        return digester.sums()[0]


def loaded(jobs: Iterable[Job]) -> Wheel:
    wheel = Wheel(START)
    with wheel.loader() as loader:
        loader.add(*batch(wheel, [Change(job, OP_LOAD) for job in jobs]))
        loader.finish()
    return wheel


def test_definitions_that_differ_in_one_field_have_digests_that_differ_as_rows_and_in_the_wheel() -> None:
    wheel = Wheel(START)
    rows = wheel.digests(*batch(wheel, [Change(job) for job in DISTINCT]))
    assert len(set(rows.tolist())) == len(DISTINCT)
    for job, digest in zip(DISTINCT, rows.tolist(), strict=True):
        wheel.clear()
        put(wheel, job)
        assert by_walk(wheel).sum() == digest, job
        assert by_walk(loaded([job])).sum() == digest, job


def test_what_has_no_bearing_is_no_part_of_it() -> None:
    """The seq, a pending first run, the instant a job is armed for, and the end of a boost that is none."""
    wheel = Wheel(START)
    rows, texts = batch(
        wheel, [Change(PLAIN), Change(replace(PLAIN, first_run_soon=True), seq=9), Change(PLAIN)]
    )
    rows["boost_until"][2] = START
    assert len(set(wheel.digests(rows, texts).tolist())) == 1
    wheel.apply(rows[1:2], texts)
    before = by_walk(wheel)
    drain_until(wheel, START + 130)
    assert (by_walk(wheel) == before).all()
    assert before.sum() == wheel.digests(rows, texts)[0]


def test_a_delete_adds_nothing_and_a_bad_row_is_refused() -> None:
    wheel = Wheel(START)
    assert wheel.digests(*batch(wheel, [Change(PLAIN, OP_DELETE)])).tolist() == [0]
    with pytest.raises(ValueError, match="row 0, job 0: kind=0"):
        wheel.digests(np.zeros(1, DEFINITION), b"")


jobs_of_any_kind = st.lists(
    st.builds(lambda job, number: replace(job, id=number), st.sampled_from(DISTINCT), st.integers(-50, 50)),
    max_size=40,
)


@given(jobs_of_any_kind, jobs_of_any_kind, st.integers(0, 2))
def test_the_sum_follows_every_edit_from_the_walk_on(
    first: list[Job], then: list[Job], walked_after: int
) -> None:
    """Walked before, amid or after the edits: it is the sum over the definitions that hold at the end."""
    wheel, other = Wheel(START), Wheel(START - 7)
    other.route("numbered otherwise"[:8])
    put(wheel, *first)
    held = {job.id: job for job in first}
    with Digester(wheel) as digester:
        for stage, part in enumerate((then[::2], then[1::2], ())):
            if stage == walked_after:
                digester.walk()
            put(wheel, *part)
            held |= {job.id: job for job in part}
        gone = sorted(held)[::3]
        wheel.apply(*batch(wheel, [Change(held.pop(job_id), OP_DELETE) for job_id in gone]))
        sums, jobs = digester.sums()
    assert (sums == by_rows(other, held.values())).all()
    assert jobs.tolist() == np.bincount([shard_of(job_id) for job_id in held], minlength=SHARDS).tolist()
    assert (sums == by_walk(wheel)).all()
    assert (sums == by_walk(loaded(held.values()))).all()


def test_a_cleared_wheel_has_no_digest_and_one_that_is_filled_again_has_its_own() -> None:
    wheel = Wheel(START)
    put(wheel, *(every(n, 60) for n in range(3000)))
    with Digester(wheel) as digester:
        digester.walk()
        wheel.clear()
        assert not digester.sums()[0].any()
        put(wheel, PLAIN, ONCE)
        assert (digester.sums()[0] == by_rows(wheel, [ONCE])).all()


def test_the_sum_is_right_beside_a_thread_that_edits_and_one_that_drains() -> None:
    wheel = Wheel(START)
    jobs = 60_000
    put(wheel, *(every(n, 30) for n in range(jobs)))
    edits = [
        [replace(every(n, 40 + turn), data="x" * (n % 50)) for n in range(turn, jobs, 7)] for turn in range(7)
    ]

    def edit() -> None:
        for turn in edits:
            put(wheel, *turn)

    threads = [threading.Thread(target=edit), threading.Thread(target=drain_until, args=(wheel, START + 60))]
    with Digester(wheel) as digester:
        for thread in threads:
            thread.start()
        digester.walk()
        for thread in threads:
            thread.join()
        sums = digester.sums()[0]
    assert (sums == by_rows(wheel, [job for turn in edits for job in turn])).all()


def test_a_shard_lists_each_of_its_jobs_with_its_digest() -> None:
    wheel = Wheel(START)
    jobs = [every(n, 60) for n in range(200_000)]
    put(wheel, *jobs)
    rows, texts = batch(wheel, [Change(job) for job in jobs if shard_of(job.id) == 9])
    assert len(rows) > 600
    with Digester(wheel) as digester:
        ids, digests = digester.shard(9)
        with pytest.raises(IndexError, match="shard=256"):
            digester.shard(256)
    order = np.argsort(ids)
    assert ids[order].tolist() == rows["id"].tolist()
    assert digests[order].tolist() == wheel.digests(rows, texts).tolist()


def test_one_digester_at_a_time_walks_once_and_none_beside_a_loader() -> None:
    wheel = Wheel(START)
    with Digester(wheel) as digester:
        with pytest.raises(RuntimeError, match="another digester"):
            Digester(wheel)
        with pytest.raises(RuntimeError, match="a digester is open"):
            wheel.loader()
        with pytest.raises(RuntimeError, match="walk the wheel first"):
            digester.sums()
        digester.walk()
        with pytest.raises(RuntimeError, match="walks once"):
            digester.walk()
    with pytest.raises(RuntimeError, match="closed"):
        digester.sums()
    with wheel.loader(), pytest.raises(RuntimeError, match="a loader is open"):
        Digester(wheel)
    assert not by_walk(wheel).any()
