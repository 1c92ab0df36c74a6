"""The SQL of this package, by name: `queries.sql` for what is asked, numbered files for the schema."""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_UPGRADE = re.compile(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Upgrade:
    """One step of the schema: its number, its name, and the statements that make it."""

    version: int
    name: str
    sql: str


@cache
def _queries() -> dict[str, str]:
    _, *parts = _NAME.split(read_sql("queries.sql"))
    return dict(zip(parts[::2], (text.strip() for text in parts[1::2]), strict=True))


def read_sql(name: str) -> str:
    """The text of one file below `sql/`."""
    return (files("mainspring.changelog_tailer") / "sql" / name).read_text(encoding="utf-8")


def query(name: str) -> str:
    """A query of `queries.sql`. Raises KeyError for a name that is not there."""
    return _queries()[name]


@cache
def upgrades() -> tuple[Upgrade, ...]:
    """Every step of the schema, oldest first."""
    folder = files("mainspring.changelog_tailer") / "sql"
    matches = [match for entry in folder.iterdir() if (match := _UPGRADE.fullmatch(entry.name))]
    return tuple(
        Upgrade(int(match[1]), match[2], read_sql(match[0])) for match in sorted(matches, key=lambda m: m[0])
    )


def schema_version() -> int:
    """The version of the schema that this code needs."""
    return upgrades()[-1].version
