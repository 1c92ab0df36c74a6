"""What is wrong with an address is said before anything is dialled, and what does not answer is named."""

import socket

import pytest

from mainspring.changelog_tailer.address import servers_of
from mainspring.changelog_tailer.connection import LOST, open_session
from mainspring.changelog_tailer.errors import Unreachable


@pytest.mark.parametrize(
    ("dsn", "servers"),
    [
        ("postgresql://u:p@h/db", ["h:5432"]),
        ("postgresql://u:p@h1:1,h2:2/db", ["h1:1", "h2:2"]),
        ("postgresql://[::1]:7/db", ["[::1]:7"]),
        ("postgresql://[::1]/db", ["[::1]:5432"]),
        ("postgresql://u@/db?host=/run/pg&port=7", ["/run/pg"]),
        ("postgresql:///db?host=h&port=7", ["h:7"]),
        ("postgresql:///db?host=h1,h2&port=7,8", ["h1:7", "h2:8"]),
        ("postgresql://h1,h2:2/db?port=7", ["h1:7", "h2:2"]),
        ("postgresql:///db", ["localhost:5432"]),
    ],
)
def test_the_servers_of_an_address_are_named_without_its_password(
    dsn: str, servers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGHOST", raising=False)
    monkeypatch.delenv("PGPORT", raising=False)
    assert [str(server) for server in servers_of(dsn)] == servers


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://[::1/x",
        "postgresql://u:s3cret/x@h/db",
        "postgresql://u:s3cret@x@h/db",
        "postgresql://u:s3cret℀@h/db",
        "postgresql://h:99999/x",
        "postgresql://h:0/x",
        "postgresql://h:٣/x",
        "postgresql://h:1,/x",
        "postgresql://h/x?s3cret",
        "postgresql://h1,h2,h3/x?port=1,2",
    ],
)
def test_an_address_that_means_nothing_is_refused_and_not_repeated(dsn: str) -> None:
    with pytest.raises(ValueError, match=r"write|port|pairs") as refusal:
        servers_of(dsn)
    assert "s3cret" not in str(refusal.value)


def test_an_unknown_sslmode_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="sslmode in postgres_dsn is none of disable, allow, prefer"):
        servers_of("postgresql://h/x?sslmode=bogus")


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("PGPORT", "http", "the variable PGPORT is no port: a number from 1 to 65535"),
        ("PGPORT", "70000", "the variable PGPORT is no port: a number from 1 to 65535"),
        ("PGSSLMODE", "bogus", "the variable PGSSLMODE is none of disable"),
    ],
)
def test_a_bad_variable_that_the_driver_reads_is_refused_by_name(
    variable: str, value: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match=told):
        servers_of("postgresql://h/x")


async def test_a_name_that_nobody_knows_is_said_with_host_cause_and_setting() -> None:
    with pytest.raises(Unreachable) as failure:
        await open_session("postgresql://u:s3cret@nosuchhost.invalid/db")
    told = str(failure.value)
    assert told.startswith("Postgres at nosuchhost.invalid:5432 cannot be reached: ")
    assert told.endswith("(postgres_dsn)")
    assert "s3cret" not in told
    assert "Errno" not in told
    assert isinstance(failure.value, LOST)


async def test_a_refused_connection_is_told_in_words() -> None:
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1 cannot be reached: Connection refused"):
        await open_session("postgresql://127.0.0.1:1/db")


async def test_a_server_that_keeps_silent_is_given_up_and_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(Unreachable, match=rf":{port} cannot be reached: no answer within 0\.2 s"):
            await open_session(f"postgresql://127.0.0.1:{port}/db?sslmode=disable", timeout_s=0.2)
