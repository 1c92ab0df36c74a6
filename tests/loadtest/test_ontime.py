"""The check of punctuality itself: it sees every second, and it can fail."""

from command_line import mainspring


def test_every_second_is_seen_and_none_is_over_a_limit_that_no_machine_breaks() -> None:
    ended = mainspring(
        "loadtest", "ontime", "--jobs", "5000", "--seconds", "5", "--limit-ms", "600000", "--json"
    )
    assert ended.status == 0, ended.err
    (figures,) = ended.json_lines()
    assert (figures["jobs"], figures["seconds"], figures["over_limit"]) == (5000, 5, 0)
    assert 0 <= figures["late_p50_ms"] <= figures["late_max_ms"]


def test_a_second_over_the_limit_fails_it() -> None:
    ended = mainspring("loadtest", "ontime", "--jobs", "1000", "--seconds", "1", "--limit-ms", "0")
    assert ended.status == 1
    assert "1 later than 0" in ended.out
