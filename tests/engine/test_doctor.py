"""`mainspring doctor` finds what is wrong, each with its mend, and calls nothing wrong that is good."""

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import nats as nats_py
import pytest
from command_line import Ended, mainspring
from conftest import execute
from nats.js.api import StorageType, StreamConfig

from mainspring.changelog_tailer import Cursor, close, connect, cursor_now, schema
from mainspring.engine.broker.bucket import open_bucket
from mainspring.engine.checks.doctor import clock_finding
from mainspring.engine.failover.recovery import KEY, RecoveryPoint

NUMBERS = itertools.count(1)


@pytest.fixture
def instance() -> str:
    return f"doctor{next(NUMBERS)}"


def doctor(dsn: str, nats_url: str, instance: str, *more: str) -> Ended:
    return mainspring(
        "doctor", "--postgres-dsn", dsn, "--nats-url", nats_url, "--instance", instance, "--json", *more
    )


def by_name(ended: Ended) -> dict[str, dict[str, Any]]:
    return {finding["name"]: finding for finding in json.loads(ended.out)}


def stored(dsn: str, nats_url: str, instance: str, *, point: bytes | None = None, **cursor: int) -> None:
    """Put a recovery point into the instance's bucket: these bytes, or the present one with other fields."""

    async def put() -> None:
        client = await nats_py.connect(nats_url)
        bucket = await client.jetstream().create_key_value(bucket=instance)
        connection = await connect(dsn)
        here = await cursor_now(connection)
        await close(connection)
        value = point or RecoveryPoint(1, Cursor.from_dict(here.to_dict() | cursor)).encode()
        await bucket.put(KEY, value)
        await client.close()

    asyncio.run(put())


def stream(nats_url: str, **config: Any) -> None:
    async def make() -> None:
        client = await nats_py.connect(nats_url)
        await client.jetstream().add_stream(StreamConfig(**config))
        await client.close()

    asyncio.run(make())


def delete_bucket(nats_url: str, instance: str) -> None:
    async def delete() -> None:
        client = await nats_py.connect(nats_url)
        await client.jetstream().delete_key_value(instance)
        await client.close()

    asyncio.run(delete())


def test_where_all_is_well_every_finding_is_good(database: str, nats_url: str, instance: str) -> None:
    asyncio.run(schema.init(database))
    ended = doctor(database, nats_url, instance)
    found = by_name(ended)
    assert ended.status == 0, ended.out
    assert {"postgres", "clock against Postgres", "jobs", "nats", "stream", "clock against NATS"} <= set(
        found
    )
    assert not any(finding["mend"] for finding in found.values())


def test_a_missing_schema_is_wrong_and_names_the_mend(database: str, nats_url: str, instance: str) -> None:
    ended = doctor(database, nats_url, instance)
    assert ended.status == 3
    assert "db init" in by_name(ended)["postgres"]["says"]


def test_servers_that_are_away_are_wrong_and_hide_nothing_else(instance: str) -> None:
    ended = doctor("postgresql://127.0.0.1:1/db", "nats://127.0.0.1:1", instance)
    found = by_name(ended)
    assert ended.status == 3
    assert [(name, finding["good"]) for name, finding in found.items()] == [
        ("postgres", False),
        ("nats", False),
    ]
    assert "Connection refused" in found["postgres"]["says"]
    assert "Connection refused" in found["nats"]["says"]


def test_credentials_that_cannot_be_any_are_wrong_and_hide_nothing_else(
    database: str, nats_url: str, instance: str, tmp_path: Path
) -> None:
    asyncio.run(schema.init(database))
    creds = tmp_path / "some.creds"
    creds.write_text("no seed")
    ended = doctor(database, nats_url, instance, "--nats-creds", str(creds))
    found = by_name(ended)
    assert ended.status == 3
    assert found["postgres"]["good"]
    assert not found["nats"]["good"]
    assert str(creds) in found["nats"]["says"]


def test_a_quarantined_job_is_named_with_its_reason(database: str, nats_url: str, instance: str) -> None:
    asyncio.run(schema.init(database))
    asyncio.run(
        execute(database, "insert into mainspring.jobs (id, cron) values (7, '61 * * * *'), (8, '@daily')")
    )
    ended = doctor(database, nats_url, instance)
    assert ended.status == 3
    assert "1 quarantined" in by_name(ended)["jobs"]["says"]
    assert "job 7: cron: minute" in by_name(ended)["jobs"]["says"]


