"""Writers, a tail, and a server that is killed under both again and again."""

import asyncio

from stubborn_writer import StubbornWriter

from changelog_tailer.replay import Replay, loaded
from mainspring.changelog_tailer import Decoder, Tailer, close, connect, schema
from mainspring.engine.embedded import EmbeddedPostgres

KILLS = 4
WRITES_BETWEEN_KILLS = 40
PATIENCE_S = 120.0


async def wait_for_writes(writers: list[StubbornWriter]) -> None:
    goal = sum(writer.committed for writer in writers) + WRITES_BETWEEN_KILLS
    while sum(writer.committed for writer in writers) < goal:
        await asyncio.sleep(0.01)


async def test_after_every_kill_the_tail_has_each_change_once_and_the_table(
    own_postgres: EmbeddedPostgres,
) -> None:
    dsn = own_postgres.dsn
    await schema.init(dsn)
    connection = await connect(dsn)
    _, cursor = await loaded(connection)
    await close(connection)
    replay = Replay()
    tailer = Tailer(dsn, cursor, replay.page_sink, Decoder(), tail_poll_s=0.05, retry_cap_s=0.2)
    following = asyncio.create_task(tailer.run())
    writers = [StubbornWriter(dsn, seed) for seed in range(3)]
    writing = [asyncio.create_task(writer.run()) for writer in writers]
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(KILLS):
            await wait_for_writes(writers)
            await own_postgres.kill()
            await own_postgres.start()
        await wait_for_writes(writers)
        for writer in writers:
            writer.stopping = True
        await asyncio.gather(*writing)

        written_at = asyncio.get_running_loop().time()
        while (tailer.polled_at or 0) < written_at:
            await asyncio.sleep(0.02)
    following.cancel()
    await asyncio.wait([following])
    await tailer.aclose()

    connection = await connect(dsn)
    table, _ = await loaded(connection)
    logged = await connection.fetch("select seq from mainspring.job_changes order by seq")
    await close(connection)
    assert replay.jobs == table.jobs
    assert sorted(replay.seqs) == [row["seq"] for row in logged]
