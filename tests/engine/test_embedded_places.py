"""Where the servers' files lie, also where the server's user may not enter; and who may have made them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from mainspring.engine.embedded import EmbeddedError, EmbeddedPostgres, private_home
from mainspring.engine.embedded.account import Account, current_account
from mainspring.engine.embedded.binaries import LIBRARIES, PACKAGE, _package_folder
from mainspring.engine.embedded.private_home import private_home as make_private_home
from mainspring.engine.embedded.process import processes_in

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Postgres as another user")

ASK_PROGRAM = """
import asyncio, sys
from pathlib import Path
import asyncpg
from mainspring.engine.embedded import EmbeddedPostgres

async def ask() -> None:
    server = EmbeddedPostgres(Path(sys.argv[1]))
    await server.start()
    connection = await asyncpg.connect(server.dsn)
    print(await connection.fetchval("select current_setting('data_directory')"))
    print(Path(f"/proc/{server.pid}/exe").readlink())
    await connection.close()
    await server.stop()

asyncio.run(ask())
"""


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place of the test's own instead of /var/tmp."""
    monkeypatch.setattr(private_home, "ROOM", tmp_path)
    return tmp_path


@pytest.fixture
def hidden(tmp_path: Path) -> Iterator[Path]:
    """A folder below one that other users may not enter; what it left in /var/tmp is removed."""
    tmp_path.chmod(0o700)
    folder = tmp_path / "hidden"
    folder.mkdir()
    yield folder
    for origin in (folder / "servers", folder / "site" / PACKAGE):
        for purpose in ("data", "postgres"):
            shutil.rmtree(make_private_home(purpose, origin))


def hide_package(folder: Path) -> Path:
    """A copy of the Postgres binaries that other users cannot reach, as if installed there."""
    package, site = _package_folder(), folder / "site"
    shutil.copytree(package, site / PACKAGE)
    shutil.copytree(package.with_name(LIBRARIES), site / LIBRARIES)
    return site


def ask_where(servers: Path, site: Path) -> list[str]:
    """Start a server in ``servers`` with the binaries of ``site``; its data folder and its program."""
    done = subprocess.run(
        [sys.executable, "-c", ASK_PROGRAM, str(servers)],
        env=os.environ | {"PYTHONPATH": str(site)},
        umask=0o077,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@as_root
def test_below_a_closed_folder_data_and_binaries_live_elsewhere_and_are_found_again(hidden: Path) -> None:
    site = hide_package(hidden)
    first = ask_where(hidden / "servers", site)
    assert all(place.startswith("/var/tmp/mainspring-0-") for place in first)
    assert ask_where(hidden / "servers", site) == first


@as_root
async def test_a_removed_folder_takes_the_data_elsewhere_with_it(hidden: Path) -> None:
    server = EmbeddedPostgres(hidden / "servers")
    await server.start()
    connection = await asyncpg.connect(server.dsn)
    await connection.execute("create table old ()")
    await connection.close()
    await server.stop()
    shutil.rmtree(hidden / "servers")
    await server.start()
    connection = await asyncpg.connect(server.dsn)
    assert await connection.fetchval("select to_regclass('old')") is None
    await connection.close()
    await server.stop()


@as_root
def test_an_account_is_judged_by_trying(hidden: Path) -> None:
    nobody = Account(65534, 65534)
    assert not nobody.can_enter(hidden)
    assert nobody.can_enter(Path("/usr"))
    assert not nobody.can_run(hidden / "missing")


def test_a_private_home_is_found_again_and_closed_to_writers(room: Path) -> None:
    home = make_private_home("data", room / "origin")
    assert make_private_home("data", room / "origin") == home
    assert home.stat().st_mode & 0o777 == 0o711
    assert make_private_home("data", room / "other") != home


def test_a_link_planted_in_place_of_a_private_home_is_refused(room: Path) -> None:
    home = make_private_home("data", room / "origin")
    home.rmdir()
    (room / "elsewhere").mkdir()
    home.symlink_to(room / "elsewhere")
    with pytest.raises(EmbeddedError, match="not a private folder of this user; remove it"):
        make_private_home("data", room / "origin")


def test_a_private_home_that_others_may_write_to_is_refused(room: Path) -> None:
    make_private_home("data", room / "origin").chmod(0o777)
    with pytest.raises(EmbeddedError, match="not a private folder"):
        make_private_home("data", room / "origin")


@as_root
def test_a_private_home_of_another_user_is_refused(room: Path) -> None:
    os.chown(make_private_home("data", room / "origin"), 65534, 65534)
    with pytest.raises(EmbeddedError, match="not a private folder"):
        make_private_home("data", room / "origin")


def test_a_shell_in_the_data_folder_is_no_server(tmp_path: Path) -> None:
    with subprocess.Popen(["/bin/sleep", "60"], cwd=tmp_path) as shell:
        assert processes_in(tmp_path, "postgres") == []
        assert processes_in(tmp_path, Path(os.readlink(f"/proc/{shell.pid}/exe")).name) == [shell.pid]
        shell.kill()


def test_a_missing_package_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.engine.embedded.binaries.find_spec", lambda _: None)
    with pytest.raises(EmbeddedError, match=r"pip install 'mainspring\[embedded\]'"):
        _package_folder()


def test_the_present_user_needs_no_change_of_user() -> None:
    assert current_account().popen_options() == {}
