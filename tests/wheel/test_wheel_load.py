"""A loader makes the wheel that `apply` makes of the same rows, or none; it never makes half of one."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from together import together
from wheel_rows import Change, Job, batch, every, faults, put

from mainspring.wheel import (
    OP_DELETE,
    OP_INSERT,
    OP_LOAD,
    OP_UPDATE,
    Frames,
    Schedule,
    Wheel,
)
from mainspring.wheel.memory import fail_allocation_in

NOW = 1_764_500_000
EVERY = (1, 2, 30, 60, 300, 3599, 3600, 3601, 86_400, 2**31 - 1)
CRONS = ("* * * * *", "*/5 * * * *", "30 2 * * *")
UUID = "123e4567-e89b-12d3-a456-426614174%03d"
# Beside ordinary ones: the largest blob on a page and the smallest on none, with its 4 bytes, and the most.
SIZES = (0, 1, 7, 40, 500, 2043, 2044, 2045, 3000, 65_536)
OFFSETS = st.sampled_from((-90_000, -3600, -1, 0, 1, 30, 3599, 3600, 3601, 7300, 100_000, 3_000_000, 2**33))


def optional(strategy: st.SearchStrategy[int]) -> st.SearchStrategy[int | None]:
    return st.one_of(st.none(), st.none(), strategy)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    kind = draw(st.sampled_from(("every_s", "every_s", "cron", "run_at")))
    fields: dict[str, object] = {"run_at": NOW + draw(OFFSETS)}
    if kind == "every_s":
        fields = {"every_s": draw(st.sampled_from(EVERY)), "phase_s": draw(optional(st.integers(0, 4000)))}
    elif kind == "cron":
        fields = {"cron": draw(st.sampled_from(CRONS)), "jitter_s": draw(optional(st.just(600)))}
    starts = draw(optional(OFFSETS))
    if starts is not None:
        fields |= {"starts_at": NOW + starts, "ends_at": NOW + starts + draw(st.sampled_from((1, 30, 4000)))}
    if kind != "run_at" and draw(st.integers(0, 5)) == 0:
        fields |= {"boost_every_s": draw(st.sampled_from((1, 10, 4000))), "boost_until": NOW + draw(OFFSETS)}
    return Schedule(**fields)  # type: ignore[arg-type]


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    return Job(
        draw(st.one_of(st.integers(0, 40), st.integers(-(2**63), 2**63 - 1))),
        draw(schedules()),
        key=draw(st.sampled_from((None, "check", 'a"b\n\x01', "ü" * 127, UUID % 7, (UUID % 7).upper()))),
        data="x" * draw(st.sampled_from(SIZES)) or None,
        route=draw(st.sampled_from(("default", "checks.http"))),
        enabled=draw(st.integers(0, 4)) > 0,
        first_run_soon=draw(st.booleans()),
        catch_up=draw(st.integers(0, 2)),
    )


def wheel_at(seconds: int) -> Wheel:
    """One that has drained for a while, so that its present is not where it began."""
    wheel = Wheel(NOW - seconds)
    for _ in range(seconds):
        wheel.drain(wheel.now + 1, wheel.now + 1, Frames())
    return wheel


def load(wheel: Wheel, changes: Sequence[Change], pieces: int = 1) -> None:
    with wheel.loader() as loader:
        size = len(changes) // pieces + 1
        for first in range(0, len(changes), size):
            loader.add(*batch(wheel, changes[first : first + size]))
        loader.finish()


def runs(wheel: Wheel, seconds: int) -> list[Counter[bytes]]:
    """What goes out in each of the next seconds, but for the number of the reply, which tells the order."""
    frames = Frames(capacity=2**20)
    given: list[Counter[bytes]] = []
    for _ in range(seconds):
        second, whole = wheel.now + 1, False
        given.append(Counter())
        while not whole:
            frames.reset(0)
            whole = wheel.drain(second, second, frames)
            given[-1].update(bytes(frames.frame(i)).split(b"\r\n", 1)[1] for i in range(len(frames)))
    return given


def same(loaded: Wheel, applied: Wheel, ids: set[int], seconds: int) -> None:
    assert faults(loaded) == faults(applied) == {}
    assert loaded.counts() == applied.counts()
    for job_id in ids:
        assert (job_id in loaded) == (job_id in applied)
        assert loaded.next_due(job_id) == applied.next_due(job_id)
    assert runs(loaded, seconds) == runs(applied, seconds)
    assert faults(loaded) == {}


def edits_of(changes: Sequence[Change], seq: int) -> list[Change]:
    """Each job edited, deleted, or paused, by turns."""
    edits = []
    for turn, change in enumerate(changes):
        job = change.job
        edited = Job(job.id, Schedule(every_s=1 + turn % 9), data="y" * (turn * 701 % 3000) or None)
        edits.append(Change(edited, (OP_UPDATE, OP_DELETE, OP_INSERT)[turn % 3], seq + turn % 5))
    return edits


PATIENT = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@PATIENT
@given(
    definitions=st.lists(st.tuples(jobs(), st.sampled_from((0, 0, 0, 1, 2, 3, 4))), max_size=40),
    pieces=st.integers(1, 4),
    drained=st.sampled_from((0, 0, 7)),
)
def test_a_load_makes_the_wheel_that_apply_makes(
    definitions: list[tuple[Job, int]], pieces: int, drained: int
) -> None:
    changes = [Change(job, OP_LOAD, seq) for job, seq in definitions]
    ids = {job.id for job, _ in definitions}
    loaded, applied = wheel_at(drained), wheel_at(drained)
    load(loaded, changes, pieces)
    applied.apply(*batch(applied, changes))
    same(loaded, applied, ids, 35)
    for wheel in (loaded, applied):
        wheel.apply(*batch(wheel, edits_of(changes, 3)))
    same(loaded, applied, ids, 12)


def crowd(count: int) -> list[Change]:
    kinds = (
        Schedule(every_s=30),
        Schedule(every_s=60),
        Schedule(every_s=86_400, starts_at=NOW - 5),
        Schedule(run_at=NOW + 20),
        Schedule(cron="* * * * *"),
        Schedule(every_s=20, phase_s=3),
    )
    sizes = (40, 0, 300, 2500)
    return [
        Change(Job(i, kinds[i % 6], key=UUID % (i % 1000), data="z" * sizes[i % 4] or None), OP_LOAD)
        for i in range(count)
    ]


def test_a_large_load_runs_edits_and_moves_its_payloads_as_an_applied_wheel_does() -> None:
    changes = crowd(40_000)
    loaded, applied = Wheel(NOW), Wheel(NOW)
    load(loaded, changes, 7)
    applied.apply(*batch(applied, changes))
    same(loaded, applied, set(range(0, 40_000, 97)), 61)
    for turn in range(1, 4):
        for wheel in (loaded, applied):
            wheel.apply(*batch(wheel, edits_of(changes[turn::3], turn * 10)))
    same(loaded, applied, set(range(0, 40_000, 97)), 10)


def test_a_load_takes_no_more_memory_than_apply_with_reserve() -> None:
    changes = [Change(every(i, 60, data="x" * 40), OP_LOAD) for i in range(100_000)]
    loaded, applied = Wheel(NOW), Wheel(NOW)
    load(loaded, changes)
    applied.reserve(len(changes))
    applied.apply(*batch(applied, changes))
    assert loaded.nbytes <= applied.nbytes * 1.02


def test_routes_beyond_sixteen_bits_are_kept() -> None:
    loaded, applied = Wheel(NOW), Wheel(NOW)
    for wheel in (loaded, applied):
        for number in range(65_600):
            wheel.route(f"r{number}")
    changes = [Change(every(i, 1, route=f"r{65_530 + i}"), OP_LOAD) for i in range(20)]
    load(loaded, changes)
    applied.apply(*batch(applied, changes))
    same(loaded, applied, set(range(20)), 3)


@pytest.mark.parametrize(
    "seqs", [(5, 0, 3), (5, 3, 0), (3, 5, 4), (2**32 - 1, 2**32, 0), (0, 0, 0), (7, 7, 7)]
)
def test_of_several_rows_of_a_job_the_one_holds_that_would_after_apply(seqs: tuple[int, ...]) -> None:
    for schedules_of in ((1, 2, 3), (3, 2, 1), (2, 2, 2)):
        changes = [
            Change(every(job_id, schedule, data="v" * (9 + 3000 * turn)), OP_LOAD, seq)
            for turn, (seq, schedule) in enumerate(zip(seqs, schedules_of, strict=True))
            for job_id in range(30)
        ]
        loaded, applied = Wheel(NOW), Wheel(NOW)
        load(loaded, changes, 3)
        applied.apply(*batch(applied, changes))
        same(loaded, applied, set(range(30)), 7)


# ------------------------------------------------------------------------------------------ threads


def test_rows_from_several_threads_built_by_several_threads_are_all_there() -> None:
    changes = crowd(30_000)
    loaded, applied = Wheel(NOW), Wheel(NOW)
    parts = [batch(loaded, changes[first::40]) for first in range(40)]
    with loaded.loader() as loader:

        def add(thread: int) -> None:
            for rows, texts in parts[thread::4]:
                loader.add(rows, texts)

        together(*(partial(add, thread) for thread in range(4)))
        together(*[loader.finish] * 4)
    applied.apply(*batch(applied, changes))
    same(loaded, applied, set(range(0, 30_000, 97)), 31)


def test_a_later_call_holds_against_an_earlier_one_of_another_thread() -> None:
    wheel = Wheel(NOW)
    calls = [batch(wheel, [Change(every(i, turn + 1), OP_LOAD) for i in range(2000)]) for turn in range(6)]
    with wheel.loader() as loader:
        # Two at once, so that there are two writers; then one after the other, from any thread.
        together(*(partial(loader.add, *call) for call in calls[:2]))
        for call in calls[2:]:
            together(partial(loader.add, *call))
        loader.finish()
    applied = Wheel(NOW)
    applied.route("default")
    applied.apply(*calls[5])
    same(wheel, applied, set(range(2000)), 13)


# ------------------------------------------------------------------------------- refusals and states


def test_a_refused_row_is_named_and_its_call_leaves_nothing_behind() -> None:
    wheel = Wheel(NOW)
    good, texts = batch(wheel, [Change(every(i, 60, data="x" * (i % 3000)), OP_LOAD) for i in range(3000)])
    for field, value in (("kind", 9), ("every_s", 0), ("route", 7), ("data_at", 2**31), ("op", OP_INSERT)):
        bad = good.copy()
        bad["id"] += 10_000
        bad[field][2900] = value
        with wheel.loader() as loader:
            loader.add(good[:10], texts)
            with pytest.raises(ValueError, match=rf"row 2900, job 12900: {field}={value}"):
                loader.add(bad, texts)
            loader.add(good[10:], texts)
            loader.finish()
        assert len(wheel) == 3000
        assert 12_000 not in wheel
        assert faults(wheel) == {}
        wheel.clear()


def test_a_wheel_that_is_being_loaded_is_not_edited_drained_or_loaded_twice() -> None:
    wheel = Wheel(NOW)
    rows, texts = batch(wheel, [Change(every(1, 60), OP_LOAD)])
    loader = wheel.loader()
    loader.add(rows, texts)
    refused: list[Callable[[], object]] = [
        lambda: wheel.apply(rows, texts),
        lambda: wheel.drain(NOW + 1, NOW + 1, Frames()),
        lambda: wheel.reserve(10),
        wheel.clear,
        wheel.loader,
    ]
    for call in refused:
        with pytest.raises(RuntimeError, match="a loader is open"):
            call()
    assert len(wheel) == 0
    assert wheel.next_due(1) is None
    assert faults(wheel) == {}
    loader.finish()
    loader.finish()
    with pytest.raises(RuntimeError, match="finished or closed"):
        loader.add(rows, texts)
    with pytest.raises(RuntimeError, match="fills an empty wheel, this one has 1 jobs"):
        wheel.loader()
    wheel.apply(rows, texts)
    assert len(wheel) == 1


def test_a_loader_that_is_closed_or_dropped_lets_go_of_the_wheel_and_its_memory() -> None:
    wheel = Wheel(NOW)
    rows, texts = batch(wheel, crowd(20_000))
    sizes = []
    for turn in range(8):
        loader = wheel.loader()
        loader.add(rows, texts)
        if turn % 2:
            loader.close()
            with pytest.raises(RuntimeError, match="closed before it was finished"):
                loader.finish()
        del loader
        sizes.append(wheel.nbytes)
    assert len(wheel) == 0
    assert sizes[-1] == sizes[0]
    put(wheel, every(1, 60))
    assert len(wheel) == 1


def test_a_wheel_whose_jobs_were_deleted_is_as_empty_as_a_new_one() -> None:
    wheel, applied = Wheel(NOW), Wheel(NOW)
    put(wheel, *(every(i, 60, data="x" * i) for i in range(1000)))
    put(wheel, *(every(i, 60) for i in range(1000)), op=OP_DELETE)
    changes = crowd(3000)
    load(wheel, changes)
    applied.apply(*batch(applied, changes))
    same(wheel, applied, set(range(3000)), 31)


def test_nothing_added_makes_an_empty_wheel() -> None:
    wheel = Wheel(NOW)
    load(wheel, [])
    assert len(wheel) == 0
    assert faults(wheel) == {}
    put(wheel, every(1, 1))
    assert sum(map(Counter.total, runs(wheel, 3))) == 3


# ------------------------------------------------------------------------------------ without memory


@contextmanager
def failing(count: int) -> Iterator[None]:
    fail_allocation_in(count)
    try:
        yield
    finally:
        fail_allocation_in(0)


def test_adding_survives_the_failure_of_every_allocation() -> None:
    wheel, applied = Wheel(NOW), Wheel(NOW)
    changes = crowd(400)
    rows, texts = batch(wheel, changes)
    failures = 0
    with wheel.loader() as loader:
        loader.add(rows[:100], texts)
        while True:
            try:
                with failing(failures + 1):
                    loader.add(rows[100:], texts)
                break
            except MemoryError:
                failures += 1
        loader.finish()
    assert failures > 50
    applied.apply(*batch(applied, changes))
    same(wheel, applied, set(range(400)), 31)


def test_finishing_without_memory_leaves_an_empty_wheel_that_can_be_loaded_again() -> None:
    wheel, applied = Wheel(NOW), Wheel(NOW)
    changes = crowd(120) + crowd(30)
    rows, texts = batch(wheel, changes)
    failures = 0

    def finish_failing(count: int) -> None:
        loader = wheel.loader()
        loader.add(rows, texts)
        with failing(count):
            loader.finish()

    while True:
        try:
            finish_failing(failures + 1)
            break
        except MemoryError:
            failures += 1
        assert len(wheel) == 0
        assert faults(wheel) == {}
    assert failures > 100
    applied.apply(*batch(applied, changes))
    same(wheel, applied, set(range(120)), 31)


def test_failing_over_and_over_keeps_no_memory() -> None:
    wheel = Wheel(NOW)
    rows, texts = batch(wheel, crowd(3000))
    sizes = []
    for _ in range(12):
        loader = wheel.loader()
        loader.add(rows, texts)
        with failing(2000), pytest.raises(MemoryError, match="the wheel is empty"):
            loader.finish()
        with pytest.raises(RuntimeError, match="finished or closed"):
            loader.add(rows, texts)
        sizes.append(wheel.nbytes)
    assert len(set(sizes[4:])) == 1, sizes  # a few loads until the free pages suffice for each


def test_large_payloads_count_as_memory_of_the_wheel() -> None:
    wheel = Wheel(NOW)
    load(wheel, [Change(every(i, 60, data="x" * 30_000), OP_LOAD) for i in range(100)])
    before = wheel.nbytes
    put(wheel, *(every(i, 60, data="x" * 60_000) for i in range(100)), op=OP_UPDATE, seq=1)
    grown = wheel.nbytes - before
    assert 3_000_000 <= grown < 3_000_000 + 2**21
    put(wheel, *(every(i, 60) for i in range(100)), op=OP_DELETE, seq=2)
    assert wheel.nbytes < before


def test_a_loader_does_not_open_amid_an_edit() -> None:
    """What an edit that was let in before puts into a shard would be gone when that shard is built."""
    wheel, over = Wheel(NOW), threading.Event()
    changes = batch(wheel, [Change(every(i, 60), OP_DELETE) for i in range(50_000)])

    def edit() -> None:
        while not over.is_set():
            with suppress(RuntimeError):  # the loader was first
                wheel.apply(*changes)

    def open_again_and_again() -> None:
        while True:
            wheel.loader().close()

    editor = threading.Thread(target=edit)
    editor.start()
    try:
        with pytest.raises(RuntimeError, match="another thread is applying changes"):
            open_again_and_again()
    finally:
        over.set()
        editor.join()
