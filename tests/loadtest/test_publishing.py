"""The load test of the publisher: every run of both sides is stored, and what it measures is told."""

from pathlib import Path

from command_line import Ended, mainspring

from mainspring.loadtest.rounds import Rounds

PROMISED = {"runs", "runs_per_s", "raw_runs_per_s", "ratio", "client_us_per_run"}


def loadtest(*flags: str) -> Ended:
    return mainspring("loadtest", "publish", *flags)


def test_every_run_of_both_is_stored_and_every_figure_is_measured(tmp_path: Path) -> None:
    ended = loadtest("--runs", "3000", "--max-in-flight", "1000", "--embedded", str(tmp_path), "--json")
    assert ended.status == 0, ended.err
    (figures,) = ended.json_lines()
    assert (figures["runs"], figures["stored"], figures["duplicates"]) == (3000, 6000, 0)
    assert all(figures[name] > 0 for name in PROMISED)
    assert None not in figures.values()
    assert list(tmp_path.iterdir()) == []


def test_a_table_says_what_each_figure_is(tmp_path: Path) -> None:
    ended = loadtest("--runs", "1000", "--embedded", str(tmp_path))
    assert ended.status == 0, ended.err
    assert "client_us_per_run" in ended.out
    assert "raw_runs_per_s" in ended.out


def test_no_run_is_drawn_twice() -> None:
    rounds = Rounds(700, "mainspring")
    drawn = [frames for _ in range(3) for frames in rounds.next("_INBOX.x", 0)]
    ids = [frames.run_id(i) for frames in drawn for i in range(len(frames))]
    assert len(ids) == len(set(ids)) == 2100
