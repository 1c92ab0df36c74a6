"""The embedded Postgres: starts, stops, survives, and ends with its owner."""

import asyncio
import os
import signal
import stat
from pathlib import Path

import asyncpg
import pytest

from mainspring.engine.embedded import EmbeddedError, EmbeddedPostgres
from mainspring.engine.embedded.account import postgres_account
from mainspring.engine.embedded.process import processes_in


async def ask(server: EmbeddedPostgres, statement: str) -> object:
    connection = await asyncpg.connect(server.dsn, timeout=5)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close(timeout=5)


async def test_a_commit_survives_sigkill_and_the_port_stays(own_postgres: EmbeddedPostgres) -> None:
    await ask(own_postgres, "create table kept as select 42 as answer")
    port = own_postgres.port
    await own_postgres.kill()
    assert processes_in(own_postgres.data, "postgres") == []
    await own_postgres.start()
    assert await ask(own_postgres, "select answer from kept") == 42
    assert own_postgres.port == port


async def test_a_clean_stop_keeps_everything_and_starts_again(own_postgres: EmbeddedPostgres) -> None:
    await ask(own_postgres, "create table kept as select 1")
    await own_postgres.stop()
    with pytest.raises(OSError, match="Connect call failed"):
        await ask(own_postgres, "select 1")
    await own_postgres.start()
    assert await ask(own_postgres, "select count(*) from kept") == 1


async def test_a_frozen_server_answers_nothing_and_goes_on_when_thawed(
    own_postgres: EmbeddedPostgres,
) -> None:
    connection = await asyncpg.connect(own_postgres.dsn)
    own_postgres.freeze()
    asking = asyncio.create_task(connection.fetchval("select 1"))
    done, _ = await asyncio.wait((asking,), timeout=0.3)
    assert not done
    own_postgres.thaw()
    assert await asyncio.wait_for(asking, 5) == 1
    await connection.close()


async def test_a_frozen_server_can_be_stopped_and_killed(own_postgres: EmbeddedPostgres) -> None:
    own_postgres.freeze()
    await asyncio.wait_for(own_postgres.stop(), 10)
    await own_postgres.start()
    own_postgres.freeze()
    await asyncio.wait_for(own_postgres.kill(), 10)
    assert own_postgres.pid is None


async def test_the_folder_belongs_to_one_process(own_postgres: EmbeddedPostgres) -> None:
    with pytest.raises(EmbeddedError, match="in use by another process"):
        await EmbeddedPostgres(own_postgres.directory).start()
    assert await ask(own_postgres, "select 1") == 1


async def test_a_pid_file_of_another_living_process_is_no_obstacle(own_postgres: EmbeddedPostgres) -> None:
    pid_file = own_postgres.data / "postmaster.pid"
    owner = own_postgres.data.stat()
    await own_postgres.kill()
    stale = pid_file.read_text().splitlines()
    # Our own parent is alive and is no Postgres: what a reused process id looks like.
    pid_file.write_text("\n".join([str(os.getppid()), *stale[1:]]) + "\n")
    os.chown(pid_file, owner.st_uid, owner.st_gid)
    await own_postgres.start()
    assert await ask(own_postgres, "select 1") == 1


async def test_a_half_made_cluster_is_made_anew(server_folder: Path) -> None:
    for name in ("postgres", "postgres.new"):
        (server_folder / name).mkdir()
        (server_folder / name / "rubbish").touch()
    server = EmbeddedPostgres(server_folder)
    await server.start()
    assert await ask(server, "select current_database()") == "mainspring"
    await server.kill()


async def test_a_taken_port_is_left_to_its_taker(own_postgres: EmbeddedPostgres) -> None:
    port = own_postgres.port
    await own_postgres.stop()
    other = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port)
    await own_postgres.start()
    assert own_postgres.port != port
    assert await ask(own_postgres, "select 1") == 1
    other.close()
    await other.wait_closed()


async def test_a_server_that_cannot_start_shows_the_end_of_its_log(server_folder: Path) -> None:
    server = EmbeddedPostgres(server_folder, settings={"shared_buffers": "nonsense"})
    with pytest.raises(EmbeddedError, match='invalid value for parameter "shared_buffers"'):
        await server.start()
    healed = EmbeddedPostgres(server_folder)
    await healed.start()
    await healed.kill()


async def test_strangers_need_the_password(own_postgres: EmbeddedPostgres) -> None:
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(f"postgresql://mainspring:wrong@127.0.0.1:{own_postgres.port}/mainspring")
    assert stat.S_IMODE((own_postgres.directory / "postgres.json").stat().st_mode) == 0o600


async def test_it_never_runs_as_root(own_postgres: EmbeddedPostgres) -> None:
    assert os.stat(f"/proc/{own_postgres.pid}").st_uid == postgres_account().uid != 0


async def test_ctrl_c_in_the_terminal_does_not_reach_it(own_postgres: EmbeddedPostgres) -> None:
    assert own_postgres.pid is not None
    assert os.getsid(own_postgres.pid) != os.getsid(0)


async def test_wait_tells_of_a_crash(own_postgres: EmbeddedPostgres) -> None:
    waiting = asyncio.create_task(own_postgres.wait())
    assert own_postgres.pid is not None
    os.kill(own_postgres.pid, signal.SIGKILL)
    assert await asyncio.wait_for(waiting, 5) == -signal.SIGKILL
