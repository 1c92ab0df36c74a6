"""A cron expression in words: "at 09:00 and 17:00 on Monday to Friday, in January"."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from mainspring.wheel import CronSpec
from mainspring.wheel.cron_field import FIELDS, Draw

_WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS: Final = (
    "", "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
_NTH: Final = ("first", "second", "third", "fourth", "fifth")
_EVERY_DAY: Final = 0xFFFFFFFE
_EVERY_MONTH: Final = 0x1FFE
_EVERY_WEEKDAY: Final = 0x7F
_CLOCK_TIMES_MAX: Final = 6


def cron_words(spec: CronSpec) -> str:
    """What the expression says. Values that an `H` draws are told as such; `CronSpec.drawn` fills them in."""
    return " ".join(part for part in (_clock(spec), _date(spec), _months(spec)) if part)


def values_of(mask: int) -> list[int]:
    """The numbers of the bits that are set, ascending."""
    return [value for value in range(mask.bit_length()) if mask >> value & 1]


def listed(parts: Sequence[str], word: str = "and") -> str:
    """Parts as a sentence has them: a, a and b, a, b and c."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {word} {parts[-1]}"


# ------------------------------------------------------------------------------------------- the clock


def _clock(spec: CronSpec) -> str:
    minutes, hours, seconds = (values_of(mask) for mask in (spec.minutes, spec.hours, spec.seconds))
    drawn = any(draw.field <= 2 for draw in spec.draws)
    if not drawn and len(minutes) * len(hours) * len(seconds) <= _CLOCK_TIMES_MAX:
        tail = [f":{second:02}" for second in seconds] if spec.window_s == 1 else [""]
        return "at " + listed([f"{h:02}:{m:02}{s}" for h in hours for m in minutes for s in tail])
    parts = [_column(spec, 1, minutes), _column(spec, 2, hours)]
    if spec.window_s == 1:
        parts.insert(0, _column(spec, 0, seconds))
    return "at " + " of ".join(parts)


def _column(spec: CronSpec, number: int, values: list[int]) -> str:
    """One unit of the clock: every 15 minutes from minute 0, or minutes 0 to 9 and 30."""
    field = FIELDS[number]
    draws = [_draw(draw) for draw in spec.draws if draw.field == number]
    if len(values) == field.values:
        return f"every {field.name}"
    if not draws and (step := _step_of(values, field.values)):
        return f"every {step} {field.name}s from {field.name} {values[0]}"
    plural = "s" if len(values) + len(draws) > 1 else ""
    return f"{field.name}{plural} {listed(_runs(values) + draws)}"


def _step_of(values: list[int], whole: int) -> int | None:
    """The step of values that go round the field evenly, three at least."""
    steps = {after - before for before, after in pairwise(values)}
    if len(values) < 3 or len(steps) != 1 or steps == {1}:
        return None
    (step,) = steps
    return step if values[0] + whole == values[-1] + step else None


def _runs(values: list[int], names: Sequence[str] = ()) -> list[str]:
    """Values by name or number, neighbours joined to "a to b" where there are three or more."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    parts = []
    for run in runs:
        words = [names[value] if names else str(value) for value in run]
        parts += [f"{words[0]} to {words[-1]}"] if len(run) > 2 else words
    return parts


def _draw(draw: Draw) -> str:
    text = f"one of {draw.first} to {draw.last} drawn by id"
    return f"every {draw.step} from {draw.first} to {draw.last}, begun by id" if draw.step else text


# -------------------------------------------------------------------------------------------- the date


def _date(spec: CronSpec) -> str:
    days, weekdays = _days(spec), _weekdays(spec)
    if not days and not weekdays:
        return ""
    if not days or not weekdays:
        return f"on {days or weekdays}"
    return f"on {days}, if that is {weekdays}" if spec.both_days else f"on {days} and on {weekdays}"


def _days(spec: CronSpec) -> str:
    if spec.days == _EVERY_DAY:
        return ""
    parts = _runs(values_of(spec.days))
    parts = [f"day{'s' * (len(parts) > 1 or ' to ' in parts[0])} {listed(parts)}"] if parts else []
    parts += [f"the Monday to Friday nearest to day {day}" for day in values_of(spec.workdays)]
    parts += ["the last day" if n == 0 else f"{n} days before the last" for n in values_of(spec.from_end)]
    parts += ["the last Monday to Friday"] if spec.last_workday else []
    parts += [f"day {_draw(draw)}" for draw in spec.draws if draw.field == 3]
    return listed(parts)


def _weekdays(spec: CronSpec) -> str:
    if spec.weekdays == _EVERY_WEEKDAY:
        return ""
    parts = _runs(values_of(spec.weekdays), _WEEKDAYS)
    parts += [f"the {_NTH[bit // 7]} {_WEEKDAYS[bit % 7]}" for bit in values_of(spec.nth_weekdays)]
    parts += [f"the last {_WEEKDAYS[weekday]}" for weekday in values_of(spec.last_weekdays)]
    parts += [f"weekday {_draw(draw)}" for draw in spec.draws if draw.field == 5]
    return listed(parts, "or" if spec.both_days and _days(spec) else "and")


def _months(spec: CronSpec) -> str:
    if spec.months == _EVERY_MONTH:
        return ""
    parts = _runs(values_of(spec.months), _MONTHS)
    parts += [f"month {_draw(draw)}" for draw in spec.draws if draw.field == 4]
    return f"in {listed(parts)}"
