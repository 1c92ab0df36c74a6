"""One column of a cron expression: from a word such as `*/15`, `MON-FRI`, `15W` or `H(0-29)` to bit masks.

A word means the same wherever it stands, and a fleet writes few different ones, so each is read once.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


class Field(NamedTuple):
    """The values of a column, how many there are, the names of some, and how far an `H` draws.

    The draw of a day ends at the 28th, which every month has.
    """

    name: str
    lowest: int
    highest: int
    values: int
    drawn_highest: int
    names: tuple[str, ...] = ()

    @property
    def hint(self) -> str:
        words = f" or {self.names[0]} to {self.names[-1]}" if self.names else ""
        return f"a number from {self.lowest} to {self.highest}{words}"


SECOND = Field("second", 0, 59, 60, 59)
MINUTE = Field("minute", 0, 59, 60, 59)
HOUR = Field("hour", 0, 23, 24, 23)
DAY = Field("day of month", 1, 31, 31, 28)
MONTH = Field("month", 1, 12, 12, 12, MONTH_NAMES)
WEEKDAY = Field("weekday", 0, 7, 7, 6, WEEKDAY_NAMES)
FIELDS = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY)
"""By number: the number of a field is also what an `H` in it draws with."""


class Draw(NamedTuple):
    """One `H`: a first value out of `outcomes` many from `first` on, then every `step`-th up to `last`.

    `step` 0: that one value alone. The hash is XXH64 of the job's id with the seed `field` + 1.
    """

    field: int
    first: int
    last: int
    step: int
    outcomes: int

    def mask(self, outcome: int) -> int:
        """The values that outcome 0 to `outcomes` - 1 stands for."""
        field, start = FIELDS[self.field], self.first + outcome
        drawn = range(start, self.last + 1, self.step) if self.step else (start,)
        return _bits((value - field.lowest) % field.values + field.lowest for value in drawn)


class Column(NamedTuple):
    """What one word means: bit v of a mask says that value v matches.

    `workdays`: bit d for the Monday to Friday nearest to day d. `from_end`: bit n for n days before the last
    day. `nth_weekdays`: bit 7 (k - 1) + w for the k-th weekday w. `last_weekdays`: bit w for the last one.
    """

    values: int = 0
    starred: bool = False
    workdays: int = 0
    from_end: int = 0
    last_workday: bool = False
    nth_weekdays: int = 0
    last_weekdays: int = 0
    draws: tuple[Draw, ...] = ()


class Misread(ValueError):
    """A word that is none of its field: the part in question, where it begins in the word, and the mend.

    `field` is the number of that field, once `read_word` has let the error pass.
    """

    def __init__(self, token: str, at: int, problem: str, mend: str) -> None:
        super().__init__(token, at, problem, mend)
        self.token, self.at, self.problem, self.mend = token, at, problem, mend
        self.field = 0


@lru_cache(maxsize=8192)
def read_word(number: int, word: str) -> Column:
    """The meaning of a word in field `number`; raises Misread."""
    column = Column(starred=word.startswith(("*", "?")))
    at = 0
    try:
        for item in word.split(","):
            column = _joined(column, _read_item(number, item, at))
            at += len(item) + 1
    except Misread as misread:
        misread.field = number
        raise
    return column


def _joined(one: Column, other: Column) -> Column:
    return Column(
        one.values | other.values,
        one.starred or other.starred,
        one.workdays | other.workdays,
        one.from_end | other.from_end,
        one.last_workday or other.last_workday,
        one.nth_weekdays | other.nth_weekdays,
        one.last_weekdays | other.last_weekdays,
        one.draws + other.draws,
    )


_NAME_OR_NUMBER = r"\d+|[A-Z]{3}"
_PLAIN = re.compile(
    rf"(?:(?P<all>[*?])|(?P<first>{_NAME_OR_NUMBER})(?:-(?P<last>{_NAME_OR_NUMBER}))?)(?:/(?P<step>\d+))?",
    re.ASCII,
)
_HASHED = re.compile(
    rf"H(?:\((?P<first>{_NAME_OR_NUMBER})-(?P<last>{_NAME_OR_NUMBER})\))?(?:/(?P<step>\d+))?", re.ASCII
)
_END_OF_MONTH = re.compile(r"L(?:-(?P<before>\d+))?", re.ASCII)
_WORKDAY = re.compile(r"(?P<day>\d+|L)W", re.ASCII)
_OCCURRENCE = re.compile(rf"(?P<weekday>{_NAME_OR_NUMBER})(?:L|#(?P<nth>\d+))", re.ASCII)


def _read_item(number: int, item: str, at: int) -> Column:
    field, text = FIELDS[number], item.upper()
    if (found := _PLAIN.fullmatch(text)) and (found["all"] != "?" or field in (DAY, WEEKDAY)):
        return Column(_bits(_values(field, found, item, at)))
    if found := _HASHED.fullmatch(text):
        return Column(draws=(_draw(number, found, item, at),))
    if field is DAY and (found := _END_OF_MONTH.fullmatch(text)):
        return Column(from_end=1 << _days_before(found["before"] or "0", item, at))
    if field is DAY and (found := _WORKDAY.fullmatch(text)):
        return _workday(found["day"], at)
    if field is WEEKDAY and (found := _OCCURRENCE.fullmatch(text)):
        return _occurrence(found, at)
    raise _misfit(field, item, at)


def _values(field: Field, found: re.Match[str], item: str, at: int) -> Iterator[int]:
    """The values of one item; a range that runs backwards goes round the end of the field."""
    first = field.lowest if found["all"] else _value(field, found["first"], at)
    step = _step(field, found["step"], item, at)
    if found["last"]:
        last = _value(field, found["last"], at + found.start("last"))
    else:
        last = field.highest if found["all"] or found["step"] else first
    if last < first:
        last += field.values
    return ((value - field.lowest) % field.values + field.lowest for value in range(first, last + 1, step))


def _draw(number: int, found: re.Match[str], item: str, at: int) -> Draw:
    field = FIELDS[number]
    first, last = field.lowest, field.drawn_highest
    if found["first"]:
        first = _value(field, found["first"], at + found.start("first"))
        last = _value(field, found["last"], at + found.start("last"))
    if last < first:
        swapped = f"H({found['last']}-{found['first']})"
        raise Misread(item, at, "draws from a range that runs backwards", f"write {swapped}")
    values = min(last - first + 1, field.values)
    step = _step(field, found["step"], item, at) if found["step"] else 0
    return Draw(number, first, last, step, min(step, values) if step else values)


def _days_before(text: str, item: str, at: int) -> int:
    days = _small(text)
    if days >= DAY.highest:
        raise Misread(item, at, "reaches back past the first of the month", "write L-1 to L-30")
    return days


def _workday(day: str, at: int) -> Column:
    if day == "L":
        return Column(last_workday=True)
    return Column(workdays=1 << _value(DAY, day, at))


def _occurrence(found: re.Match[str], at: int) -> Column:
    weekday = _value(WEEKDAY, found["weekday"], at) % 7
    if not found["nth"]:
        return Column(last_weekdays=1 << weekday)
    nth = _small(found["nth"])
    if not 1 <= nth <= 5:
        mend = f"write {found['weekday']}#1 to {found['weekday']}#5, or {found['weekday']}L for the last"
        raise Misread(found[0], at, "is a weekday that no month has", mend)
    return Column(nth_weekdays=1 << (7 * (nth - 1) + weekday))


def _value(field: Field, token: str, at: int) -> int:
    if token in field.names:
        return field.names.index(token) + field.lowest
    if not token.isdigit():
        raise Misread(token, at, _misnomer(field, token), f"write {field.hint}")
    if not field.lowest <= _small(token) <= field.highest:
        raise Misread(token, at, "is out of range", f"write {field.hint}")
    return _small(token)


def _misnomer(field: Field, token: str) -> str:
    if token in MONTH_NAMES:
        return f"names a month, but here stands the {field.name}"
    if token in WEEKDAY_NAMES:
        return f"names a weekday, but here stands the {field.name}"
    return "is no name of this field" if field.names else "is a name, and this field has none"


def _step(field: Field, step: str | None, item: str, at: int) -> int:
    if step is None:
        return 1
    if not 1 <= _small(step) <= field.values:
        raise Misread(item, at, "has a step out of range", f"write a step from 1 to {field.values}")
    return _small(step)


def _small(digits: str) -> int:
    """The number, or one out of every range: a field's values have two digits, leading zeros aside."""
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) <= 3 else 1000


