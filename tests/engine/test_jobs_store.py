"""Single jobs in the real table."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio

from mainspring.changelog_tailer import schema
from mainspring.engine.jobs.connection import prepare
from mainspring.engine.jobs.definition import Definition, DefinitionError, read_definition
from mainspring.engine.jobs.errors import IdTaken, KeyTaken, UnknownJob
from mainspring.engine.jobs.store import JobStore
from mainspring.engine.jobs.upcoming import upcoming

NOW = 1_796_000_000


@pytest_asyncio.fixture
async def connection(database: str) -> AsyncIterator[asyncpg.Connection]:
    await schema.init(database)
    connection = await asyncpg.connect(database)
    await prepare(connection)
    yield connection
    await connection.close()


@pytest.fixture
def store(connection: asyncpg.Connection) -> JobStore:
    return JobStore(connection)


FULL = read_definition(
    {
        "key": 'wéb "1"\n',
        "cron": "*/5 9-17 * * MON-FRI",
        "tz": "Europe/Vienna",
        "phase_s": 3,
        "jitter_s": 0,
        "starts_at": "2026-01-01T00:00:00.000001Z",
        "ends_at": "9999-12-31T23:59:59.999999Z",
        "boost_every_s": 5,
        "boost_until": "0001-01-01T00:00:00Z",
        "catch_up": "none",
        "first_run_soon": True,
        "enabled": False,
        "route": "a.b",
        "payload": {"π": 3},
    }
)


async def log_rows(connection: asyncpg.Connection) -> int:
    return int(await connection.fetchval("select count(*) from mainspring.job_changes"))


async def test_a_job_comes_back_as_it_was_added(store: JobStore) -> None:
    added = await store.add(FULL)
    assert added.definition == FULL._replace(id=added.id)
    assert await store.find(str(added.id)) == await store.find(FULL.key or "") == added


@pytest.mark.parametrize("payload", [None, "null", "[]", "1.10", '{"a": "\\\\u0000"}'])
async def test_a_payload_comes_back_exactly_and_null_is_not_absent(
    store: JobStore, payload: str | None
) -> None:
    added = await store.add(Definition(every_s=5, payload=payload))
    assert (await store.find(str(added.id))).definition.payload == payload


@pytest.mark.parametrize("job_id", [-(2**63), -1, 0, 2**63 - 1])
async def test_an_id_of_the_callers_own_is_taken_and_found(store: JobStore, job_id: int) -> None:
    assert (await store.add(Definition(id=job_id, every_s=5))).id == job_id
    assert (await store.find(str(job_id))).id == job_id
    with pytest.raises(IdTaken):
        await store.add(Definition(id=job_id, every_s=5))


async def test_a_key_that_is_taken_is_refused_by_name(store: JobStore) -> None:
    await store.add(Definition(key="a", every_s=5))
    other = await store.add(Definition(key="b", every_s=5))
    with pytest.raises(KeyTaken, match="'a' belongs to another job"):
        await store.add(Definition(key="a", every_s=5))
    with pytest.raises(KeyTaken):
        await store.edit(str(other.id), {"key": "a"})


async def test_a_name_that_is_no_id_is_a_key_even_where_it_looks_like_a_number(store: JobStore) -> None:
    for key in ("-5", "1e3", "99999999999999999999x"):
        added = await store.add(Definition(key=key, every_s=5))
        assert (await store.find(key)).id == added.id
    await store.add(Definition(id=-5, every_s=9))
    assert (await store.find("-5")).id == -5


@pytest.mark.parametrize("name", ["1", "nobody", "9" * 30, ""])
async def test_a_name_that_nobody_has_is_told(store: JobStore, name: str) -> None:
    with pytest.raises(UnknownJob, match=f"id or key {name}"):
        await store.find(name)


async def test_an_edit_changes_what_it_names_and_appends_one_row_to_the_log(
    store: JobStore, connection: asyncpg.Connection
) -> None:
    added = await store.add(FULL)
    changed = await store.edit(str(added.id), {"route": "c"})
    assert changed.definition == added.definition._replace(route="c")
    assert changed.updated_at > added.updated_at
    assert await log_rows(connection) == 2


async def test_an_edit_that_changes_nothing_appends_nothing(
    store: JobStore, connection: asyncpg.Connection
) -> None:
    added = await store.add(FULL)
    assert await store.edit(FULL.key or "", {"route": "a.b"}) == added
    assert await log_rows(connection) == 1


async def test_a_refused_edit_leaves_the_job_as_it_was(store: JobStore) -> None:
    added = await store.add(FULL)
    with pytest.raises(DefinitionError):
        await store.edit(str(added.id), {"cron": "61 * * * *", "route": "c"})
    assert await store.find(str(added.id)) == added


async def test_pausing_is_all_or_nothing_and_says_what_it_changed(store: JobStore) -> None:
    await store.add(Definition(key="a", every_s=5))
    await store.add(Definition(key="b", every_s=5, enabled=False))
    assert await store.set_enabled(["a", "b"], enabled=False) == {"a": True, "b": False}
    with pytest.raises(UnknownJob, match="nobody"):
        await store.set_enabled(["a", "nobody"], enabled=True)
    assert (await store.find("a")).definition.enabled is False


async def test_removing_is_all_or_nothing(store: JobStore) -> None:
    first = await store.add(Definition(key="a", every_s=5))
    with pytest.raises(UnknownJob):
        await store.remove(["a", "nobody"])
    assert await store.remove(["a", str(first.id)]) == [first.id]
    with pytest.raises(UnknownJob):
        await store.find("a")


async def test_listing_filters_and_keeps_the_order_of_ids(store: JobStore) -> None:
    await store.add(Definition(id=30, every_s=5, route="x"))
    await store.add(Definition(id=10, cron="@daily", route="x", enabled=False))
    await store.add(Definition(id=20, run_at=FULL.starts_at))

    async def ids(**filters: object) -> list[int]:
        return [job.id async for job in store.list(**filters)]  # type: ignore[arg-type]

    assert await ids() == [10, 20, 30]
    assert await ids(route="x") == [10, 30]
    assert await ids(kind="cron") == [10]
    assert await ids(kind="once") == [20]
    assert await ids(enabled=True, kind="interval") == [30]
    assert await ids(enabled=False) == [10]
    assert await ids(limit=2) == [10, 20]


async def test_an_instant_from_before_the_constraint_does_not_end_a_listing(
    store: JobStore, connection: asyncpg.Connection
) -> None:
    await connection.execute("alter table mainspring.jobs drop constraint jobs_years_are_1_to_9999")
    await connection.execute("insert into mainspring.jobs (every_s, ends_at) values (5, '294000-01-01Z')")
    await connection.execute("insert into mainspring.jobs (every_s, starts_at) values (5, '4000-01-01Z BC')")
    years = [job.definition.ends_at or job.definition.starts_at async for job in store.list()]
    assert [instant.year for instant in years if instant] == [9999, 1]


async def test_a_job_that_the_engine_sets_aside_is_told_and_not_raised(
    store: JobStore, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "insert into mainspring.jobs (id, cron, tz) "
        "values (1, '61 * * * *', 'UTC'), (2, '@daily', 'Mars/Olympus')"
    )
    bad_cron = upcoming((await store.find("1")).definition, NOW, 5)
    bad_zone = upcoming((await store.find("2")).definition, NOW, 5)
    assert bad_cron.runs == bad_zone.runs == []
    assert (bad_cron.reason or "").startswith("quarantined: cron: minute: '61'")
    assert (bad_zone.reason or "").startswith("quarantined: tz: 'Mars/Olympus'")


async def test_what_a_job_does_next_is_what_its_definition_says() -> None:
    assert upcoming(Definition(id=42, every_s=60, phase_s=7), 0, 3).runs == [7, 67, 127]
    assert upcoming(Definition(id=42, every_s=60, enabled=False), 0, 3) == ([], "paused")
    assert upcoming(read_definition({"id": 4, "run_at": 5}), 5, 3) == ([], "no run left")
    # The window holds no whole second: SQL takes it, and no run lies in it.
    window = {
        "id": 1,
        "every_s": 1,
        "starts_at": "2030-01-01T00:00:00.2Z",
        "ends_at": "2030-01-01T00:00:00.7Z",
    }
    assert upcoming(read_definition(window), 0, 1).runs == []
