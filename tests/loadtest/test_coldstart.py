"""The load test of a cold start: every job arrives, every figure is measured, a folder is used again."""

from pathlib import Path

from command_line import mainspring

PROMISED = {"jobs", "ready_s", "copy_discard_s", "ratio", "steady_bytes", "peak_bytes"}


def test_every_figure_is_measured_and_nothing_is_left(server_folder: Path) -> None:
    for _ in range(2):  # the second time the table is there
        flags = ("--jobs", "3000", "--embedded", str(server_folder), "--json")
        ended = mainspring("loadtest", "coldstart", *flags)
        assert ended.status == 0, ended.err
        (figures,) = ended.json_lines()
        assert figures["jobs"] == 3000
        assert all(figures[name] > 0 for name in PROMISED)
        assert figures["peak_bytes"] >= figures["steady_bytes"]
