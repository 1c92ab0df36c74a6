"""`mainspring next`, alone and in batches."""

import json
from pathlib import Path
from typing import Any

import pytest
import xxhash
from command_line import mainspring
from hypothesis import given
from hypothesis import strategies as st

from mainspring.engine.cli.next_batch import answer
from mainspring.wheel import phase_of, twin

VECTORS = Path(__file__).parents[1] / "data" / "vectors"
SPRING = 1_774_659_600  # 2026-03-28T01:00:00Z, the night before Vienna's clocks change


def ask(request: object) -> dict[str, Any]:
    reply: dict[str, Any] = json.loads(answer(json.dumps(request).encode()))
    return reply


def test_every_interval_vector_comes_out_of_a_batch(tmp_path: Path) -> None:
    cases = [json.loads(line) for line in (VECTORS / "interval_grid.jsonl").open()]
    file = tmp_path / "batch.jsonl"
    file.write_text(
        "".join(
            json.dumps(
                {
                    "every_s": case["interval"],
                    "id": case["id"],
                    "anchor": case["anchor"],
                    "from": case["now"],
                    "count": 1,
                }
            )
            + "\n"
            for case in cases
        )
    )
    ended = mainspring("next", "--batch", str(file))
    assert (ended.status, ended.err) == (0, "")
    assert [reply["next"] for reply in ended.json_lines()] == [[case["next"]] for case in cases]
    assert len(cases) > 100


@pytest.mark.parametrize(
    ("name", "count"), [("cron_next.jsonl", 315), ("cron_dst.jsonl", 72), ("cron_ext.jsonl", 65)]
)
def test_every_cron_vector_comes_out_of_a_batch(name: str, count: int) -> None:
    cases = [json.loads(line) for line in (VECTORS / name).open()]
    requests = [
        {"cron": case["expr"], "tz": case["tz"], "from": case["from_epoch"], "count": len(case["next_epoch"])}
        for case in cases
    ]
    ended = mainspring("next", "--batch", "-", stdin="\n".join(map(json.dumps, requests)).encode())
    assert (ended.status, ended.err) == (0, "")
    assert [reply.get("next") for reply in ended.json_lines()] == [case["next_epoch"] for case in cases]
    assert len(cases) == count


def test_every_invalid_expression_is_answered_by_an_error_that_names_it() -> None:
    cases = [json.loads(line) for line in (VECTORS / "cron_invalid.jsonl").open()]
    requests = [{"cron": case["expr"], "from": 0, "count": 1} for case in cases]
    ended = mainspring("next", "--batch", "-", stdin="\n".join(map(json.dumps, requests)).encode())
    assert (ended.status, ended.err) == (0, "")
    replies = ended.json_lines()
    assert all(reply.keys() == {"error"} and reply["error"].startswith("cron ") for reply in replies)
    assert len(replies) == len(cases) == 116


def test_every_real_expression_has_a_next_instant() -> None:
    cases = [json.loads(line) for line in (VECTORS / "real_expressions.jsonl").open()]
    for case in cases:
        assert ask({"cron": case["expr"], "tz": case["tz"], "from": SPRING, "count": 1})["next"][0] > SPRING
    assert len(cases) == 178


