"""When clocks on the wall fire: the base instants of a cron expression, a whole span at once.

What `mainspring.wheel.twin` plays through minute by minute is looked up here in arrays. The words of an
expression and the days it names are the twin's; nothing of the compiled evaluator has a part in it.
"""

from datetime import date
from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainspring.engine.verify.effect import Instants
from mainspring.wheel.twin import Words, date_matches, field_matches, wall_time, zone_of

_MINUTE_S: Final = 60
_DAY: Final = 1440
_REMEMBERED: Final = 2 * _DAY
"""So many minutes back a wall may have shown a time that it shows again."""

_LOOK_EVERY: Final = 360
"""Minutes; no zone changes its offset and changes it back within them."""

BLOCK_S: Final = 3600


def base_instants(words: Words, tz: str, first: int, last: int) -> Instants:
    """Those in [first, last], ascending; epoch seconds."""
    found = [_within(words, tz, block, first, last) for block in range(first // BLOCK_S, last // BLOCK_S + 1)]
    return np.concatenate(found) if found else np.empty(0, np.int64)


def first_base(words: Words, tz: str, first: int, last: int) -> int | None:
    """The first one in [first, last], looked for an hour at a time."""
    for block in range(first // BLOCK_S, last // BLOCK_S + 1):
        if len(found := _within(words, tz, block, first, last)):
            return int(found[0])
    return None


def last_base(words: Words, tz: str, first: int, last: int) -> int | None:
    """The last one in [first, last], looked for from behind."""
    for block in range(last // BLOCK_S, first // BLOCK_S - 1, -1):
        if len(found := _within(words, tz, block, first, last)):
            return int(found[-1])
    return None


def _within(words: Words, tz: str, block: int, first: int, last: int) -> Instants:
    found = _in_block(words, tz, block)
    inside: Instants = found[np.searchsorted(found, first) : np.searchsorted(found, last, side="right")]
    return inside


@lru_cache(maxsize=65_536)
def _in_block(words: Words, tz: str, block: int) -> Instants:
    minutes, wall, shown = _walls(tz, block)
    seconds = np.array([second for second in range(60) if field_matches("second", words.second, second)])
    if words.minute.startswith("*") or words.hour.startswith("*"):
        return _at_seconds(minutes[_matches(words, wall)], seconds)
    instants = _at_seconds(minutes[(wall > shown) & _matches(words, wall)], seconds)
    leaps = [
        minute * _MINUTE_S
        for minute, now, before in zip(minutes.tolist(), wall.tolist(), shown.tolist(), strict=True)
        if now > before + 1 and _matches(words, np.arange(before + 1, now)).any()
    ]
    return np.unique(np.concatenate([instants, np.array(leaps, np.int64)]))


def _at_seconds(minutes: Instants, seconds: Instants) -> Instants:
    instants: Instants = (minutes[:, None] * _MINUTE_S + seconds).ravel()
    return instants


@lru_cache(maxsize=1024)
def _walls(tz: str, block: int) -> tuple[Instants, Instants, Instants]:
    """The minutes of the block; what the wall shows in each, and the latest that it had shown before."""
    first = block * BLOCK_S // _MINUTE_S
    minutes = np.arange(first - _REMEMBERED, first + BLOCK_S // _MINUTE_S)
    wall = minutes + _offsets(tz, minutes)
    shown = np.maximum.accumulate(wall)
    behind = slice(_REMEMBERED, None)
    return minutes[behind], wall[behind], shown[_REMEMBERED - 1 : -1]


def _offsets(tz: str, minutes: Instants) -> Instants:
    """Minutes east of Greenwich in each of a row of minutes."""
    looked = sorted({*range(0, len(minutes), _LOOK_EVERY), len(minutes) - 1})
    offsets = np.empty(len(minutes), np.int64)
    for start, end in pairwise(looked):
        here, there = _offset(tz, int(minutes[start])), _offset(tz, int(minutes[end]))
        offsets[start : end + 1] = here
        if here != there:
            offsets[start : end + 1] = [_offset(tz, minute) for minute in minutes[start : end + 1].tolist()]
    return offsets


def _offset(tz: str, minute: int) -> int:
    shown = wall_time(minute * _MINUTE_S, zone_of(tz))
    return (shown.toordinal() - _EPOCH_DAY) * _DAY + shown.hour * 60 + shown.minute - minute


_EPOCH_DAY: Final = 719_163
"""1970-01-01 as Python counts days."""


def _matches(words: Words, wall: Instants) -> NDArray[np.bool_]:
    """Whether the expression names each of these minutes of the wall."""
    of_day = _minutes_of_day(words.hour, words.minute)
    days, which = np.unique(wall // _DAY, return_inverse=True)
    named = np.array(
        [_day_matches(words.day, words.month, words.weekday, int(day)) for day in days], np.bool_
    )
    matched: NDArray[np.bool_] = of_day[wall % _DAY] & named[which]
    return matched


@lru_cache(maxsize=16_384)
def _minutes_of_day(hour: str, minute: str) -> NDArray[np.bool_]:
    hours = np.array([field_matches("hour", hour, value) for value in range(24)])
    minutes = np.array([field_matches("minute", minute, value) for value in range(60)])
    of_day: NDArray[np.bool_] = (hours[:, None] & minutes).ravel()
    return of_day


@lru_cache(maxsize=100_000)
def _day_matches(day: str, month: str, weekday: str, number: int) -> bool:
    words = Words("0", "0", "0", day, month, weekday)
    return date_matches(words, date.fromordinal(number + _EPOCH_DAY))
