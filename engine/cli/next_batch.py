"""`mainspring next --batch`: one JSON request a line in, one JSON answer a line out, in the same order.

    {"every_s": 60, "id": 42, "from": 0, "count": 2}                 ->  {"next":[30,90]}
    {"cron": "0 9 * * MON", "tz": "Europe/Vienna", "from": 0}        ->  {"next":[460800]}

Written for many lines: a request is read by a fast parser and checked field by field as it is used. That
parser is blind to a name that stands twice and to the digits of odd numbers, so whatever is not plainly good
is read again exactly, and judged by that.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO, Final

import orjson

from mainspring.engine.jobs.fields import INT4_MAX, INT8_MAX, INT8_MIN, shown
from mainspring.engine.jobs.json_text import read_json
from mainspring.engine.jobs.records import LINE_BYTES_MAX, lines
from mainspring.wheel import Schedule, interval_next, next_fires, phase_of

COUNT_MAX: Final = 10_000
# An interval on its own may be longer than a job's: the arithmetic is 64-bit throughout.
EVERY_S_MAX: Final = 2**53
INSTANT_MAX: Final = 2**53

_INTERVAL_FIELDS: Final = frozenset({"every_s", "id", "phase_s", "anchor", "from", "count"})
_CRON_FIELDS: Final = frozenset({"cron", "tz", "id", "jitter_s", "from", "count"})
_MISSING: Final = object()


def answers(stream: BinaryIO) -> Iterator[str]:
    """The answer to each line of the stream, without its line end; a bad line is answered by its error."""
    for _, line in lines(stream):
        yield answer(line)


def answer(line: bytes | None) -> str:
    """The answer to one request; None stands for a line that was too long to be kept."""
    try:
        return _told(_fires(_glanced(line)))
    except ValueError:
        pass
    try:
        return _told(_fires(_request(line)))
    except ValueError as error:
        return json.dumps({"error": str(error)})


def _told(fires: Sequence[int]) -> str:
    if len(fires) == 1:
        return f'{{"next":[{fires[0]}]}}'
    return f'{{"next":[{",".join(map(str, fires))}]}}'


def _glanced(line: bytes | None) -> Mapping[str, object]:
    """A request that is an object with as many colons as names, so none stands twice; else ValueError."""
    request = orjson.loads(line or b"")
    if type(request) is dict and line is not None and line.count(b":") == len(request):
        return request
    raise ValueError


def interval_fires(
    every_s: int, *, job_id: int | None, phase_s: int | None, anchor: int, after: int, count: int
) -> Sequence[int]:
    """The first `count` instants > `after` of an interval; the phase is hashed from the id unless given."""
    if phase_s is None:
        if job_id is None:
            raise ValueError("id: missing: the phase is hashed from it; give id, or phase_s")
        phase_s = phase_of(job_id, every_s)
    first = interval_next(every_s, phase_s, anchor, after)
    return range(first, first + every_s * count, every_s)


def cron_fires(
    cron: str, *, tz: str, job_id: int | None, jitter_s: int | None, after: int, count: int
) -> Sequence[int]:
    """The first `count` instants > `after`: spread by the id where there is one, the base instants otherwise.

    Fewer, or none, where the schedule ends; ScheduleError (a ValueError) for a bad expression or zone.
    """
    return next_fires(Schedule(cron=cron, tz=tz, jitter_s=jitter_s), job_id, after, count)


def _request(line: bytes | None) -> Mapping[str, object]:
    if line is None:
        raise ValueError(f"longer than {LINE_BYTES_MAX} bytes: write one JSON object a line")
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start + 1}: save the file as UTF-8") from None
    request = read_json(text)
    if not isinstance(request, dict):
        raise ValueError(f"{shown(request)} is no request: write one JSON object a line")
    return request


def _fires(request: Mapping[str, object]) -> Sequence[int]:
    if "every_s" in request:
        if "cron" in request:
            raise ValueError("cron: stands beside every_s: give exactly one of them")
        return _interval(request)
    if "cron" in request:
        return _cron(request)
    unknown = next(iter(request.keys() - _INTERVAL_FIELDS - _CRON_FIELDS), None)
    beside = f" (unknown field {shown(unknown)})" if unknown is not None else ""
    raise ValueError(f"every_s: missing{beside}: give every_s with id, or cron with tz")


def _interval(request: Mapping[str, object]) -> Sequence[int]:
    _refuse_unknown(request, _INTERVAL_FIELDS)
    every_s = _whole(request, "every_s", 1, EVERY_S_MAX)
    return interval_fires(
        every_s,
        job_id=_whole(request, "id", INT8_MIN, INT8_MAX) if "id" in request else None,
        phase_s=_whole(request, "phase_s", 0, EVERY_S_MAX) if "phase_s" in request else None,
        anchor=_whole(request, "anchor", -INSTANT_MAX, INSTANT_MAX, 0),
        after=_whole(request, "from", -INSTANT_MAX, INSTANT_MAX),
        count=_whole(request, "count", 1, COUNT_MAX, 1),
    )


def _cron(request: Mapping[str, object]) -> Sequence[int]:
    _refuse_unknown(request, _CRON_FIELDS)
    return cron_fires(
        _text(request, "cron", ""),
        tz=_text(request, "tz", "UTC"),
        job_id=_whole(request, "id", INT8_MIN, INT8_MAX) if "id" in request else None,
        jitter_s=_whole(request, "jitter_s", 0, INT4_MAX) if "jitter_s" in request else None,
        after=_whole(request, "from", -INSTANT_MAX, INSTANT_MAX),
        count=_whole(request, "count", 1, COUNT_MAX, 1),
    )


def _refuse_unknown(request: Mapping[str, object], known: frozenset[str]) -> None:
    if not request.keys() <= known:
        name = min(request.keys() - known)
        raise ValueError(f"{shown(name)}: unknown field: known are {', '.join(sorted(known))}")


def _whole(request: Mapping[str, object], name: str, low: int, high: int, default: int | None = None) -> int:
    value = request.get(name, _MISSING)
    # `type() is` and not isinstance: true is an int to Python and a mistake here.
    if type(value) is int:
        if low <= value <= high:
            return value
        raise ValueError(f"{name}: {shown(value)} is out of range: give a whole number from {low} to {high}")
    if value is not _MISSING:
        raise ValueError(f"{name}: {shown(value)} is no whole number: give one from {low} to {high}")
    if default is None:
        raise ValueError(f"{name}: missing: give a whole number from {low} to {high}")
    return default


def _text(request: Mapping[str, object], name: str, default: str) -> str:
    value = request.get(name, default)
    if isinstance(value, str):
        return value
    raise ValueError(f"{name}: {shown(value)} is no text: put it in quotes")
