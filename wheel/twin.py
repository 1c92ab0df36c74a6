"""The schedule functions once more, in plain Python: slow, obvious, and written without a look at the C ones.

Same names and answers as `mainspring.wheel.schedule`. Where both agree over generated input, both are
believed; whoever audits what the engine did can do so with code that is not the engine's. Cron is played
through minute by minute with the standard library's zone arithmetic over the data of the `tzdata` package:
keep the spans short.
"""

import functools
import importlib.resources
from collections.abc import Iterator
from datetime import date, datetime, timedelta, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

import xxhash

from mainspring.wheel.definition import NEVER, Schedule

MINUTE_S = 60
MINUTE = timedelta(minutes=1)
DAY_S = 86_400
SPREAD_DEFAULT_S = {5: 60, 6: 1}
"""By the number of fields."""

LOOK_AHEAD_DAYS = 41 * 366
"""29 February on a given weekday can be 40 years away."""

NAMES = {
    "month": ["", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    "weekday": ["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
}
SPANS = {
    "second": (0, 59),
    "minute": (0, 59),
    "hour": (0, 23),
    "day": (1, 31),
    "month": (1, 12),
    "weekday": (0, 7),
}
DRAWN_SPANS = SPANS | {"day": (1, 28), "weekday": (0, 6)}
ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class Words(NamedTuple):
    """The six fields of an expression, in small letters and without an `H`."""

    second: str
    minute: str
    hour: str
    day: str
    month: str
    weekday: str


def job_hash(job_id: int) -> int:
    """XXH64 of the id as eight little-endian bytes, seed 0: an unsigned 64-bit number."""
    return xxhash.xxh64_intdigest(job_id.to_bytes(8, "little", signed=True), seed=0)


def shard_of(job_id: int) -> int:
    """The shard that owns the job, 0-255."""
    return job_hash(job_id) // 2**56


def phase_of(job_id: int, every_s: int) -> int:
    """The job's place in its interval, in seconds."""
    return job_hash(job_id) % every_s


def spread_of(job_id: int, window_s: int) -> int:
    """The job's place in a window of `window_s` seconds."""
    return job_hash(job_id) * window_s // 2**64


def interval_next(every_s: int, phase_s: int, anchor: int, now: int) -> int:
    """The smallest t > now that is congruent to anchor + phase_s modulo every_s; epoch seconds."""
    return now + every_s - (now - anchor - phase_s) % every_s


def next_fires(schedule: Schedule, job_id: int | None, after: int, count: int) -> list[int]:
    """The first `count` instants of the job after `after`, fewer where the schedule ends; epoch seconds."""
    fires: list[int] = []
    while len(fires) < count:
        due = schedule_next(schedule, job_id, fires[-1] if fires else after)
        if due == NEVER:
            break
        fires.append(due)
    return fires


def schedule_next(schedule: Schedule, job_id: int | None, after: int) -> int:
    """The smallest instant of the job > after; NEVER when there is none."""
    if schedule.starts_at is not None:
        after = max(after, schedule.starts_at - 1)
    if schedule.boost_every_s is None or schedule.boost_until is None:
        due = own_next(schedule, job_id, after)
    else:
        phase = 0 if job_id is None else phase_of(job_id, schedule.boost_every_s)
        due = interval_next(schedule.boost_every_s, phase, 0, after)
        if due >= schedule.boost_until:
            due = own_next(schedule, job_id, max(after, schedule.boost_until - 1))
    return NEVER if schedule.ends_at is not None and due >= schedule.ends_at else due


def own_next(schedule: Schedule, job_id: int | None, after: int) -> int:
    """The same without window and boost."""
    if schedule.every_s is not None:
        phase = 0 if job_id is None else phase_of(job_id, schedule.every_s)
        phase = phase if schedule.phase_s is None else schedule.phase_s
        return interval_next(schedule.every_s, phase, 0, after)
    if schedule.run_at is not None:
        return schedule.run_at if schedule.run_at > after else NEVER
    return spread_next(schedule, job_id, after)


def spread_next(schedule: Schedule, job_id: int | None, after: int) -> int:
    """The smallest spread cron instant > after: each base instant in turn, from a window's width before."""
    assert schedule.cron is not None
    window_s = schedule.jitter_s
    if window_s is None:
        window_s = SPREAD_DEFAULT_S[len(fields_of(schedule.cron))]
    bases = base_instants(schedule.cron, schedule.tz, after - (0 if job_id is None else window_s), job_id)
    base = next(bases, NEVER)
    while base != NEVER:
        following = next(bases, NEVER)
        due = base if job_id is None else base + spread_of(job_id, min(window_s, following - base))
        if due > after:
            return due
        base = following
    return NEVER


# ------------------------------------------------------------------------------------------------ cron


def base_instants(expression: str, tz: str, after: int, job_id: int | None = None) -> Iterator[int]:
    """The base instants > after, in order, as someone would find them who watches a clock on the wall.

    Days that cannot matter are slept through; on waking, the watcher looks up what has been shown meanwhile.
    Offsets must be whole minutes, which holds in every zone since 1972. Gives up after 41 years. The values
    of an `H` are those of the job.
    """
    words = words_of(expression, job_id)
    zone = zone_of(tz)
    shown = None
    minute = after // MINUTE_S * MINUTE_S
    end = minute + LOOK_AHEAD_DAYS * DAY_S
    while minute < end:
        if not day_is_near(words, minute, zone):
            minute += DAY_S
            shown = None
            continue
        for instant in range(minute, minute + DAY_S, MINUTE_S):
            wall = wall_time(instant, zone)
            if shown is None:
                shown = latest_shown_before(instant, zone)
            for second in fires_at(words, wall, shown):
                end = minute + LOOK_AHEAD_DAYS * DAY_S
                if instant + second > after:
                    yield instant + second
            shown = max(shown, wall)
        minute += DAY_S


def day_is_near(words: Words, minute: int, zone: tzinfo) -> bool:
    """Whether one of the dates around this instant matches, so that its minutes are worth playing through."""
    today = wall_time(minute, zone).date()
    return any(date_matches(words, today + timedelta(days=days)) for days in (-1, 0, 1, 2))


def latest_shown_before(instant: int, zone: tzinfo) -> datetime:
    """The latest wall time in the two days before."""
    return max(wall_time(before, zone) for before in range(instant - 2 * DAY_S, instant, MINUTE_S))


def fires_at(words: Words, wall: datetime, shown: datetime) -> list[int]:
    """At which seconds of its minute a clock that has shown all up to `shown`, and shows `wall`, fires."""
    seconds = seconds_of(words.second)
    as_ever = wall == shown + MINUTE
    if as_ever or words.minute.startswith("*") or words.hour.startswith("*"):
        return seconds if wall_matches(words, wall) else []
    first_shown = []
    while shown < wall:
        shown += MINUTE
        first_shown.append(shown)
    fires = set(seconds) if first_shown and wall_matches(words, wall) else set()
    if any(wall_matches(words, skipped) for skipped in first_shown[:-1]):
        fires.add(0)
    return sorted(fires)


@functools.cache
def seconds_of(word: str) -> list[int]:
    """The seconds that a field names."""
    return [second for second in range(60) if field_matches("second", word, second)]


def wall_matches(words: Words, wall: datetime) -> bool:
    """Whether the expression names this minute of the wall."""
    return (
        field_matches("minute", words.minute, wall.minute)
        and field_matches("hour", words.hour, wall.hour)
        and date_matches(words, wall.date())
    )


@functools.lru_cache(maxsize=100_000)
def _date_matches(day: str, month: str, weekday: str, when: date) -> bool:
    on_day = any(day_matches(item, when) for item in day.split(","))
    on_weekday = any(weekday_matches(item, when) for item in weekday.split(","))
    both = day[0] in "*?" or weekday[0] in "*?"
    return field_matches("month", month, when.month) and (
        (on_day and on_weekday) if both else (on_day or on_weekday)
    )


def date_matches(words: Words, when: date) -> bool:
    """Whether the three date fields name this day."""
    return _date_matches(words.day, words.month, words.weekday, when)


def day_matches(item: str, when: date) -> bool:
    """Whether an item of the day of month names this day."""
    days = days_of_month(when)
    if item == "lw":
        return when == max(filter(is_workday, days))
    if item.endswith("w"):
        nth = int(item[:-1])
        # No two are as near: beside a Saturday lies the Friday, beside a Sunday the Monday.
        return nth <= len(days) and when == min(filter(is_workday, days), key=lambda day: abs(day.day - nth))
    if item.startswith("l"):
        return when.day + int(item[2:] or 0) == len(days)
    return when.day in item_values("day", item)


def weekday_matches(item: str, when: date) -> bool:
    """Whether an item of the weekday names this day."""
    if item.endswith("l") or "#" in item:
        name, _, nth = item.removesuffix("l").partition("#")
        same = [day for day in days_of_month(when) if day.isoweekday() == when.isoweekday()]
        if number("weekday", name) % 7 != when.isoweekday() % 7:
            return False
        return same.index(when) + 1 == (int(nth) if nth else len(same))
    return when.isoweekday() % 7 in item_values("weekday", item)


def days_of_month(when: date) -> list[date]:
    """All days of the month in which this one lies."""
    first = when.replace(day=1)
    days = [first + timedelta(days=later) for later in range(31)]
    return [day for day in days if day.month == when.month]


def is_workday(day: date) -> bool:
    """Monday to Friday."""
    return day.isoweekday() <= 5


@functools.lru_cache(maxsize=100_000)
def field_matches(field: str, word: str, value: int) -> bool:
    """Whether a field of the expression names this value."""
    return any(value in item_values(field, item) for item in word.split(","))


def item_values(field: str, item: str) -> set[int]:
    """What one item of a list names, by counting up from its start, round the end of the field if need be."""
    lowest, highest = SPANS[field]
    span, _, step = item.partition("/")
    if span in ("*", "?"):
        first, last = lowest, highest
    else:
        first_word, dash, last_word = span.partition("-")
        first = number(field, first_word)
        last = number(field, last_word) if dash else (highest if step else first)
    turn = 7 if field == "weekday" else highest - lowest + 1
    if last < first:
        last += turn
    return {(value - lowest) % turn + lowest for value in range(first, last + 1, int(step or 1))}


def number(field: str, word: str) -> int:
    """The number that a word of this field stands for."""
    return NAMES[field].index(word) if word.isalpha() else int(word)


# ------------------------------------------------------------------------------------------------ words


def fields_of(expression: str) -> list[str]:
    """The five or six fields as they are written, in small letters."""
    return ALIASES.get(expression.strip().lower(), expression).lower().split()


@functools.lru_cache(maxsize=10_000)
def words_of(expression: str, job_id: int | None) -> Words:
    """The six fields, a second put in front where there is none, and each `H` replaced by what it draws."""
    words = fields_of(expression)
    words = ["0", *words] if len(words) == 5 else words
    return Words(*(drawn(index, word, job_id) for index, word in enumerate(words)))


def drawn(index: int, word: str, job_id: int | None) -> str:
    """The field with plain items in place of `H` forms: for one job `H/15` is `7-59/15`."""
    items = word.split(",")
    return ",".join(drawn_item(index, item, job_id) if item.startswith("h") else item for item in items)


def drawn_item(index: int, item: str, job_id: int | None) -> str:
    """One `H` form as the plain item that it stands for."""
    assert job_id is not None, "an H needs a job to be drawn for"
    field = Words._fields[index]
    span, _, step = item.partition("/")
    first, last = DRAWN_SPANS[field]
    if span != "h":
        first, last = (number(field, end) for end in span[2:-1].split("-"))
    choices = min(last - first + 1, int(step) if step else 60, 7 if field == "weekday" else 60)
    hashed = xxhash.xxh64_intdigest(job_id.to_bytes(8, "little", signed=True), seed=index + 1)
    value = first + hashed * choices // 2**64
    return f"{value}-{last}/{step}" if step else str(value)


@functools.cache
def zone_of(name: str) -> ZoneInfo:
    """The zone from the package's data; the machine's own files may be older."""
    with importlib.resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def wall_time(instant: int, zone: tzinfo) -> datetime:
    """What a clock on the wall shows at an instant, without its zone."""
    return datetime.fromtimestamp(instant, zone).replace(tzinfo=None)