def test_an_id_switches_the_draws_of_h_on() -> None:
    line = {"cron": "H H(0-3) * * *", "from": 0}
    assert "give the id" in ask(line)["error"]
    minutes, hour = divmod(ask(line | {"id": 42, "jitter_s": 0})["next"][0] // 60, 60)[::-1]
    drawn = [
        xxhash.xxh64_intdigest((42).to_bytes(8, "little"), seed=seed) * n >> 64
        for seed, n in ((2, 60), (3, 4))
    ]
    assert [minutes, hour] == drawn


@given(
    every_s=st.integers(1, 2**53), job_id=st.integers(-(2**63), 2**63 - 1),
    anchor=st.integers(-(2**53), 2**53), after=st.integers(-(2**53), 2**53), count=st.integers(1, 5),
)  # fmt: skip
def test_an_interval_line_says_what_the_slow_twin_says(
    every_s: int, job_id: int, anchor: int, after: int, count: int
) -> None:
    fires = ask({"every_s": every_s, "id": job_id, "anchor": anchor, "from": after, "count": count})["next"]
    expected, due = [], after
    for _ in range(count):
        due = twin.interval_next(every_s, twin.phase_of(job_id, every_s), anchor, due)
        expected.append(due)
    assert fires == expected


def test_an_id_switches_the_spreading_of_a_cron_line_on() -> None:
    line = {"cron": "0 * * * *", "from": 60, "count": 2}
    offset = twin.spread_of(42, 60)
    assert offset > 0
    assert ask(line)["next"] == [3600, 7200]
    assert ask(line | {"id": 42})["next"] == [3600 + offset, 7200 + offset]
    assert ask(line | {"id": 42, "jitter_s": 0})["next"] == [3600, 7200]


def test_a_zone_counts_and_utc_is_the_default() -> None:
    line = {"cron": "30 2 * * *", "from": SPRING, "count": 2}
    assert ask(line)["next"] == [SPRING + 5400, SPRING + 5400 + 86_400]
    # 02:30 is skipped on the 29th: the run comes at 03:00, the first moment after the gap.
    assert ask(line | {"tz": "Europe/Vienna"})["next"] == [SPRING + 1800, SPRING + 86_400]


def test_a_phase_of_ones_own_replaces_the_hashed_one() -> None:
    assert ask({"every_s": 60, "phase_s": 7, "from": 0})["next"] == [7]
    assert ask({"every_s": 60, "phase_s": 7, "anchor": 1, "from": 8, "count": 2})["next"] == [68, 128]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"", "not JSON"),
        (b"nonsense", "not JSON"),
        (b"[]", "a list is no request"),
        (b"\xff", "not UTF-8"),
        (b"{}", "every_s: missing"),
        (b'{"evry_s": 5}', 'unknown field "evry_s"'),
        (b'{"every_s": 5, "id": 1}', "from: missing"),
        (b'{"every_s": 5, "from": 0}', "id: missing"),
        (b'{"every_s": 5, "cron": "@daily", "from": 0}', "exactly one"),
        (b'{"every_s": 0, "id": 1, "from": 0}', "every_s: 0 is out of range"),
        (b'{"every_s": 5.0, "id": 1, "from": 0}', "every_s: 5.0 is no whole number"),
        (b'{"every_s": true, "id": 1, "from": 0}', "every_s: true is no whole number"),
        (b'{"every_s": "5", "id": 1, "from": 0}', 'every_s: "5" is no whole number'),
        (b'{"every_s": 9007199254740993, "id": 1, "from": 0}', "every_s: 9007199254740993 is out of range"),
        (b'{"every_s": 5, "id": null, "from": 0}', "id: null is no whole number"),
        (b'{"every_s": 5, "id": 9223372036854775808, "from": 0}', "id: 9223372036854775808 is out of range"),
        (b'{"every_s": 5, "id": 1, "from": 1e3}', "from: 1E+3 is no whole number"),
        (
            b'{"every_s": 5, "id": 1, "from": 99999999999999999999}',
            "from: 99999999999999999999 is out of range",
        ),
        (b'{"every_s": 5, "id": 1, "from": 0, "count": 0}', "count: 0 is out of range"),
        (b'{"every_s": 5, "id": 1, "from": 0, "count": 10001}', "count: 10001 is out of range"),
        (b'{"every_s": 5, "id": 1, "from": 0, "anchr": 1}', '"anchr": unknown field'),
        (b'{"every_s": 5, "id": 1, "from": 0, "tz": "UTC"}', '"tz": unknown field'),
        (b'{"every_s": 5, "every_s": 6, "id": 1, "from": 0}', "stands twice"),
        (b'{"cron": 5, "from": 0}', "cron: 5 is no text"),
        (b'{"cron": "61 * * * *", "from": 0}', "'61'"),
        (b'{"cron": "@daily", "tz": "Mars/Olympus", "from": 0}', "tz: 'Mars/Olympus'"),
        (b'{"cron": "@daily", "tz": null, "from": 0}', "tz: null is no text"),
        (b'{"cron": "@daily"}', "from: missing"),
        (b'{"cron": "@daily", "from": 0, "anchor": 0}', '"anchor": unknown field'),
        (b'{"cron": "0 0 30 2 *", "from": 0}', "never occurs"),
    ],
)
def test_a_bad_line_is_answered_by_an_error_that_names_the_field(line: bytes, told: str) -> None:
    assert told in json.loads(answer(line))["error"]


