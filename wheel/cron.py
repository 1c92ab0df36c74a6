"""Cron expressions: from text to bit masks, strictly, with errors that say where and what to write instead.

Five fields (minute, hour, day of month, month, weekday), or six with the second in front, or an alias
(@daily). The forms of a field are read by `mainspring.wheel.cron_field`.
"""

import re
from functools import reduce
from itertools import pairwise, product
from operator import or_
from typing import NamedTuple, NoReturn

from mainspring.wheel.cron_field import DAY, FIELDS, Column, Draw, Misread, read_word
from mainspring.wheel.cron_rule import occurring_months
from mainspring.wheel.errors import ScheduleError

CHARACTERS_MAX = 256
DRAWS_MAX = 10
"""So many `H` one expression may have: what they draw is one number of 64 bits."""

FIVE_FIELDS = "write five fields: minute, hour, day of month, month, weekday"
OR_SIX = "; a sixth in front is the second"
PAUSE_HINT = "mend the date, or pause the job (enabled = false) if it is not to run for now"

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class CronSpec(NamedTuple):
    """What an expression means: bit v of a mask says that value v matches.

    Sunday is 0, days and months count from 1; the masks after `weekdays` are those of
    `mainspring.wheel.cron_field.Column`. `draws`: values that come to each job by its id, beside the masks.
    `both_days`: day of month and weekday must both match, else either one. `every_real_minute`: a repeated
    hour fires in both passes and a skipped one not at all; otherwise each slot fires once. `window_s`: how
    far jobs are spread when they do not say.
    """

    seconds: int
    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    workdays: int
    from_end: int
    last_workday: bool
    nth_weekdays: int
    last_weekdays: int
    draws: tuple[Draw, ...]
    both_days: bool
    every_real_minute: bool
    window_s: int

    def drawn(self, outcomes: tuple[int, ...]) -> "CronSpec":
        """The masks with what each of `draws` has come to; no draw is left."""
        masks = list(self[:6])  # in the order of the fields
        for draw, outcome in zip(self.draws, outcomes, strict=True):
            masks[draw.field] |= draw.mask(outcome)
        return self._replace(**dict(zip(self._fields, masks, strict=False)), draws=())  # type: ignore[arg-type]


_NO_SECONDS = Column(values=1)


def parse_cron(expression: str) -> CronSpec:
    """The meaning of an expression. Raises ScheduleError that names field, token, place and mend.

    A date that never occurs (30 February) is refused too: it is a slip of the pen, or a job better paused.
    """
    _require_plain(expression)
    words = _words(expression)
    if len(words) != 5 or "=" in expression:
        _require_shape(expression, words)
    try:
        spec = _spec(_columns(words), window_s=60 if len(words) == 5 else 1)
    except Misread as misread:
        raise _placed(misread, expression, len(words)) from None
    if len(spec.draws) > DRAWS_MAX:
        _refuse(expression, f"has {len(spec.draws)} times an H", f"write {DRAWS_MAX} at most")
    _require_occurring(spec, *words[-3:])
    return spec


def _words(expression: str) -> list[str]:
    if "@" in expression:
        expression = ALIASES.get(expression.strip(" \t").lower(), expression)
    return expression.split()  # of plain text, so by spaces and tabs alone


def _columns(words: list[str]) -> list[Column]:
    numbers = range(len(FIELDS) - len(words), len(FIELDS))
    columns = list(map(read_word, numbers, words))
    return columns if len(words) == len(FIELDS) else [_NO_SECONDS, *columns]


def _spec(columns: list[Column], window_s: int) -> CronSpec:
    second, minute, hour, day, month, weekday = columns
    return CronSpec(
        second.values,
        minute.values,
        hour.values,
        day.values,
        month.values,
        weekday.values,
        day.workdays,
        day.from_end,
        day.last_workday,
        weekday.nth_weekdays,
        weekday.last_weekdays,
        second.draws + minute.draws + hour.draws + day.draws + month.draws + weekday.draws,
        day.starred or weekday.starred,
        minute.starred or hour.starred,
        window_s,
    )


