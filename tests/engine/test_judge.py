"""What the engine cannot judge good is set aside by name, and nothing else is."""

import numpy as np
import pytest
from numpy.typing import NDArray

from mainspring.changelog_tailer import (
    OP_DELETE,
    OP_INSERT,
    OP_LOAD,
    OP_TRUNCATE,
    OP_UNKNOWN,
    OP_UPDATE,
    ROW,
    Rows,
)
from mainspring.engine.intake.judge import Judge
from mainspring.engine.intake.quarantine import Quarantine
from mainspring.wheel import NEVER, Wheel

NOW = 1_764_500_000
CRONS = [("", ""), ("*/5 * * * *", "UTC"), ("61 * * * *", "UTC"), ("0 0 * * *", "Mars/Olympus")]
ROUTES = ["default", "a b", "ok.route"]


def rows_of(*definitions: dict[str, int]) -> NDArray[np.void]:
    rows = np.zeros(len(definitions), dtype=ROW)
    rows["run_at"] = rows["ends_at"] = NEVER
    rows["starts_at"] = rows["boost_until"] = -(2**63)
    rows["phase_s"] = rows["jitter_s"] = -1
    rows["enabled"] = 1
    for position, definition in enumerate(definitions):
        for name, value in definition.items():
            rows[name][position] = value
    return rows


class Bench:
    def __init__(self) -> None:
        self.wheel = Wheel(NOW)
        self.quarantine = Quarantine()
        self.judge = Judge(self.wheel, self.quarantine)

    def take(self, *definitions: dict[str, int]) -> None:
        batch = self.judge.judge(Rows(rows_of(*definitions), b"", ROUTES, CRONS))
        self.wheel.apply(batch.definitions, batch.texts)


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ({"cron": 2}, "minute"),
        ({"cron": 3}, "Mars/Olympus"),
        ({"every_s": 10, "route": 1}, "a b"),
        ({"every_s": 10, "catch_up": 255}, "catch_up"),
        ({}, "no schedule"),
    ],
)
def test_a_bad_definition_is_quarantined_by_name_while_all_others_fire(
    definition: dict[str, int], reason: str
) -> None:
    bench = Bench()
    bench.take(
        {"job_id": 1, "every_s": 10}, {"job_id": 2, **definition}, {"job_id": 3, "cron": 1, "route": 2}
    )
    [(job_id, told)] = list(bench.quarantine)
    assert job_id == 2
    assert reason in told
    assert bench.wheel.next_due(2) is None
    assert bench.wheel.next_due(1) is not None
    assert bench.wheel.next_due(3) is not None


def test_an_edit_to_a_bad_definition_stops_the_earlier_one() -> None:
    bench = Bench()
    bench.take({"job_id": 1, "every_s": 10, "op": OP_LOAD})
    bench.take({"job_id": 1, "cron": 2, "op": OP_UPDATE, "seq": 5})
    assert bench.wheel.next_due(1) is None


@pytest.mark.parametrize("mend", [{"op": OP_UPDATE, "every_s": 5}, {"op": OP_DELETE}])
def test_a_good_edit_or_a_delete_ends_the_quarantine(mend: dict[str, int]) -> None:
    bench = Bench()
    bench.take({"job_id": 1, "cron": 2, "op": OP_INSERT, "seq": 1})
    assert len(bench.quarantine) == 1
    bench.take({"job_id": 1, "seq": 2, **mend})
    assert len(bench.quarantine) == 0
    assert (bench.wheel.next_due(1) is not None) == ("every_s" in mend)


def test_a_log_row_with_an_unknown_op_changes_no_job_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.take({"job_id": 1, "every_s": 10})
    due = bench.wheel.next_due(1)
    bench.take({"job_id": 1, "every_s": 10, "op": OP_UNKNOWN, "seq": 77}, {"job_id": 2, "every_s": 10})
    assert bench.wheel.next_due(1) == due
    assert bench.wheel.next_due(2) is not None
    assert len(bench.quarantine) == 0
    assert "row 77 (job 1) is left out: its op is unknown" in caplog.text


@pytest.mark.parametrize(
    "beyond", [{"key_len": 256}, {"data_len": 65_537}, {"boost_every_s": -1}, {"every_s": -5}]
)
def test_what_only_a_hand_written_log_row_can_hold_is_quarantined(beyond: dict[str, int]) -> None:
    bench = Bench()
    bench.take({"job_id": 1, "every_s": 10, **beyond}, {"job_id": 2, "every_s": 10})
    assert [job_id for job_id, _ in bench.quarantine] == [1]
    assert bench.wheel.next_due(2) is not None


def test_the_last_row_of_a_job_in_a_page_decides_over_its_quarantine() -> None:
    bench = Bench()
    bench.take(
        {"job_id": 7, "cron": 2},
        {"job_id": 7, "every_s": 5},
        {"job_id": 8, "every_s": 5},
        {"job_id": 8, "cron": 2},
    )
    assert [job_id for job_id, _ in bench.quarantine] == [8]
    assert bench.wheel.next_due(7) is not None
    assert bench.wheel.next_due(8) is None


def test_a_truncate_ends_the_quarantine_of_what_stood_before_it_and_not_after() -> None:
    bench = Bench()
    bench.take({"job_id": 1, "cron": 2})
    bench.judge.judge(
        Rows(
            rows_of({"job_id": 2, "cron": 2}, {"op": OP_TRUNCATE}, {"job_id": 3, "cron": 2, "op": OP_INSERT}),
            b"",
            ROUTES,
            CRONS,
        )
    )
    assert [job_id for job_id, _ in bench.quarantine] == [3]
