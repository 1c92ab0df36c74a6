"""Edits, drains and sweeps from several threads at once: nothing is lost, nothing comes twice."""

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial

import numpy as np
from together import together
from wheel_rows import Change, Job, batch, drain, every, faults, put

from mainspring.wheel import OP_UPDATE, Frames, Schedule, Wheel

NOW = 1_764_500_000
SECONDS = 400


def test_steady_jobs_run_once_a_period_while_others_are_edited_and_swept() -> None:
    wheel = Wheel(NOW)
    put(wheel, *(every(i, 10) for i in range(3000)))
    runs: Counter[tuple[int, int]] = Counter()
    over = threading.Event()

    def tick() -> None:
        frames = Frames(max_frames=64)
        for _ in range(SECONDS):
            runs.update(run for run in drain(wheel, frames=frames) if run[0] < 3000)
        over.set()

    def edit(first: int) -> Callable[[], None]:
        def edit_until_over() -> None:
            seq = 0
            while not over.is_set():
                seq += 1
                jobs = [
                    Job(first + i, Schedule(every_s=1 + (seq + i) % 50), data="1" * (seq % 90))
                    for i in range(200)
                ]
                wheel.apply(*batch(wheel, [Change(job, OP_UPDATE, seq) for job in jobs]))

        return edit_until_over

    def sweep() -> None:
        shard = 0
        while not over.is_set():
            assert not any(wheel.sweep(shard).values())
            shard = (shard + 1) % 256

    together(tick, edit(10_000), edit(20_000), sweep)
    assert len(runs) == 3000 * SECONDS // 10
    assert set(runs.values()) == {1}
    assert len(wheel) == 3400
    assert faults(wheel) == {}


def test_loading_from_two_threads_gives_all_jobs() -> None:
    wheel = Wheel(NOW)
    halves = [batch(wheel, [Change(every(i, 60)) for i in range(first, 40_000, 2)]) for first in (0, 1)]
    together(*(partial(wheel.apply, rows, texts) for rows, texts in halves))
    assert len(wheel) == 40_000
    assert faults(wheel) == {}


def test_batches_that_need_the_same_shards_in_any_order_wait_for_each_other_and_end() -> None:
    """A wave holds the locks of all its shards at once; each batch begins with another shard."""
    wheel = Wheel(NOW)
    put(wheel, *(every(i, 60) for i in range(64)))
    ids = np.arange(64)

    def edit(turn: int) -> None:
        rng = np.random.default_rng(turn)
        rows, texts = batch(
            wheel, [Change(every(i, 7 + turn, data="1" * turn), OP_UPDATE) for i in range(64)]
        )
        for _ in range(20_000):
            wheel.apply(rows[rng.integers(0, 64, rng.integers(2, 6))], texts)

    def look_up() -> None:
        for _ in range(2000):
            assert wheel.knows(ids).all()

    duties = (partial(edit, 1), partial(edit, 2), look_up)
    threads = [threading.Thread(target=duty, daemon=True) for duty in duties]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert len(wheel) == 64
    assert faults(wheel) == {}
