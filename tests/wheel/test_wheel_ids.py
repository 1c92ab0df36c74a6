"""The ids of a shard are those of the jobs that are in it, and of no others."""

import numpy as np
import pytest

from mainspring.wheel import DEFINITION, KIND_INTERVAL, MIN, NEVER, OP_DELETE, SHARDS, Wheel, shard_of

NOW = 1_764_500_000


def rows_of(ids: list[int], op: int) -> np.ndarray:
    rows = np.zeros(len(ids), DEFINITION)
    rows["id"], rows["op"], rows["kind"], rows["every_s"], rows["enabled"] = ids, op, KIND_INTERVAL, 60, 1
    rows["starts_at"] = rows["boost_until"] = MIN
    rows["run_at"] = rows["ends_at"] = NEVER
    rows["phase_s"] = rows["jitter_s"] = -1
    return rows


def ids_in(wheel: Wheel) -> list[int]:
    return sorted(job for shard in range(SHARDS) for job in wheel.ids(shard).tolist())


def test_each_shard_names_its_own_jobs_and_none_that_was_deleted() -> None:
    wheel = Wheel(NOW)
    wheel.route("default")
    jobs = [-(2**63), -1, 0, 2**63 - 1, *range(10, 3000)]
    wheel.apply(rows_of(jobs, 0), b"")
    assert ids_in(wheel) == sorted(jobs)
    assert all(shard_of(job) == shard for shard in range(SHARDS) for job in wheel.ids(shard).tolist())
    wheel.apply(rows_of(jobs[::2], OP_DELETE), b"")
    assert ids_in(wheel) == sorted(jobs[1::2])
    wheel.clear()
    assert ids_in(wheel) == []


@pytest.mark.parametrize("shard", [-1, SHARDS])
def test_a_shard_that_is_none_is_refused(shard: int) -> None:
    with pytest.raises(IndexError):
        Wheel(NOW).ids(shard)