# ----------------------------------------------------------------------------------- what is refused


def _require_plain(expression: str) -> None:
    # The length comes first: nothing below may be slow, or loud, on a megabyte.
    if len(expression) > CHARACTERS_MAX:
        problem = f"is {len(expression)} characters long"
        _refuse(expression, problem, f"write at most {CHARACTERS_MAX}, or divide the job in two")
    if not (expression.isascii() and expression.isprintable()) and (foreign := _FOREIGN.search(expression)):
        problem = f"at character {foreign.start() + 1} is not plain ASCII text on one line"
        _refuse(foreign[0], problem, "write digits, names and * , - / separated by spaces or tabs")


_FOREIGN = re.compile(r"[^ -~\t]")


def _placed(misread: Misread, expression: str, fields: int) -> ScheduleError:
    """The error with its place in the whole: a word is read without a look at where it stands."""
    starts = [found.start() for found in re.finditer(r"[^ \t]+", expression)]
    place = starts[misread.field - len(FIELDS) + fields] + misread.at + 1
    reminder = " (of six fields the first is the second)" if fields == 6 else ""
    problem = f"at character {place} {misread.problem}"
    field = f"cron {FIELDS[misread.field].name}"
    return ScheduleError(field, misread.token, problem, misread.mend + reminder)


def _refuse(token: str, problem: str, mend: str) -> NoReturn:
    raise ScheduleError("cron expression", token, problem, mend)


def _require_shape(expression: str, words: list[str]) -> None:
    """Refuses what has neither five fields nor six, and words that were meant otherwise."""
    told = _slip(words[0].lower() if words else "") or _torn_list(words)
    if told is None and len(words) not in (5, 6):
        told = _miscount(len(words))
    if told is not None:
        _refuse(expression, *told)


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
        if word.endswith(",") or following.startswith(","):
            return f"has a space in the list '{word} {following}'", f"write {word}{following}"
    return None


def _miscount(fields: int) -> tuple[str, str]:
    problem = f"has {fields or 'no'} field{'s' * (fields != 1)}"
    no_more = " and no more (no year, no user, no command)" if fields > 6 else ""
    return problem, FIVE_FIELDS + no_more + OR_SIX


# ------------------------------------------------------------------------------- dates that never occur


def _require_occurring(spec: CronSpec, day_word: str, month_word: str, weekday_word: str) -> None:
    # Nearly all have no draws, and one look is enough.
    if not spec.draws and occurring_months(spec, spec.days, spec.weekdays):
        return
    all_days, all_months, all_weekdays = (_drawn_masks(spec, number) for number in (3, 4, 5))
    # Each look tells of all months at once, or three draws would take thousands of looks.
    every = spec._replace(months=reduce(or_, all_months))
    for days, weekdays in product(all_days, all_weekdays):
        occurring = occurring_months(every, days, weekdays)
        if not all(occurring & months for months in all_months):
            drawn = " can draw" if spec.draws else " is"
            # Where both must match, the weekday may be what rules the date out.
            beside = f" and weekday {weekday_word!r}" if spec.both_days and weekday_word not in "*?" else ""
            problem = f"with month {month_word!r}{beside}{drawn} a date that never occurs"
            raise ScheduleError(f"cron {DAY.name}", day_word, problem, PAUSE_HINT)


def _drawn_masks(spec: CronSpec, number: int) -> set[int]:
    """All that a field can come to; its draws go together, for they are of one hash."""
    draws = [draw for draw in spec.draws if draw.field == number]
    if not draws:
        return {spec[:6][number]}
    # Between two of these fractions of the hash no draw of the field changes.
    fractions = {(part, draw.outcomes) for draw in draws for part in range(draw.outcomes)}
    masks = set()
    for part, whole in fractions:
        mask = spec[:6][number]
        for draw in draws:
            mask |= draw.mask(part * draw.outcomes // whole)
        masks.add(mask)
    return masks
