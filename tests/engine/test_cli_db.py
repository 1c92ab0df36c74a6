"""``mainspring db`` against a real Postgres."""

import json

import pytest

from mainspring.engine.cli import main


def run(*arguments: str, dsn: str) -> int:
    return main([*arguments, "--postgres-dsn", dsn])


def test_init_makes_the_schema_and_is_safe_to_repeat(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("db", "init", dsn=database) == 0
    assert "schema mainspring: applied version 1" in capsys.readouterr().out
    assert run("db", "init", dsn=database) == 0
    assert capsys.readouterr().out == "schema mainspring: up to date\n"


def test_init_answers_programs_in_json(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("db", "init", "--json", dsn=database) == 0
    assert json.loads(capsys.readouterr().out)["applied"][0] == 1


def test_status_of_an_empty_database_names_the_mend(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("db", "status", dsn=database) == 1
    assert "run `mainspring db init`" in capsys.readouterr().err


def test_status_shows_version_and_counts(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    run("db", "init", dsn=database)
    capsys.readouterr()
    assert run("db", "status", "--json", dsn=database) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["ready"], status["jobs"], status["version"]) == (True, 0, status["needed_version"])
    assert run("db", "status", dsn=database) == 0
    assert "jobs                 0" in capsys.readouterr().out
