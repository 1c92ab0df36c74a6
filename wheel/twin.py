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
from zoneinfo import ZoneInfo

import xxhash

from mainspring.wheel.definition import NEVER, Schedule

MINUTE_S = 60
DAY_S = 86_400
SPREAD_DEFAULT_S = 60
LOOK_AHEAD_DAYS = 41 * 366
"""29 February on a given weekday can be 40 years away."""

NAMES = {
    "month": ["", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    "weekday": ["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
}
SPANS = {"minute": (0, 59), "hour": (0, 23), "day": (1, 31), "month": (1, 12), "weekday": (0, 7)}
ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


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
    window_s = SPREAD_DEFAULT_S if schedule.jitter_s is None else schedule.jitter_s
    assert schedule.cron is not None
    bases = base_instants(schedule.cron, schedule.tz, after - (0 if job_id is None else window_s))
    base = next(bases, NEVER)
    while base != NEVER:
        following = next(bases, NEVER)
        due = base if job_id is None else base + spread_of(job_id, min(window_s, following - base))
        if due > after:
            return due
        base = following
    return NEVER


# ------------------------------------------------------------------------------------------------ cron


def base_instants(expression: str, tz: str, after: int) -> Iterator[int]:
    """The base instants > after, in order, as someone would find them who watches a clock on the wall.

    Days that cannot matter are slept through; on waking, the watcher looks up what has been shown meanwhile.
    Offsets must be whole minutes, which holds in every zone since 1972. Gives up after 41 years.
    """
    words = ALIASES.get(expression.strip().lower(), expression).lower().split()
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
            if instant > after and fires_at(words, wall, shown):
                yield instant
            shown = max(shown, wall)
        minute += DAY_S


def day_is_near(words: list[str], minute: int, zone: tzinfo) -> bool:
    """Whether one of the dates around this instant matches, so that its minutes are worth playing through."""
    today = wall_time(minute, zone).date()
    return any(date_matches(words, today + timedelta(days=days)) for days in (-1, 0, 1, 2))


def latest_shown_before(instant: int, zone: tzinfo) -> datetime:
    """The latest wall time in the two days before."""
    return max(wall_time(before, zone) for before in range(instant - 2 * DAY_S, instant, MINUTE_S))


def fires_at(words: list[str], wall: datetime, shown: datetime) -> bool:
    """Whether a clock that has shown everything up to `shown`, and now shows `wall`, sets the job off."""
    if words[0].startswith("*") or words[1].startswith("*"):
        return wall_matches(words, wall)
    first_shown = []
    while shown < wall:
        shown += timedelta(minutes=1)
        first_shown.append(shown)
    return any(wall_matches(words, moment) for moment in first_shown)


def wall_matches(words: list[str], wall: datetime) -> bool:
    """Whether the expression names this wall time."""
    return (
        field_matches("minute", words[0], wall.minute)
        and field_matches("hour", words[1], wall.hour)
        and date_matches(words, wall.date())
    )


@functools.lru_cache(maxsize=100_000)
def _date_matches(day: str, month: str, weekday: str, when: date) -> bool:
    on_day = field_matches("day", day, when.day)
    on_weekday = field_matches("weekday", weekday, when.isoweekday() % 7)
    both = day.startswith("*") or weekday.startswith("*")
    return field_matches("month", month, when.month) and (
        (on_day and on_weekday) if both else (on_day or on_weekday)
    )


def date_matches(words: list[str], when: date) -> bool:
    """Whether the three date fields name this day."""
    return _date_matches(words[2], words[3], words[4], when)


@functools.lru_cache(maxsize=100_000)
def field_matches(field: str, word: str, value: int) -> bool:
    """Whether a field of the expression names this value."""
    return any(value in item_values(field, item) for item in word.split(","))


def item_values(field: str, item: str) -> set[int]:
    """What one item of a list names, by counting up from its start, round the end of the field if need be."""
    lowest, highest = SPANS[field]
    span, _, step = item.partition("/")
    if span == "*":
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


@functools.cache
def zone_of(name: str) -> ZoneInfo:
    """The zone from the package's data; the machine's own files may be older."""
    with importlib.resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def wall_time(instant: int, zone: tzinfo) -> datetime:
    """What a clock on the wall shows at an instant, without its zone."""
    return datetime.fromtimestamp(instant, zone).replace(tzinfo=None)