@pytest.mark.parametrize(
    ("config", "told", "mend"),
    [
        ({"duplicate_window": 60}, "duplicate window of 60 s", "--dupe-window=120s"),
        ({"duplicate_window": 120, "no_ack": True}, "no_ack", "unset"),
        ({"duplicate_window": 120, "storage": StorageType.MEMORY}, "memory storage", "nats stream edit"),
        ({"duplicate_window": 120, "max_msgs_per_subject": 5}, "max_msgs_per_subject", "nats stream edit"),
    ],
)
def test_a_stream_that_weakens_the_promise_is_wrong(
    database: str, nats_url: str, instance: str, *, config: dict[str, Any], told: str, mend: str
) -> None:
    asyncio.run(schema.init(database))
    stream(nats_url, name=instance.upper(), subjects=[f"{instance}.run.>"], **config)
    ended = doctor(database, nats_url, instance)
    assert ended.status == 3
    assert told in by_name(ended)["stream"]["says"]
    assert mend in by_name(ended)["stream"]["mend"]
    assert by_name(ended)["clock against NATS"]["says"].startswith("within")


def test_a_recovery_point_is_read_and_a_void_or_damaged_one_is_wrong(
    database: str, nats_url: str, instance: str
) -> None:
    asyncio.run(schema.init(database))
    name = f"recovery point of {instance}"
    try:
        stored(database, nats_url, instance)
        asyncio.run(execute(database, "insert into mainspring.jobs (every_s) values (60), (60)"))
        assert by_name(doctor(database, nats_url, instance))[name]["says"] == "2 changes are not applied yet"
        stored(database, nats_url, instance, timeline=99)
        ended = doctor(database, nats_url, instance)
        assert (ended.status, by_name(ended)[name]["good"]) == (3, False)
        stored(database, nats_url, instance, database=1)
        ended = doctor(database, nats_url, instance)
        assert (ended.status, by_name(ended)[name]["good"]) == (3, False)
        found = by_name(doctor(database, nats_url, "another"))[name]
        assert (found["good"], found["says"]) == (True, "its jobs are in another database")
        stored(database, nats_url, instance, point=b"{}")
        ended = doctor(database, nats_url, instance)
        assert "delete the key 'recovery'" in by_name(ended)["recovery point"]["mend"]
    finally:
        delete_bucket(nats_url, instance)


@pytest.mark.parametrize(
    ("there", "good", "told"),
    [
        (100.0, True, "within"),
        (99.5, True, "within"),
        (103.5, True, "within"),
        (97.0, False, "3.0 s behind"),
        (110.0, False, "7.0 s ahead"),
    ],
)
def test_a_clock_is_wrong_only_by_what_the_way_there_and_back_cannot_explain(
    there: float, good: bool, told: str
) -> None:
    finding = clock_finding("clock", there, asked_at=100.0, answered_at=103.0)
    assert (finding.good, told in finding.says) == (good, True)


async def put_lease(nats_url: str, instance: str, value: bytes | None, *, ttl_s: int | None) -> None:
    client = await nats_py.connect(nats_url)
    bucket = await open_bucket(client.jetstream(), instance)
    if value is not None:
        await bucket.put("lease", value, ttl_s)
    await client.close()


@pytest.mark.parametrize(
    ("value", "ttl_s", "good", "says"),
    [
        (None, None, True, "no node is active"),
        (b'{"holder": "host-7"}', 60, True, "host-7 is active"),
        (b'{"holder": "host-7"}', None, False, "host-7"),
        (b"garbage", None, False, "garbage"),
    ],
)
def test_a_lease_that_nobody_renews_is_wrong(
    database: str,
    nats_url: str,
    instance: str,
    *,
    value: bytes | None,
    ttl_s: int | None,
    good: bool,
    says: str,
) -> None:
    asyncio.run(schema.init(database))
    asyncio.run(put_lease(nats_url, instance, value, ttl_s=ttl_s))
    try:
        ended = doctor(database, nats_url, instance)
        found = by_name(ended)
        assert found["bucket"]["good"]
        assert (found["lease"]["good"], ended.status) == (good, 0 if good else 3)
        assert says in found["lease"]["says"]
        assert found["lease"]["mend"] == ("" if good else f"nats kv del {instance} lease")
    finally:
        delete_bucket(nats_url, instance)


def test_a_bucket_whose_values_do_not_vanish_is_wrong(database: str, nats_url: str, instance: str) -> None:
    asyncio.run(schema.init(database))
    stream(nats_url, name=f"KV_{instance}", subjects=[f"$KV.{instance}.>"], max_msgs_per_subject=1)
    try:
        found = by_name(doctor(database, nats_url, instance))
        assert not found["bucket"]["good"]
        assert f"nats stream edit KV_{instance} --allow-msg-ttl" in found["bucket"]["mend"]
    finally:
        delete_bucket(nats_url, instance)


def test_people_get_lines_with_the_mend(nats_url: str, instance: str) -> None:
    ended = mainspring(
        "doctor",
        "--postgres-dsn",
        "postgresql://127.0.0.1:1/db",
        "--nats-url",
        nats_url,
        "--instance",
        instance,
    )
    assert "WRONG  postgres" in ended.out
    assert "mend: " in ended.out
    assert "good   nats" in ended.out
