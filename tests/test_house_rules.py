"""Rules of the house that no linter knows: who imports whom, who reads a clock, what a file may be called."""

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAY_IMPORT = {
    "wheel": {"wheel"},
    "changelog_tailer": {"changelog_tailer"},
    "engine": {"engine", "wheel", "changelog_tailer"},
    "loadtest": {"loadtest", "engine", "wheel", "changelog_tailer"},
}
SOURCES = [
    path
    for package in MAY_IMPORT
    for path in sorted((ROOT / package).rglob("*.py*"))
    if path.suffix != ".pyc"
]
PYTHON = [path for path in SOURCES if path.suffix == ".py"]
EMPTY_NAMES = {"utils", "util", "base", "common", "manager", "helpers", "misc"}
LINES_MAX = 500
OURS = re.compile(r"^\s*(?:from|import|cimport)\s+mainspring\.(\w+)", re.MULTILINE)
CLOCKS = {
    ("time", "time"),
    ("time", "monotonic"),
    ("time", "time_ns"),
    ("datetime", "now"),
    ("datetime", "utcnow"),
}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_a_package_imports_only_what_lies_below_it(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    assert set(OURS.findall(path.read_text())) <= MAY_IMPORT[package]


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_a_file_has_a_name_that_says_something_and_a_size_that_can_be_read(path: Path) -> None:
    assert path.stem not in EMPTY_NAMES
    assert len(path.read_text().splitlines()) <= LINES_MAX


@pytest.mark.parametrize("path", PYTHON, ids=name)
def test_only_one_file_reads_a_clock(path: Path) -> None:
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    read = {
        (call.value.id, call.attr)
        for call in calls
        if isinstance(call, ast.Attribute) and isinstance(call.value, ast.Name)
    }
    assert path == ROOT / "engine" / "clock.py" or not read & CLOCKS


def test_imports_are_absolute() -> None:
    relative = [
        name(path)
        for path in PYTHON
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []


def test_the_root_of_the_checkout_is_not_on_the_path() -> None:
    """There our package `wheel` would hide the one of that name that packaging tools import."""
    assert str(ROOT) not in sys.path, "run `pytest`, not `python -m pytest`"
    assert "" not in sys.path


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_every_package_is_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").exists()
