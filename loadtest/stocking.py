"""A Postgres with a fleet in it, to load from.

    async with stocked(jobs, folder, tell) as dsn: ...

A folder that holds as many already is used as it is. The fleet is that of `fleet.py`: its mix of intervals,
payloads of 40 bytes, no keys.
"""

import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import asyncpg

from mainspring.changelog_tailer import schema
from mainspring.engine.embedded import EmbeddedPostgres
from mainspring.loadtest.fleet import MIX, PAYLOAD_BYTES
from mainspring.loadtest.log_triggers import switch_log

INSERT_ROWS: Final = 1_000_000


@asynccontextmanager
async def stocked(jobs: int, folder: Path | None, tell: Callable[[int], None]) -> AsyncIterator[str]:
    """The DSN. Without a folder the server is gone afterwards; `tell` is told how many jobs are written."""
    place = folder or Path(tempfile.mkdtemp(prefix="mainspring-coldstart-"))
    place.mkdir(parents=True, exist_ok=True)
    place.chmod(0o755)  # the server's user has to enter it
    server = EmbeddedPostgres(place)
    try:
        await server.start()
        await schema.init(server.dsn)
        await _stock(server.dsn, jobs, tell)
        yield server.dsn
    finally:
        await server.stop()
        if folder is None:
            shutil.rmtree(place)


async def _stock(dsn: str, jobs: int, tell: Callable[[int], None]) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        if await connection.fetchval("select count(*) from mainspring.jobs") != jobs:
            await connection.execute("truncate mainspring.jobs restart identity")
            await switch_log(connection, on=False)
            for first in range(0, jobs, INSERT_ROWS):
                rows = min(INSERT_ROWS, jobs - first)
                await connection.execute(_insert_sql(rows))
                tell(first + rows)
            await switch_log(connection, on=True)
            await connection.execute("vacuum analyze mainspring.jobs")
            await connection.execute("checkpoint")
    finally:
        await connection.close()


def _insert_sql(rows: int) -> str:
    """Drawn by a hash of the row, so that neighbours in the table have different intervals."""
    bounds, share = [], 0.0
    for every_s, part in MIX[:-1]:
        share += part
        bounds.append(f"when draw < {round(share * 100)} then {every_s}")
    payload = "x" * (PAYLOAD_BYTES - 2)
    return (
        f"insert into mainspring.jobs (every_s, payload) "
        f"select case {' '.join(bounds)} else {MIX[-1][0]} end, to_jsonb('{payload}'::text) "
        f"from (select (hashint4(n)::bigint & 65535) % 100 as draw from generate_series(1, {rows}) n) as d"
    )
