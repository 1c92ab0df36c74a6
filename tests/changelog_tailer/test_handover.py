"""The hand-over from load to tail, and the tail, beside writers that do everything writers do."""

import asyncio
import random

import asyncpg

from changelog_tailer.replay import Replay, changes_since, loaded
from mainspring.changelog_tailer import Decoder, changes_between, close, connect, cursor_now, load

WRITERS = 6
ROUNDS = 60
HOT_KEYS = 5


class Writer:
    """Inserts, updates and deletes in transactions with savepoints, many of them rolled back."""

    def __init__(self, connection: asyncpg.Connection, seed: int) -> None:
        self._connection = connection
        self._draw = random.Random(seed)

    async def run(self) -> None:
        for _ in range(ROUNDS):
            try:
                await self._transaction()
            except (asyncpg.DeadlockDetectedError, asyncpg.UniqueViolationError):
                continue

    async def _transaction(self) -> None:
        transaction = self._connection.transaction()
        await transaction.start()
        try:
            for _ in range(self._draw.randint(1, 4)):
                await self._savepoint()
        except BaseException:
            await transaction.rollback()
            raise
        await (transaction.rollback() if self._draw.random() < 0.2 else transaction.commit())

    async def _savepoint(self) -> None:
        savepoint = self._connection.transaction()
        await savepoint.start()
        try:
            await self._statement()
        except BaseException:
            await savepoint.rollback()
            raise
        await (savepoint.rollback() if self._draw.random() < 0.3 else savepoint.commit())

    async def _statement(self) -> None:
        every_s = self._draw.randint(1, 10**6)
        hot = self._draw.randint(1, HOT_KEYS)
        statements = [
            f"insert into mainspring.jobs (every_s) select {every_s} from generate_series(1, 3)",
            f"update mainspring.jobs set every_s = {every_s} where id = {hot}",
            f"delete from mainspring.jobs where id = {hot}",
            f"insert into mainspring.jobs (id, every_s) values ({hot}, {every_s}) on conflict (id)"
            f" do update set every_s = excluded.every_s",
            f"update mainspring.jobs set every_s = every_s where id > {hot}",
        ]
        await self._connection.execute(self._draw.choice(statements))


async def writer_session(dsn: str) -> asyncpg.Connection:
    """A session that gives way at once when two writers wait for each other, as these often do."""
    return await asyncpg.connect(dsn, server_settings={"deadlock_timeout": "10ms"})


async def test_load_and_tail_beside_writers_give_the_table_and_each_change_once(dsn: str) -> None:
    sessions = [await writer_session(dsn) for _ in range(WRITERS)]
    reader = await connect(dsn)
    await sessions[0].execute("insert into mainspring.jobs (every_s) select 60 from generate_series(1, 100)")
    await sessions[0].execute("select setval('mainspring.jobs_id_seq', 1000)")
    start = await cursor_now(reader)
    writing = asyncio.gather(*(Writer(session, seed).run() for seed, session in enumerate(sessions)))

    replay, decoder = Replay(), Decoder()
    cursor = await load(reader, replay.sink, decoder)
    replay.seqs.clear()
    while True:
        done = writing.done()
        upto = await cursor_now(reader)
        await changes_between(reader, cursor, upto, replay.sink, decoder)
        cursor = upto
        if done:
            break
        await asyncio.sleep(0)
    await writing

    table, _ = await loaded(reader)
    assert replay.jobs == table.jobs
    assert len(replay.seqs) == len(set(replay.seqs))
    whole, _ = await changes_since(reader, start)
    committed = await reader.fetch("select seq from mainspring.job_changes where seq > 100 order by seq")
    assert whole.seqs == [row["seq"] for row in committed]
    assert set(replay.seqs) <= set(whole.seqs)
    assert len(replay.seqs) > 100
    for session in (*sessions, reader):
        await close(session)


async def test_a_load_at_any_moment_of_the_writing_continues_to_the_same_end(dsn: str) -> None:
    session, reader = await writer_session(dsn), await connect(dsn)
    writing = asyncio.create_task(Writer(session, 7).run())
    starts = []
    while not writing.done():
        starts.append(await loaded(reader))
        await asyncio.sleep(0)
    await writing
    table, _ = await loaded(reader)
    assert len(starts) > 3
    for replay, cursor in starts:
        changes = Replay(replay.jobs)
        await changes_between(reader, cursor, await cursor_now(reader), changes.sink, Decoder())
        assert changes.jobs == table.jobs
    await close(session)
    await close(reader)
