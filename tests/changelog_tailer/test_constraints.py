"""What SQL can refuse, the table refuses, by a constraint whose name says why."""

from typing import Any

import asyncpg
import pytest

EVERY: dict[str, Any] = {"every_s": 60}

REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("jobs_exactly_one_of_every_s_cron_run_at", {}),
    ("jobs_exactly_one_of_every_s_cron_run_at", {"every_s": 60, "cron": "* * * * *"}),
    ("jobs_exactly_one_of_every_s_cron_run_at", {"every_s": 60, "run_at": "2030-01-01Z"}),
    ("jobs_exactly_one_of_every_s_cron_run_at", {"cron": "* * * * *", "run_at": "2030-01-01Z"}),
    ("jobs_every_s_is_positive", {"every_s": 0}),
    ("jobs_every_s_is_positive", {"every_s": -1}),
    ("jobs_cron_is_1_to_256_characters", {"cron": ""}),
    ("jobs_cron_is_1_to_256_characters", {"cron": "*" * 257}),
    ("jobs_run_at_is_finite", {"run_at": "infinity"}),
    ("jobs_run_at_is_finite", {"run_at": "-infinity"}),
    ("jobs_years_are_1_to_9999", {"run_at": "10000-01-01Z"}),
    ("jobs_years_are_1_to_9999", {"run_at": "0001-12-31 23:59:59.999999Z BC"}),
    ("jobs_years_are_1_to_9999", EVERY | {"starts_at": "4000-01-01Z BC"}),
    ("jobs_years_are_1_to_9999", EVERY | {"ends_at": "294000-01-01Z"}),
    ("jobs_years_are_1_to_9999", EVERY | {"boost_every_s": 5, "boost_until": "10000-01-01Z"}),
    ("jobs_tz_is_1_to_64_characters", EVERY | {"tz": ""}),
    ("jobs_tz_is_1_to_64_characters", EVERY | {"tz": "x" * 65}),
    ("jobs_phase_s_is_not_negative", EVERY | {"phase_s": -1}),
    ("jobs_jitter_s_is_not_negative", EVERY | {"jitter_s": -1}),
    ("jobs_window_is_finite", EVERY | {"starts_at": "-infinity"}),
    ("jobs_window_is_finite", EVERY | {"ends_at": "infinity"}),
    ("jobs_window_is_not_empty", EVERY | {"starts_at": "2030-01-01Z", "ends_at": "2030-01-01Z"}),
    ("jobs_window_is_not_empty", EVERY | {"starts_at": "2030-01-02Z", "ends_at": "2030-01-01Z"}),
    ("jobs_boost_is_both_or_neither", EVERY | {"boost_every_s": 5}),
    ("jobs_boost_is_both_or_neither", EVERY | {"boost_until": "2030-01-01Z"}),
    ("jobs_boost_every_s_is_positive", EVERY | {"boost_every_s": 0, "boost_until": "2030-01-01Z"}),
    ("jobs_boost_until_is_finite", EVERY | {"boost_every_s": 5, "boost_until": "infinity"}),
    (
        "jobs_boost_is_for_interval_and_cron",
        {"run_at": "2030-01-01Z", "boost_every_s": 5, "boost_until": "2030-01-01Z"},
    ),
    ("jobs_catch_up_is_all_latest_or_none", EVERY | {"catch_up": "some"}),
    ("jobs_catch_up_is_all_latest_or_none", EVERY | {"catch_up": "ALL"}),
    ("jobs_key_is_1_to_255_bytes", EVERY | {"key": ""}),
    ("jobs_key_is_1_to_255_bytes", EVERY | {"key": "k" * 256}),
    ("jobs_key_is_1_to_255_bytes", EVERY | {"key": "é" * 128}),
    ("jobs_key_is_not_all_digits", EVERY | {"key": "42"}),
    ("jobs_payload_is_at_most_64_kib", EVERY | {"payload": '"' + "x" * 65535 + '"'}),
    *(
        ("jobs_route_is_1_to_8_dotted_tokens", EVERY | {"route": route})
        for route in (
            "", "a b", "a\r\nb", "a\n", "*", "a.>", ">", "a.", ".a", "a..b", "a.b.c.d.e.f.g.h.i", "é", "a\tb",
            "$SYS", "x" * 129,
        )
    ),
]  # fmt: skip

TAKEN: list[dict[str, Any]] = [
    {"every_s": 1},
    {"every_s": 2**31 - 1},
    {"cron": "*" * 256},
    {"run_at": "0001-01-01Z"},
    {"run_at": "9999-12-31 23:59:59.999999Z"},
    EVERY | {"key": "k" * 255},
    EVERY | {"key": "42a"},
    EVERY | {"phase_s": 0, "jitter_s": 0},
    EVERY | {"starts_at": "2030-01-01Z", "ends_at": "2030-01-01 00:00:01Z"},
    EVERY | {"boost_every_s": 1, "boost_until": "2030-01-01Z"},
    EVERY | {"route": "A-z_09.b.c.d.e.f.g.h"},
    EVERY | {"route": "x" * 128},
    EVERY | {"payload": '"' + "x" * 65534 + '"'},
    EVERY | {"id": -(2**63)},
    EVERY | {"id": 2**63 - 1},
]


async def insert(writer: asyncpg.Connection, row: dict[str, Any]) -> None:
    """Insert with every value as text, so that the table alone judges it."""
    columns = ", ".join(row) or "tz"
    values = ", ".join(f"${place}::text::{column_type(name)}" for place, name in enumerate(row, 1)) or "'UTC'"
    await writer.execute(
        f"insert into mainspring.jobs ({columns}) values ({values})", *(str(value) for value in row.values())
    )


def column_type(name: str) -> str:
    if name in ("run_at", "starts_at", "ends_at", "boost_until"):
        return "timestamptz"
    if name in ("every_s", "phase_s", "jitter_s", "boost_every_s"):
        return "integer"
    return {"id": "bigint", "payload": "jsonb"}.get(name, "text")


async def test_every_bad_row_is_refused_by_its_own_constraint(writer: asyncpg.Connection) -> None:
    refusals = []
    for constraint, row in REFUSED:
        with pytest.raises(asyncpg.CheckViolationError) as caught:
            await insert(writer, row)
        refusals.append((row, caught.value.constraint_name, constraint))
    assert [found for _, found, _ in refusals] == [wanted for _, _, wanted in refusals]


async def test_every_check_of_the_table_is_tried_here(writer: asyncpg.Connection) -> None:
    found = await writer.fetch(
        "select conname from pg_constraint where conrelid = 'mainspring.jobs'::regclass and contype = 'c'"
    )
    assert {row["conname"] for row in found} == {constraint for constraint, _ in REFUSED}


async def test_what_stands_just_inside_the_limits_is_taken(writer: asyncpg.Connection) -> None:
    for row in TAKEN:
        await insert(writer, row)
    assert await writer.fetchval("select count(*) from mainspring.jobs") == len(TAKEN)


async def test_an_interval_past_31_bits_is_refused(writer: asyncpg.Connection) -> None:
    with pytest.raises(asyncpg.NumericValueOutOfRangeError):
        await insert(writer, {"every_s": 2**31})


async def test_a_key_is_taken_once(writer: asyncpg.Connection) -> None:
    await insert(writer, EVERY | {"key": "mine"})
    with pytest.raises(asyncpg.UniqueViolationError):
        await insert(writer, EVERY | {"key": "mine"})


async def test_an_id_given_explicitly_is_kept(writer: asyncpg.Connection) -> None:
    await insert(writer, EVERY | {"id": 7})
    assert await writer.fetchval("select id from mainspring.jobs") == 7