def test_each_line_is_answered_in_its_place_and_the_batch_ends_well() -> None:
    stdin = (
        b'{"every_s":10,"phase_s":0,"from":0}\n\nx\n'
        + b"y" * 2_000_000
        + b'\n{"every_s":10,"phase_s":1,"from":0}'
    )
    ended = mainspring("next", "--batch", "-", stdin=stdin)
    assert ended.status == 0
    first, *bad, last = ended.json_lines()
    assert (first, last) == ({"next": [10]}, {"next": [1]})
    assert ["error" in reply for reply in bad] == [True, True, True]


def test_an_empty_batch_has_no_answers() -> None:
    assert mainspring("next", "--batch", "-") == (0, "", "")


def test_a_batch_that_is_not_there_fails_by_name() -> None:
    ended = mainspring("next", "--batch", "/nowhere.jsonl")
    assert ended.status == 1
    assert "/nowhere.jsonl" in ended.err


def test_one_interval_is_told_in_words_and_in_json() -> None:
    phase = phase_of(42, 60)
    ended = mainspring(
        "next", "--every", "1m", "--id", "42", "--from", "1970-01-01T00:00:00Z", "--count", "2"
    )
    assert ended.out == f"1970-01-01T00:00:{phase:02}Z  {phase}\n1970-01-01T00:01:{phase:02}Z  {phase + 60}\n"
    ended = mainspring("next", "--every", "60", "--id", "42", "--from", "0", "--count", "2", "--json")
    assert ended.json_lines() == [{"next": [phase, phase + 60]}]


def test_one_cron_is_evaluated_in_its_zone() -> None:
    ended = mainspring(
        "next", "--cron", "30 2 * * *", "--tz", "Europe/Vienna", "--from", str(SPRING), "--count", "1"
    )
    assert ended.out == "2026-03-28T01:30:00Z  1774661400\n"


def test_an_instant_between_two_seconds_counts_as_the_first() -> None:
    arguments = ("next", "--every", "1", "--phase", "0", "--count", "1", "--json", "--from")
    assert mainspring(*arguments, "1970-01-01T00:00:05.999Z").json_lines() == [{"next": [6]}]
    assert mainspring(*arguments, "-1").json_lines() == [{"next": [0]}]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "exactly one"),
        (["--every", "5", "--cron", "@daily"], "exactly one"),
        (["--every", "5", "--batch", "-"], "one of the three"),
        (["--every", "0", "--id", "1"], "out of range"),
        (["--every", "5x", "--id", "1"], "no duration"),
        (["--every", "5"], "id: missing"),
        (["--every", "5", "--id", "x"], "64-bit integer"),
        (["--every", "5", "--id", "1", "--from", "noon"], "is no time"),
        (["--every", "5", "--id", "1", "--from", "9" * 30], "epoch seconds from"),
        (["--every", "5", "--id", "1", "--count", "0"], "count"),
        (["--cron", "61 * * * *"], "'61'"),
    ],
)
def test_wrong_usage_is_told_and_ends_with_status_2(arguments: list[str], told: str) -> None:
    ended = mainspring("next", *arguments)
    assert ended.status == 2
    assert told in " ".join(ended.err.replace("│", " ").split())
