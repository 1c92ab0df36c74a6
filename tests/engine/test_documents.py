"""What the documents list is all there is: settings, metrics, columns."""

import re
from pathlib import Path

import pytest

from mainspring.changelog_tailer.queries import upgrades
from mainspring.engine.config import Settings
from mainspring.engine.metrics import Metrics

ROOT = Path(__file__).parents[2]
OPERATING = (ROOT / "docs" / "operating.md").read_text()
JOBS = (ROOT / "docs" / "jobs.md").read_text()


def cells(text: str) -> str:
    """The rows of its tables."""
    return "\n".join(line for line in text.splitlines() if line.startswith("|"))


def names_in(text: str) -> set[str]:
    """What stands in backquotes; `a_b`, `_c` of one cell stands for a_b and a_c as well."""
    names = set()
    for cell in text.split("|"):
        quoted = re.findall(r"`([^`]+)`", cell)
        names |= set(quoted)
        stems = {name.rsplit("_", 1)[0] for name in quoted if not name.startswith("_")}
        names |= {stem + tail for stem in stems for tail in quoted if tail.startswith("_")}
    return names


@pytest.mark.parametrize("key", Settings.model_fields)
def test_each_setting_is_described_with_its_default(key: str) -> None:
    assert key in names_in(cells(OPERATING))
    default = Settings.model_fields[key].default
    row = next(
        line for line in cells(OPERATING).splitlines() if key in names_in(line) and line.startswith("| `")
    )
    if default is not None:
        assert format(default, "g" if isinstance(default, float) else "") in row


def test_each_metric_is_described() -> None:
    exposed = set(re.findall(r"^# TYPE (\w+) ", Metrics().render().decode(), re.MULTILINE))
    described = {name.split("{")[0] for name in re.findall(r"`(mainspring_[a-z_]+[^`]*)`", OPERATING)}
    assert {name for name in exposed if not name.endswith("_created")} <= described


def test_each_column_is_described() -> None:
    table = next(each.sql for each in upgrades() if "create table mainspring.jobs (" in each.sql)
    columns = re.findall(r"^    ([a-z_]+) (?!jobs_)", table.split("constraint", 1)[0], re.MULTILINE)
    assert len(columns) == 19
    assert set(columns) <= names_in(cells(JOBS))
