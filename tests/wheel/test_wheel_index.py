"""The index against a dictionary, with ids whose hashes collide as the test wants; and look-ups of many."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from ids_by_hash import hash_at, id_of
from wheel_rows import Change, Job, batch, drain_until, every, put

from mainspring.wheel import NEVER, OP_DELETE, OP_UPDATE, Frames, Schedule, Wheel, job_hash
from mainspring.wheel.memory import fail_allocation_in

NOW = 1_764_500_000
SHARD = 7
LAST_PLACE = 2**32 - 1


@pytest.mark.parametrize("value", [0, 1, 2**63, 2**64 - 1, 0x34C96ACDCADB1BBB, 0xB556806FB6D14353])
def test_an_id_can_be_made_for_any_hash(value: int) -> None:
    assert job_hash(id_of(value)) == value


def looked_up(wheel: Wheel, ids: list[int]) -> tuple[list[bool], list[int]]:
    wanted = np.array(ids, np.int64)
    return wheel.knows(wanted).tolist(), wheel.next_dues(wanted).tolist()


def agree(wheel: Wheel, model: dict[int, int], ids: list[int]) -> None:
    """Both ways of looking up, for jobs that are there and for others, and the audit."""
    grid = [NOW - NOW % model[i] + job_hash(i) % model[i] if i in model else NEVER for i in ids]
    dues = [due if due == NEVER or due > NOW else due + model[i] for i, due in zip(ids, grid, strict=True)]
    assert looked_up(wheel, ids) == ([i in model for i in ids], dues)
    assert [i in wheel for i in ids] == [i in model for i in ids]
    assert [wheel.next_due(i) for i in ids] == [None if due == NEVER else due for due in dues]
    assert not any(wheel.check(SHARD).values())
    assert len(wheel) == len(model)


# All in one shard; two tables; homes that fall on the same few lines, the last and the first among them.
crowded = st.builds(
    hash_at,
    st.just(SHARD),
    st.sampled_from((0, 9)),
    st.sampled_from((0, 1, LAST_PLACE // 2, LAST_PLACE - 1, LAST_PLACE)),
    st.sampled_from((0, 1, 2, 255)),
    st.integers(0, 40),
).map(id_of)


class IndexAgainstDictionary(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.wheel = Wheel(NOW)
        self.model: dict[int, int] = {}

    @rule(ids=st.lists(crowded, min_size=1, max_size=80), seconds=st.sampled_from((7, 900, 100_000)))
    def put(self, ids: list[int], seconds: int) -> None:
        assert put(self.wheel, *(every(i, seconds) for i in ids)) == len(ids)
        self.model |= dict.fromkeys(ids, seconds)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        known = st.sampled_from(sorted(self.model))
        ids = data.draw(st.lists(st.one_of(known, known, crowded), min_size=1, max_size=80))
        there = {i for i in ids if i in self.model}
        assert put(self.wheel, *(every(i, 60) for i in ids), op=OP_DELETE) == len(there)
        for i in there:
            del self.model[i]

    @invariant()
    def holds(self) -> None:
        agree(self.wheel, self.model, [*self.model, *(id_of(hash_at(SHARD, 9, p, 1, 99)) for p in (0, 1))])


IndexAgainstDictionary.TestCase.settings = settings(max_examples=60, stateful_step_count=15, deadline=None)
test_index_against_dictionary = IndexAgainstDictionary.TestCase


@pytest.mark.parametrize("place", [0, LAST_PLACE // 2, LAST_PLACE])
def test_thousands_of_one_home_fill_line_after_line_and_leave_no_trace(place: int) -> None:
    """All of them pass the same lines, around the end of the table, with tags that tell nothing."""
    ids = [id_of(hash_at(SHARD, 3, place, 5, rest)) for rest in range(3000)]
    wheel, model = Wheel(NOW), dict.fromkeys(ids, 60)
    put(wheel, *(every(i, 60) for i in ids))
    agree(wheel, model, ids)
    order = np.random.default_rng(1).permutation(len(ids)).tolist()
    for start in range(0, len(ids), 500):
        gone = [ids[k] for k in order[start : start + 500]]
        put(wheel, *(every(i, 60) for i in gone), op=OP_DELETE)
        for i in gone:
            del model[i]
        agree(wheel, model, ids)
    size = wheel.nbytes
    put(wheel, *(every(i, 60) for i in ids))
    agree(wheel, dict.fromkeys(ids, 60), ids)
    assert wheel.nbytes == size


@pytest.mark.parametrize("place", [0, LAST_PLACE // 2, LAST_PLACE])
def test_a_line_that_forgets_what_passed_it_is_found_and_hides_no_job_after_a_sweep(place: int) -> None:
    ids = [id_of(hash_at(SHARD, 3, place, 5, rest)) for rest in range(30)]
    wheel = Wheel(NOW)
    put(wheel, *(every(i, 60) for i in ids))
    wheel._inject("index_miscounted", ids[0])
    hidden = looked_up(wheel, ids)[0].count(False)
    assert hidden == 30 - 12  # a line has twelve places
    told = {"index_miscounted": 1, "unindexed": hidden, "index_stray": hidden}
    assert {fault: n for fault, n in wheel.check(SHARD).items() if n} == told
    assert {fault: n for fault, n in wheel.sweep(SHARD).items() if n} == told
    agree(wheel, dict.fromkeys(ids, 60), ids)


@pytest.mark.parametrize("crowd", [1, 12, 13, 400])
def test_a_line_that_counts_one_too_many_is_found_though_it_hides_no_job(crowd: int) -> None:
    ids = [id_of(hash_at(SHARD, 3, LAST_PLACE, 5, rest)) for rest in range(crowd)]
    other = id_of(hash_at(SHARD, 9, 0, 1))
    wheel = Wheel(NOW)
    put(wheel, *(every(i, 60) for i in (*ids, other)))
    wheel._inject("index_miscounted", other)
    assert all(looked_up(wheel, [*ids, other])[0])
    assert {fault: n for fault, n in wheel.sweep(SHARD).items() if n} == {"index_miscounted": 1}
    agree(wheel, dict.fromkeys([*ids, other], 60), [*ids, other])


def test_many_ids_grow_every_table_step_by_step() -> None:
    rng = np.random.default_rng(2)
    ids = [id_of(int(value) >> 8 | SHARD << 56) for value in rng.integers(0, 2**63, 6000)]
    wheel, model = Wheel(NOW), {}
    for start in range(0, len(ids), 400):
        for i in ids[start : start + 400]:
            put(wheel, every(i, 900))
            model[i] = 900
        agree(wheel, model, ids)


# --------------------------------------------------------------------------------------- look-ups


def test_next_dues_knows_paused_finished_distant_and_unknown_jobs() -> None:
    wheel = Wheel(NOW)
    put(wheel, every(1, 60), Job(2, Schedule(every_s=60), enabled=False), Job(3, Schedule(run_at=NOW + 1)))
    put(wheel, Job(4, Schedule(run_at=2**40)), Job(5, Schedule(every_s=90_000)))
    drain_until(wheel, NOW + 2)
    ids = [5, 1, 2, 3, 4, 6, 1]
    one_by_one = [wheel.next_due(i) for i in ids]
    assert one_by_one[2:6] == [None, None, 2**40, None]
    known, dues = looked_up(wheel, ids)
    assert known == [True, True, True, True, True, False, True]
    assert dues == [NEVER if due is None else due for due in one_by_one]


def test_look_ups_amid_a_second_tell_what_still_waits() -> None:
    wheel = Wheel(NOW)
    put(wheel, *(every(i, 1) for i in range(500)))
    assert not wheel.drain(NOW + 1, NOW + 1, Frames(max_frames=100))
    dues = wheel.next_dues(np.arange(500))
    assert set(dues.tolist()) == {NOW + 1, NOW + 2}
    assert dues.tolist() == [wheel.next_due(i) for i in range(500)]


def test_look_ups_take_any_layout_of_int64_and_nothing_else() -> None:
    wheel = Wheel(NOW)
    put(wheel, *(every(i, 60) for i in range(100)))
    ids = np.arange(-50, 150)
    expected = wheel.next_dues(ids)
    assert wheel.next_dues(ids[::-3]).tolist() == expected[::-3].tolist()
    frozen = ids.copy()
    frozen.flags.writeable = False
    assert wheel.next_dues(frozen).tolist() == expected.tolist()
    assert wheel.knows(ids).tolist() == [0 <= i < 100 for i in ids.tolist()]
    assert wheel.next_dues(ids[:0]).tolist() == wheel.knows(ids[:0]).tolist() == []
    wrong = (np.arange(3, dtype=np.int32), np.zeros(3), np.zeros((2, 2), np.int64), [1, 2])
    for call in (wheel.next_dues, wheel.knows):
        for given in wrong:
            with pytest.raises(TypeError, match="ids"):
                call(given)  # type: ignore[arg-type]


def test_look_ups_without_memory_say_so_and_answer_the_next_time() -> None:
    wheel = Wheel(NOW)
    put(wheel, *(every(i, 60) for i in range(100)))
    ids = np.arange(100)
    expected = wheel.next_dues(ids).tolist()
    for count in (1, 2):
        fail_allocation_in(count)
        try:
            with pytest.raises(MemoryError, match="100 jobs"):
                wheel.next_dues(ids)
        finally:
            fail_allocation_in(0)
    assert wheel.next_dues(ids).tolist() == expected


def test_the_row_of_one_job_that_stands_thrice_in_a_wave_is_found_each_time() -> None:
    """What the wave guessed of a job is stale once an earlier row has deleted, made or moved it."""
    wheel = Wheel(NOW)
    put(wheel, *(every(i, 60) for i in range(40)))
    changes = []
    for i in range(40):
        changes += [Change(every(i, 60), OP_DELETE, 1), Change(every(i + 20, 90), OP_UPDATE, 2)]
        changes += [Change(every(i, 120, data="1"), OP_UPDATE, 3)]
    wheel.apply(*batch(wheel, changes))
    agreeing = Wheel(NOW)
    for change in changes:
        agreeing.apply(*batch(agreeing, [change]))
    ids = list(range(80))
    assert looked_up(wheel, ids) == looked_up(agreeing, ids)
    assert wheel.counts() == agreeing.counts()
    assert all(not any(wheel.check(shard).values()) for shard in range(256))
