"""`mainspring loadtest changes` measures what it says, at a size that says nothing about speed."""

import json

from command_line import mainspring


def test_it_prints_one_object_in_which_the_ratios_are_those_of_the_parts() -> None:
    ended = mainspring("loadtest", "changes", "--rows", "1000", "--seconds", "1", "--clients", "2", "--json")
    assert ended.status == 0, ended.err
    figures = json.loads(ended.out)
    assert (figures["rows"], figures["clients"]) == (1000, 2)
    assert figures["bulk_insert_ratio"] == figures["bulk_insert_s"] / figures["bulk_insert_plain_s"]
    assert figures["updates_per_s"] > 0
    assert figures["updates_plain_per_s"] > 0
