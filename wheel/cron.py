"""Cron expressions: from text to bit masks, strictly, with errors that say where and what to write instead.

Five fields (minute, hour, day of month, month, weekday) of `*`, `*/n`, `a`, `a-b`, `a-b/n`, `a/n` and lists
of them, with names for months and weekdays, ranges that wrap round the end of a field, and aliases (@daily).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from mainspring.wheel.errors import ScheduleError

CHARACTERS_MAX = 256
FIVE_FIELDS = "write five fields: minute, hour, day of month, month, weekday"
PAUSE_HINT = "mend the date, or pause the job (enabled = false) if it is not to run for now"


@dataclass(frozen=True, slots=True)
class CronSpec:
    """What an expression means: bit v of a mask says that value v matches.

    Sunday is 0, days and months count from 1. `both_days`: day of month and weekday must both match, else
    either one. `every_real_minute`: a repeated hour fires in both passes and a skipped one not at all;
    otherwise each slot fires once. `window_s`: how far jobs are spread when they do not say.
    """

    seconds: int
    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    both_days: bool
    every_real_minute: bool
    window_s: int


@dataclass(frozen=True, slots=True)
class Field:
    """One column of an expression: its values, how many there are, and the names that stand for some."""

    name: str
    lowest: int
    highest: int
    values: int
    names: tuple[str, ...] = ()

    @property
    def hint(self) -> str:
        words = f" or {self.names[0]} to {self.names[-1]}" if self.names else ""
        return f"a number from {self.lowest} to {self.highest}{words}"


MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

MINUTE = Field("minute", 0, 59, 60)
HOUR = Field("hour", 0, 23, 24)
DAY = Field("day of month", 1, 31, 31)
MONTH = Field("month", 1, 12, 12, MONTH_NAMES)
WEEKDAY = Field("weekday", 0, 7, 7, WEEKDAY_NAMES)
FIELDS = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_ITEM = re.compile(
    r"(?:(?P<star>\*)|(?P<first>\d+|[A-Z]{3})(?:-(?P<last>\d+|[A-Z]{3}))?)(?:/(?P<step>\d+))?", re.ASCII
)
_HASHED = r"H(?:\(\d+-\d+\))?(?:/\d+)?"
_LATER = {
    MINUTE: re.compile(_HASHED, re.ASCII),
    HOUR: re.compile(_HASHED, re.ASCII),
    DAY: re.compile(rf"\?(?:/\d+)?|L(?:-\d+)?|LW|\d+W|{_HASHED}", re.ASCII),
    MONTH: re.compile(_HASHED, re.ASCII),
    WEEKDAY: re.compile(rf"\?(?:/\d+)?|(?:\d|[A-Z]{{3}})(?:L|#[1-5])|{_HASHED}", re.ASCII),
}


def parse_cron(expression: str) -> CronSpec:
    """The meaning of an expression. Raises ScheduleError that names field, token, place and mend.

    A date that never occurs (30 February) is refused too: it is a slip of the pen, or a job better paused.
    """
    _require_plain(expression)
    words = list(_words(ALIASES.get(expression.strip(" \t").lower(), expression)))
    _require_five(expression, [word for word, _ in words])
    masks = [_mask(field, word, at) for field, (word, at) in zip(FIELDS, words, strict=True)]
    starred = [word.startswith("*") for word, _ in words]
    spec = CronSpec(
        seconds=1,
        minutes=masks[0],
        hours=masks[1],
        days=masks[2],
        months=masks[3],
        weekdays=masks[4],
        both_days=starred[2] or starred[4],
        every_real_minute=starred[0] or starred[1],
        window_s=60,
    )
    _require_occurring(spec, words[2][0], words[3][0])
    return spec


def _require_plain(expression: str) -> None:
    # The length comes first: nothing below may be slow, or loud, on a megabyte.
    if len(expression) > CHARACTERS_MAX:
        raise ScheduleError(
            "cron expression",
            expression,
            f"is {len(expression)} characters long",
            f"write at most {CHARACTERS_MAX}, or divide the job in two",
        )
    if foreign := re.search(r"[^ -~\t]", expression):
        raise ScheduleError(
            "cron expression",
            foreign[0],
            f"at character {foreign.start() + 1} is not plain ASCII text on one line",
            "write digits, names and * , - / separated by spaces or tabs",
        )


def _words(expression: str) -> Iterator[tuple[str, int]]:
    for found in re.finditer(r"[^ \t]+", expression):
        yield found[0], found.start() + 1


def _require_five(expression: str, words: list[str]) -> None:
    problem_and_mend = _slip(words[0].lower() if words else "") or _torn_list(words) or _miscount(len(words))
    if problem_and_mend:
        raise ScheduleError("cron expression", expression, *problem_and_mend)


def _slip(first: str) -> tuple[str, str] | None:
    """What the first word of something that is no row of fields was meant to be."""
    if first == "@every":
        return "is not a cron expression", "set every_s to the interval in seconds instead"
    if first.startswith("@"):
        return "is not an alias", "write one of " + ", ".join(ALIASES)
    if f"@{first}" in ALIASES:
        return "is not an alias", f"did you mean @{first}?"
    if "=" in first:
        return "carries a setting", f"set the time zone in tz, and {FIVE_FIELDS}"
    return None


def _torn_list(words: list[str]) -> tuple[str, str] | None:
    """Somebody wrote a list as in prose, with a space after the comma."""
    for word, following in pairwise(words):
        if len(words) > 5 and (word.endswith(",") or following.startswith(",")):
            return f"has a space in the list '{word} {following}'", f"write {word}{following}"
    return None


def _miscount(fields: int) -> tuple[str, str] | None:
    if fields == 5:
        return None
    problem = f"has {fields or 'no'} field{'s' * (fields != 1)}"
    if fields == 6:
        problem += ", and a field of seconds is not supported yet"
    no_more = " and no more (no year, no user, no command)" if fields > 5 else ""
    return problem, FIVE_FIELDS + no_more


def _mask(field: Field, word: str, at: int) -> int:
    mask = 0
    for item in word.split(","):
        for value in _values(field, item, at):
            mask |= 1 << value
        at += len(item) + 1
    return mask


def _values(field: Field, item: str, at: int) -> Iterator[int]:
    """The values of one item of a list; a range that runs backwards goes round the end of the field."""
    found = _ITEM.fullmatch(item.upper())
    if found is None:
        raise _misfit(field, item, at)
    first = field.lowest if found["star"] else _value(field, found["first"], at)
    step = _step(field, found["step"], item, at)
    if found["last"]:
        last = _value(field, found["last"], at + found.start("last"))
    else:
        last = field.highest if found["star"] or found["step"] else first
    if last < first:
        last += field.values
    for value in range(first, last + 1, step):
        yield field.lowest + (value - field.lowest) % field.values


def _value(field: Field, token: str, at: int) -> int:
    if token in field.names:
        return field.names.index(token) + field.lowest
    if not token.isdigit():
        raise _error(field, token, at, _misnomer(field, token), f"write {field.hint}")
    if not field.lowest <= int(token) <= field.highest:
        raise _error(field, token, at, "is out of range", f"write {field.hint}")
    return int(token)


def _misnomer(field: Field, token: str) -> str:
    if token in MONTH_NAMES:
        return f"names a month, but here stands the {field.name}"
    if token in WEEKDAY_NAMES:
        return f"names a weekday, but here stands the {field.name}"
    return "is no name of this field" if field.names else "is a name, and this field has none"


def _step(field: Field, step: str | None, item: str, at: int) -> int:
    if step is None:
        return 1
    if not 1 <= int(step) <= field.values:
        raise _error(field, item, at, "has a step out of range", f"write a step from 1 to {field.values}")
    return int(step)


def _misfit(field: Field, item: str, at: int) -> ScheduleError:
    """The error for an item that has not the form of one."""
    if not item:
        return _error(field, item, at, "is an empty item of a list", "remove the stray comma")
    if _LATER[field].fullmatch(item.upper()):
        mend = f"write {field.hint}, or * for all" if item != "?" else "write * for any day"
        return _error(field, item, at, "is not supported yet", mend)
    if "/" in item and _ITEM.fullmatch(item.upper().partition("/")[0]):
        return _error(
            field, item, at, "has a step that is no number", f"write a step from 1 to {field.values}"
        )
    names = f" (names have three letters: {field.names[0]})" if field.names else ""
    return _error(
        field,
        item,
        at,
        "is neither value, range nor step",
        f"write {field.hint}, *, a-b, */n or a-b/n{names}",
    )


def _error(field: Field, token: str, at: int, problem: str, mend: str) -> ScheduleError:
    return ScheduleError(f"cron {field.name}", token, f"at character {at} {problem}", mend)


def _require_occurring(spec: CronSpec, day_word: str, month_word: str) -> None:
    # Every month, leap or not, begins on every weekday at some time in 400 years: 14 kinds of year cover all.
    kinds = ((month, leap, first) for month in range(1, 13) for leap in (False, True) for first in range(7))
    if not any(_occurs(spec, *kind) for kind in kinds):
        raise ScheduleError(
            f"cron {DAY.name}", day_word, f"with month {month_word!r} is a date that never occurs", PAUSE_HINT
        )


def _occurs(spec: CronSpec, month: int, leap: bool, first_weekday: int) -> bool:
    if not spec.months >> month & 1:
        return False
    length = 29 if month == 2 and leap else (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]
    for day in range(1, length + 1):
        on_day = bool(spec.days >> day & 1)
        on_weekday = bool(spec.weekdays >> ((first_weekday + day - 1) % 7) & 1)
        if (on_day and on_weekday) if spec.both_days else (on_day or on_weekday):
            return True
    return False
