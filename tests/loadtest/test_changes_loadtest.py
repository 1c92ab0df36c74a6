"""`mainspring loadtest changes` measures what it says, at a size that says nothing about speed."""

import json

from command_line import mainspring


def test_it_prints_one_object_in_which_the_ratios_are_those_of_the_parts() -> None:
    small = ("--rows", "1000", "--seconds", "1", "--clients", "2", "--tail-jobs", "0")
    ended = mainspring("loadtest", "changes", *small, "--json")
    assert ended.status == 0, ended.err
    figures = json.loads(ended.out)
    assert (figures["rows"], figures["clients"]) == (1000, 2)
    assert figures["bulk_insert_ratio"] == figures["bulk_insert_s"] / figures["bulk_insert_plain_s"]
    assert figures["updates_per_s"] > 0
    assert figures["updates_plain_per_s"] > 0
    assert "armed_p50_ms" not in figures


def test_every_commit_is_seen_to_arrive_and_the_bulk_change_whole() -> None:
    small = ("--rows", "3000", "--seconds", "1", "--clients", "1", "--tail-jobs", "500", "--tail-s", "1")
    ended = mainspring("loadtest", "changes", *small, "--json")
    assert ended.status == 0, ended.err
    figures = json.loads(ended.out)
    assert 0 <= figures["armed_p50_ms"] <= figures["armed_p99_ms"] <= figures["armed_max_ms"]
    assert figures["commits_per_s"] > 0
    assert figures["bulk_change_s"] is not None
    assert figures["bulk_tick_late_max_ms"] >= 0
