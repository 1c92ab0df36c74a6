"""JSON passes through without a loss."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.engine.jobs.json_text import read_json, write_json

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
NUMBERS = st.integers() | st.decimals(allow_nan=False, allow_infinity=False, places=4)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
)


@given(VALUES)
def test_what_was_written_is_read_again(value: object) -> None:
    assert read_json(write_json(value)) == value


@pytest.mark.parametrize(
    "text", ["0.1000000000000000000001", "1.10", "-0.5", "123456789012345678901234567890"]
)
def test_a_number_keeps_every_digit(text: str) -> None:
    assert write_json(read_json(text)) == text
    assert write_json(read_json(f'{{"a": [{text}]}}')) == f'{{"a": [{text}]}}'


def test_an_exponent_is_written_out_as_postgres_does() -> None:
    assert write_json(read_json("1e3")) == "1000"
    assert write_json(read_json("[12e-4]")) == "[0.0012]"


@pytest.mark.parametrize("text", ["1e999999999", "[1e-999999]", '{"a": 1e200000}'])
def test_a_number_beyond_postgres_is_refused_without_being_written_out(text: str) -> None:
    with pytest.raises(ValueError, match="beyond what Postgres can store"):
        write_json(read_json(text))


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"b": {"a": 1, "a": 1}}', '[{"a": null, "a": null}]'])
def test_a_name_that_stands_twice_is_refused_wherever_it_stands(text: str) -> None:
    with pytest.raises(ValueError, match='"a" stands twice'):
        read_json(text)


@pytest.mark.parametrize(
    "text", ["", "{", "{'a': 1}", '{"a": 1,}', "NaN", "[Infinity]", "1 2", '"\t"', "[" * 100_000]
)
def test_what_is_no_json_is_refused_by_an_error_of_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"not JSON|nested too deeply") as refused:
        read_json(text)
    assert "\n" not in str(refused.value)


def test_a_nul_is_told_from_the_six_characters_that_name_it() -> None:
    assert write_json("\\u0000") == json.dumps("\\u0000")
    with pytest.raises(ValueError, match=r"U\+0000"):
        write_json({"a\0": 1})
    with pytest.raises(ValueError, match=r"U\+0000"):
        write_json([Decimal("1.5"), "\0"])