def _bits(values: Iterator[int] | tuple[int, ...]) -> int:
    mask = 0
    for value in values:
        mask |= 1 << value
    return mask


_CLOCK = (SECOND, MINUTE, HOUR)
# What people write that is nearly right: the form, the fields it is read in, what is wrong, what to write.
_NEAR_MISSES: tuple[tuple[str, tuple[Field, ...], str, str], ...] = (
    (r"[\"'].*|.*[\"']", FIELDS, "has a quotation mark", "leave the quotes out"),
    (r"\?(?:/.*)?", (*_CLOCK, MONTH), "stands for any day, and here is none", "write * here"),
    (r"L.*|.*[A-Z0-9]L", (*_CLOCK, MONTH), "has an L, which is for the day fields", "write {hint}"),
    (r"L(\d|[A-Z]{3})", (WEEKDAY,), "has the L in front", r"write \1L for the last such weekday"),
    (r"L", (WEEKDAY,), "names no weekday", "write the weekday before it: 5L or FRIL is the last Friday"),
    (r"LL|WL", (DAY,), "is no day", "write L for the last day, LW for the last Monday to Friday"),
    (r"(LW-\d+|L-\d+W)", (DAY,), "mixes LW and L-n", "write one of them"),
    (r"W", (DAY,), "lacks its day", "write 15W for the Monday to Friday nearest to the 15th, or LW"),
    (r"\d+-\d+W", (DAY,), "has a W on a range", "write each day with its own W: 1W,2W"),
    (r".*#.*", (*_CLOCK, DAY, MONTH), "has a #, which is for weekdays", "write it in the weekday field"),
    (r".+-.+#.*", (WEEKDAY,), "has a # on a range", "write each weekday with its own: 1#2,2#2"),
    (r".*#.*", (WEEKDAY,), "counts no weekday", "write MON#1 to MON#5"),
    (r"H.*", FIELDS, "is no form of H", "write H, H/n, H(a-b) or H(a-b)/n"),
)


def _misfit(field: Field, item: str, at: int) -> Misread:
    """The error for an item that has not the form of one."""
    if not item:
        return Misread(item, at, "is an empty item of a list", "remove the stray comma")
    text = item.upper()
    for form, fields, problem, mend in _NEAR_MISSES:
        if field in fields and (found := re.fullmatch(form, text, re.ASCII)):
            return Misread(item, at, problem, found.expand(mend.replace("{hint}", field.hint)))
    if "/" in item and _PLAIN.fullmatch(text.partition("/")[0]):
        return Misread(item, at, "has a step that is no number", f"write a step from 1 to {field.values}")
    names = f" (names have three letters: {field.names[0]})" if field.names else ""
    forms = f"write {field.hint}, *, a-b, */n or a-b/n{names}"
    return Misread(item, at, "is neither value, range nor step", forms)
