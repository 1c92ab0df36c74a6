"""What the tests of schedules share: the recorded cases, and generators of expressions and instants."""

import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from mainspring.wheel.definition import Schedule

VECTORS = Path(__file__).parent / "data" / "vectors"

Y1990, Y2100 = 631_152_000, 4_102_444_800
# A busy machine is no failure: speed has tests of its own, which count processor time.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

ODD_ZONES = (
    "Africa/Casablanca",  # daylight time suspended for Ramadan
    "Africa/Cairo",  # abolished, and brought back in 2023
    "America/Nuuk",  # changes on a Saturday by UTC's count
    "America/Sao_Paulo",  # changed at midnight
    "America/St_Johns",  # half an hour off, once changed at 0:01
    "Antarctica/Troll",  # two hours at once
    "Asia/Beirut",  # midnight does not exist
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",  # half an hour of daylight time
    "Europe/Berlin",
    "Europe/Dublin",  # winter is the exception
    "Pacific/Apia",  # a Friday that never was
    "Pacific/Chatham",
    "Pacific/Kiritimati",
    "America/New_York",
    "UTC",
)

FIELD_SPANS = ((0, 59, 60), (0, 59, 60), (0, 23, 24), (1, 31, 31), (1, 12, 12), (0, 7, 7))
MONTHS = ("JAN", "feb", "Mar", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("sun", "MON", "Tue", "WED", "THU", "FRI", "SAT")


def vectors(name: str) -> list[dict[str, Any]]:
    """The cases of one file, in order."""
    return [json.loads(line) for line in (VECTORS / name).read_text("ascii").splitlines()]


def instants(first: int = Y1990, last: int = Y2100) -> st.SearchStrategy[int]:
    return st.integers(first, last)


zones = st.sampled_from(ODD_ZONES)
job_ids = st.integers(-(2**63), 2**63 - 1)


PLAIN_FORMS = ("{a}", "{a}", "*", "*/{n}", "{a}-{b}", "{a}-{b}/{n}", "{a}/{n}")
HASHED_FORMS = ("H", "H/{n}", "H({low}-{high})", "H({low}-{high})/{n}")
DAY_FORMS = ("?", "?/{n}", "L", "L-{back}", "LW", "{a}W")
WEEKDAY_FORMS = ("?", "?/{n}", "{a}L", "{a}#{nth}")


@st.composite
def items(draw: st.DrawFn, column: int, *, hashed: bool) -> str:
    """One item of a field; column 0 is the second."""
    lowest, highest, values = FIELD_SPANS[column]
    names = {4: MONTHS, 5: WEEKDAYS}.get(column, ())
    words = st.one_of(st.integers(lowest, highest).map(str), *([st.sampled_from(names)] if names else []))
    own = {3: DAY_FORMS, 5: WEEKDAY_FORMS}.get(column, ())
    form = draw(st.sampled_from(PLAIN_FORMS + own + (HASHED_FORMS if hashed else ())))
    low, high = sorted((draw(st.integers(lowest, highest)), draw(st.integers(lowest, highest))))
    day = st.integers(lowest, highest).map(str)
    return form.format(
        a=draw(day if form == "{a}W" else words),
        b=draw(words),
        n=draw(st.integers(1, values)),
        low=low,
        high=high,
        back=draw(st.integers(0, 30)),
        nth=draw(st.integers(1, 5)),
    )


@st.composite
def expressions(draw: st.DrawFn, *, hashed: bool = False) -> str:
    """Five or six fields of every form; some name a date that never occurs, as people do."""
    fields = []
    for column in range(draw(st.integers(0, 1)), 6):
        starred = st.just("*") if column >= 3 else st.nothing()
        listed = st.lists(items(column, hashed=hashed), min_size=1, max_size=3).map(",".join)
        fields.append(draw(st.one_of(starred, listed)))
    return " ".join(fields)


@st.composite
def schedules(draw: st.DrawFn, crons: st.SearchStrategy[str]) -> Schedule:
    """Any schedule that may be defined, with window and boost now and then."""
    now = draw(instants(Y1990 + 10**9, Y1990 + 2 * 10**9))
    kind = draw(st.sampled_from(["every_s", "cron", "run_at"]))
    fields: dict[str, Any] = {}
    if kind == "every_s":
        fields = {
            "every_s": draw(st.integers(1, 100_000)),
            "phase_s": draw(st.none() | st.integers(0, 10**6)),
        }
    elif kind == "cron":
        jitter_s = draw(st.none() | st.integers(0, 90_000))
        fields = {"cron": draw(crons), "tz": draw(zones), "jitter_s": jitter_s}
    else:
        fields = {"run_at": now + draw(st.integers(-1000, 1000))}
    if draw(st.booleans()):
        fields["starts_at"] = now + draw(st.integers(-100_000, 100_000))
        fields["ends_at"] = fields["starts_at"] + draw(st.integers(1, 200_000))
    if kind != "run_at" and draw(st.booleans()):
        boost_until = now + draw(st.integers(-5000, 50_000))
        fields |= {"boost_every_s": draw(st.integers(1, 4000)), "boost_until": boost_until}
    return Schedule(**fields)
