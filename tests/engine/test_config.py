"""Settings: which layer wins, what is refused and how, and what is never shown."""

import os
from pathlib import Path

import pytest

from mainspring.engine.config import (
    Settings,
    SettingsError,
    load,
    load_settings,
    mask_address,
    masked,
    unknown_variables,
)


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No variables of ours, and a working directory without a settings file."""
    for name in [name for name in os.environ if name.startswith("MAINSPRING_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_defaults_are_the_documented_ones() -> None:
    settings = load_settings({})
    assert settings.catch_up_window_s == 90
    assert settings.max_in_flight == 16_384
    assert (settings.tail_poll_s, settings.retry_cap_s, settings.watchdog_period_s) == (1, 30, 2)
    assert (settings.http_host, settings.http_port) == ("127.0.0.1", 8088)
    assert (settings.drain_timeout_s, settings.log_format) == (10, "text")
    assert settings.instance == "mainspring"


def test_flags_stand_over_variables_over_the_file(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / "mainspring.toml").write_text("http_port = 1\nmax_in_flight = 1\ncatch_up_window_s = 1\n")
    monkeypatch.setenv("MAINSPRING_HTTP_PORT", "2")
    monkeypatch.setenv("MAINSPRING_MAX_IN_FLIGHT", "2")
    loaded = load({"http_port": "3", "instance": None})
    settings = loaded.settings
    assert (settings.http_port, settings.max_in_flight, settings.catch_up_window_s) == (3, 2, 1)
    assert loaded.origins == {
        "catch_up_window_s": "mainspring.toml",
        "max_in_flight": "MAINSPRING_MAX_IN_FLIGHT",
        "http_port": "--http-port",
    }


def test_a_named_file_is_read_instead_of_the_one_in_the_working_directory(bare: Path) -> None:
    (bare / "mainspring.toml").write_text('instance = "here"\n')
    (bare / "other.toml").write_text('instance = "there"\n')
    assert load_settings({}, file=bare / "other.toml").instance == "there"


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_NATS_CREDS", "")
    assert load_settings({}).nats_creds is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("http_prt = 1", r"mainspring\.toml: unknown key 'http_prt'; did you mean 'http_port'\?"),
        ("zzz = 1", r"mainspring\.toml: unknown key 'zzz'; `mainspring config` lists the keys"),
        ("http_port = 'x'", r"mainspring\.toml: http_port = 'x': input should be a valid integer"),
        ("max_in_flight = true", r"max_in_flight = True: true and false are no values"),
        ("http_port = ", r"mainspring\.toml: Invalid value"),
        ("[postgres]\ndsn = 'x'", r"unknown key 'postgres'; did you mean 'postgres_dsn'\?"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(bare: Path, text: str, complaint: str) -> None:
    (bare / "mainspring.toml").write_text(text)
    with pytest.raises(SettingsError, match=complaint) as refusal:
        load_settings({})
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("http_port", "65536", "less than or equal to 65535"),
        ("http_port", "-1", "greater than or equal to 0"),
        ("catch_up_window_s", "1.5", "valid integer"),
        ("tail_poll_s", "0", "greater than 0"),
        ("tail_poll_s", "nan", "finite"),
        ("max_in_flight", "0", "greater than or equal to 1"),
        ("max_in_flight", "100001", "less than or equal to 100000"),
        ("instance", "two words", "should match pattern"),
        ("instance", "a.b", "should match pattern"),
        ("instance", "line\n", "should match pattern"),
        ("log_format", "xml", "'text' or 'json'"),
        ("postgres_dsn", "mysql://h/db", r"must start with postgresql://"),
        ("nats_url", "nats://a,http://b", r"must start with nats:// or tls://"),
        ("postgres_dsn", "postgresql://[::1/x", r"write an IPv6 host as \[::1\]"),
        ("postgres_dsn", "postgresql://h:abc/x", "a port is a number from 1 to 65535"),
        ("postgres_dsn", "postgresql://h:99999/x", "a port is a number from 1 to 65535"),
        ("nats_url", "nats://[::1", "each server is scheme://host:port"),
        ("nats_url", "nats://a,nats://h:99999", "the port from 1 to 65535"),
        ("nats_url", "nats://:4222", "each server is scheme://host:port"),
        ("nats_creds", "/no/such/file", "does not point to a file"),
    ],
)
def test_a_bad_value_is_refused_by_key_and_reason(key: str, value: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint) as refusal:
        load_settings({key: value})
    assert f"--{key.replace('_', '-')}: {key} = " in str(refusal.value)


def test_several_bad_values_are_named_together() -> None:
    with pytest.raises(SettingsError, match=r"--http-port.*; --log-format"):
        load_settings({"http_port": "x", "log_format": "x"})


def test_a_certificate_without_its_key_is_refused(bare: Path) -> None:
    (bare / "cert.pem").touch()
    with pytest.raises(SettingsError, match="nats_tls_cert and nats_tls_key go together"):
        load_settings({"nats_tls_cert": "cert.pem"})


def test_a_missing_named_file_is_refused(bare: Path) -> None:
    with pytest.raises(SettingsError, match=r"gone\.toml: no such file"):
        load_settings({}, file=bare / "gone.toml")


def test_a_refused_address_does_not_show_its_password() -> None:
    with pytest.raises(SettingsError) as refusal:
        load_settings({"nats_url": "http://user:s3cret@host"})
    assert "s3cret" not in str(refusal.value)


def test_unknown_variables_are_found_and_known_ones_are_not() -> None:
    environment = {
        "MAINSPRING_SERVICE_HOST": "",
        "MAINSPRING_HTTP_PORT": "",
        "MAINSPRING_EMBEDDED": "",
        "X": "",
    }
    assert unknown_variables(environment) == ["MAINSPRING_SERVICE_HOST"]


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://u:p@h/db", "postgresql://u:***@h/db"),
        ("postgresql://u:p@h1:1,h2:2/db?sslmode=require", "postgresql://u:***@h1:1,h2:2/db?sslmode=require"),
        ("postgresql://h/db?user=u&password=p", "postgresql://h/db?user=u&password=***"),
        ("postgresql://u@h/db", "postgresql://u@h/db"),
        ("postgresql://u:a/b@c@h/db", "postgresql://u:***@h/db"),
        ("nats://token@h:4222", "nats://***@h:4222"),
        ("nats://u:p@a,tls://v:q@b", "nats://u:***@a,tls://v:***@b"),
        ("nats://u:a,b@h", "nats://u:***@h"),
        ("nats://h:4222", "nats://h:4222"),
    ],
)
def test_passwords_and_tokens_are_masked(address: str, shown: str) -> None:
    assert mask_address(address) == shown


def test_no_secret_is_printed_unless_revealed() -> None:
    settings = load_settings({"postgres_dsn": "postgresql://u:s3cret@h/db", "nats_url": "nats://t0ken@h"})
    assert "s3cret" not in repr(settings)
    assert "t0ken" not in repr(settings)
    assert "s3cret" not in str(masked(settings))
    assert (
        masked(settings, reveal=frozenset({"postgres_dsn"}))["postgres_dsn"] == "postgresql://u:s3cret@h/db"
    )


def test_every_key_is_explained() -> None:
    assert all(field.description for field in Settings.model_fields.values())
