"""Drains, and how fast they are: with the envelope, without it, by two threads, and a herd."""

from statistics import median
from time import perf_counter
from typing import Final

from mainspring.loadtest.fleet import Fleet
from mainspring.loadtest.loading import loaded, timed, together
from mainspring.loadtest.plan import Figures, Plan, Tell
from mainspring.wheel import CATCH_UP_NONE, Frames, Wheel

ROUNDS: Final = 5
ROUND_S: Final = 30
"""Simulated seconds a round; the best round counts, for another process may have had the core in the rest."""

WARM_UP_S: Final = 90
"""So that the lists are in the order that running gives them, not in that of the load."""

LATE_S: Final = 3600


def drain_next(wheel: Wheel, frames: Frames, late_s: int = 0) -> int:
    """Drain the next second whole as if the clock were ``late_s`` past it; how many runs were due."""
    second, runs, whole = wheel.now + 1, 0, False
    while not whole:
        frames.reset(0)
        whole = wheel.drain(second, second + late_s, frames)
        runs += frames.due
    return runs


def drain_for(wheel: Wheel, frames: Frames, seconds: int, late_s: int = 0) -> int:
    """Drain so many seconds; how many runs were due."""
    return sum(drain_next(wheel, frames, late_s) for _ in range(seconds))


def firing_phase(plan: Plan, tell: Tell) -> Figures:
    """Fire and re-arm as in life, and re-arm alone.

    The jobs catch up nothing. Drained on time each gives its run; drained late each is moved on and counted
    as skipped, which is a re-arm without an envelope.
    """
    wheel, frames = _wheel_without_catch_up(plan), Frames()
    drain_for(wheel, frames, WARM_UP_S)
    fire, rearm, two = [], [], []
    for turn in range(ROUNDS):
        tell(turn / ROUNDS)
        fire.append(_ns_per_run(wheel, frames, 0))
        rearm.append(_ns_per_run(wheel, frames, LATE_S))
        two.append(_ns_per_run_by_two(wheel))
    return {
        "rearm_ns": min(rearm),
        "fire_ns": min(fire),
        "fire_2_threads_ns": min(two),
        "two_threads_speedup": min(fire) / min(two),
    }


def herd_phase(plan: Plan, tell: Tell) -> Figures:
    """All jobs due in one second, and armed again: with an interval of one second every second is such."""
    wheel, frames = loaded(Fleet(plan.jobs, uuid_keys=plan.uuid_keys, every_s=1)), Frames()
    tell(0.5)
    return {"herd_s": median(timed(lambda: drain_next(wheel, frames)) for _ in range(3))}


def _wheel_without_catch_up(plan: Plan) -> Wheel:
    return loaded(Fleet(plan.jobs, uuid_keys=plan.uuid_keys, catch_up=CATCH_UP_NONE))


def _ns_per_run(wheel: Wheel, frames: Frames, late_s: int) -> float:
    started = perf_counter()
    runs = drain_for(wheel, frames, ROUND_S, late_s)
    return (perf_counter() - started) / runs * 1e9


def _ns_per_run_by_two(wheel: Wheel) -> float:
    until, runs = wheel.now + ROUND_S, [0, 0]

    def share(thread: int) -> None:
        frames = Frames()
        while wheel.now < until:
            frames.reset(0)
            try:
                wheel.drain(wheel.now + 1, wheel.now + 1, frames)
            except ValueError:
                continue  # the other thread has finished that second
            runs[thread] += frames.due

    return timed(lambda: together([lambda: share(0), lambda: share(1)])) / sum(runs) * 1e9
