"""The statements of ``queries.sql`` by name."""

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def _queries() -> dict[str, str]:
    text = files("mainspring.engine.jobs").joinpath("queries.sql").read_text("utf-8")
    _, *parts = _NAME.split(text)
    return {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}


def query(name: str, **parts: str) -> str:
    """The statement of that name; ``{all_columns}`` and the parts given fill its braces (never user text)."""
    text = _queries()[name]
    if "{all_columns}" in text:
        parts["all_columns"] = _queries()["columns_of_a_job"]
    return text.format(**parts) if parts else text
