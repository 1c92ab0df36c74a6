"""The frame of the command line: exit statuses, messages, help, settings given as flags."""

import json
import logging
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from mainspring.engine.cli import main
from mainspring.engine.cli.failures import explain, status_of
from mainspring.engine.cli.help_text import flowing
from mainspring.engine.cli.logs import JsonFormatter, TextFormatter
from mainspring.engine.config import SettingsError
from mainspring.engine.embedded import EmbeddedError

COMMANDS = (
    ("demo",),
    ("run",),
    ("tail",),
    ("next",),
    ("config",),
    ("db", "init"),
    ("db", "status"),
    ("loadtest", "wheel"),
    *(
        ("jobs", name)
        for name in ("add", "edit", "pause", "resume", "remove", "show", "list", "import", "export")
    ),
)


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No variables of ours, and a working directory without a settings file."""
    for name in [name for name in os.environ if name.startswith("MAINSPRING_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"Usage: mainspring {' '.join(command)}" in text
    assert "\b" not in text


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_takes_embedded(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    main([*command, "--help"])
    assert "--embedded" in capsys.readouterr().out


def test_an_unknown_flag_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--htp-port", "1"]) == 2
    assert "No such option: --htp-port" in capsys.readouterr().err


def test_an_unknown_command_is_wrong_usage() -> None:
    assert main(["cofnig"]) == 2


@pytest.mark.parametrize("command", [["config"], ["run"], ["demo"], ["db", "status"], ["tail"]], ids=" ".join)
def test_a_bad_key_in_the_file_stops_every_command(
    command: list[str], bare: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (bare / "mainspring.toml").write_text("htp_port = 1\n")
    assert main(command) == 2
    assert "mainspring.toml: unknown key 'htp_port'; did you mean 'http_port'?" in capsys.readouterr().err
    assert not (bare / ".mainspring").exists()


def test_a_bad_variable_is_one_line_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MAINSPRING_HTTP_PORT", "eighty")
    assert main(["config"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: MAINSPRING_HTTP_PORT: http_port = 'eighty': ")
    assert shown.err.count("\n") == 1


def test_an_unknown_variable_is_only_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MAINSPRING_PORT", "tcp://10.0.0.1:8088")
    assert main(["config"]) == 0
    assert capsys.readouterr().err == "warning: the variable MAINSPRING_PORT means nothing to mainspring\n"


def test_config_prints_a_settings_file_with_the_origin_of_each_key(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["config", "--http-port", "99"]) == 0
    text = capsys.readouterr().out
    assert tomllib.loads(text)["http_port"] == 99
    assert "http_port = 99  # --http-port" in text
    assert "max_in_flight = 16384  # default" in text


def test_config_masks_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--json", "--postgres-dsn", "postgresql://u:s3cret@h/db"]) == 0
    assert json.loads(capsys.readouterr().out)["postgres_dsn"] == "postgresql://u:***@h/db"


def test_a_server_that_is_not_there_is_one_line_with_the_mend(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["db", "status", "--postgres-dsn", "postgresql://127.0.0.1:1/db"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert "--embedded DIR" in error
    assert "Traceback" not in error


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", [["config"], ["--help"], ["next", "--cron", "@daily"]], ids=" ".join)
def test_a_full_stdout_is_told_as_such(command: list[str], unbuffered: str) -> None:
    argv, environment = [sys.executable, "-m", "mainspring.engine", *command], dict(os.environ)
    environment["PYTHONUNBUFFERED"] = unbuffered
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            argv, stdout=full, stderr=subprocess.PIPE, text=True, env=environment, check=False
        )
    assert done.stderr == "error: cannot write to stdout: No space left on device\n"
    assert done.returncode == 1


def test_an_operating_system_error_is_told_in_words_with_its_file() -> None:
    assert explain(FileNotFoundError(2, "No such file or directory", "x.csv")) == (
        "error: x.csv: No such file or directory"
    )
    assert explain(OSError(28, "No space left on device")) == "error: No space left on device"


def test_it_runs_as_a_module_as_well() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mainspring.engine", "--version"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split()[0]) == (0, "mainspring")


def test_errors_become_exit_statuses() -> None:
    assert status_of(SettingsError("x")) == 2
    assert status_of(EmbeddedError("x")) == 1
    assert status_of(ConnectionRefusedError("x")) == 1
    assert status_of(ZeroDivisionError("x")) is None
    assert (
        explain(TimeoutError()) == "error: a server did not answer in time; `mainspring doctor` tells which"
    )


def test_help_paragraphs_flow_and_examples_stay() -> None:
    text = "First\nline.\n\n\b\nmainspring a\nmainspring b [x]"
    assert flowing(text) == "First line.\n\n  mainspring a\n  mainspring b \\[x]"


def record(message: str) -> logging.LogRecord:
    made = logging.LogRecord("mainspring.x", logging.WARNING, "f", 1, message, (), None)
    made.created, made.msecs = 1764500000.25, 250.0
    return made


def test_log_lines_are_json_when_asked_for() -> None:
    assert json.loads(JsonFormatter().format(record("slow"))) == {
        "time": "2025-11-30T10:53:20.250Z",
        "level": "warning",
        "logger": "mainspring.x",
        "message": "slow",
    }


def test_log_lines_are_text_otherwise() -> None:
    assert TextFormatter().format(record("slow")) == "2025-11-30T10:53:20.250Z WARNING mainspring.x: slow"
