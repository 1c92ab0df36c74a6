"""JSON that loses nothing: no digit of a number, no second value of a repeated key, no odd character.

``jsonb`` keeps numbers as decimals of any length, so a float in between would change a payload that
was only passing through. A number with a point or an exponent is therefore read as a ``Decimal``.
"""

import json
from decimal import Decimal
from typing import Final, NoReturn

# The widest numeric of Postgres: digits before and after the point.
_EXPONENT_MAX: Final = 131_071
_EXPONENT_MIN: Final = -16_383


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {json.dumps(twice[:40])} stands twice in one object: keep one of them")
    return members


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON: use a number or null")


_decode = json.JSONDecoder(object_pairs_hook=_members, parse_float=Decimal, parse_constant=_constant).decode
_encode = json.JSONEncoder(ensure_ascii=False, separators=(", ", ": ")).encode


def read_json(text: str) -> object:
    """The value of a JSON text, numbers exact (``int`` or ``Decimal``); ValueError names what is wrong."""
    try:
        return _decode(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("nested too deeply: flatten it") from None


def write_json(value: object) -> str:
    """The value in the spelling of ``jsonb::text``, so that its length is the one Postgres measures.

    ValueError for a number, a character or a depth that ``jsonb`` cannot hold.
    """
    try:
        text = _encode(value)
    except TypeError:
        # A Decimal inside: the C encoder has no door for one, so this rare value takes the slow way.
        text = "".join(_pieces(value))
    except RecursionError:
        raise ValueError("nested too deeply: flatten it") from None
    if "\\u0000" in text and _holds_nul(value):
        raise ValueError("holds the character U+0000, which Postgres cannot store: remove it")
    return text


def _pieces(value: object) -> list[str]:
    if isinstance(value, Decimal):
        return [_number(value)]
    if isinstance(value, dict):
        members = [f"{_encode(name)}: {''.join(_pieces(item))}" for name, item in value.items()]
        return ["{", ", ".join(members), "}"]
    if isinstance(value, list):
        return ["[", ", ".join("".join(_pieces(item)) for item in value), "]"]
    return [_encode(value)]


def _number(value: Decimal) -> str:
    if value and not _EXPONENT_MIN <= value.adjusted() <= _EXPONENT_MAX:
        raise ValueError(f"the number {str(value)[:24]} is beyond what Postgres can store: write it shorter")
    return format(value, "f")


def _holds_nul(value: object) -> bool:
    # "\\u0000" in the encoded text may also be an escaped backslash before "u0000": look at the strings.
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any("\0" in name or _holds_nul(item) for name, item in value.items())
    return isinstance(value, list) and any(map(_holds_nul, value))
