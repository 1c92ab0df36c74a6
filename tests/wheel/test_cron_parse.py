"""The grammar: what each form means, and what its errors tell."""

from typing import Any

import pytest

from mainspring.wheel.cron import CronSpec, parse_cron
from mainspring.wheel.errors import ScheduleError


def values(mask: int) -> list[int]:
    return [value for value in range(64) if mask >> value & 1]


MEANINGS: list[tuple[str, str, list[int]]] = [
    ("* * * * *", "minutes", list(range(60))),
    ("*/20 * * * *", "minutes", [0, 20, 40]),
    ("7/20 * * * *", "minutes", [7, 27, 47]),
    ("50-10/5 * * * *", "minutes", [0, 5, 10, 50, 55]),
    ("3,1,2,2 * * * *", "minutes", [1, 2, 3]),
    ("007 * * * *", "minutes", [7]),
    ("0 22-2 * * *", "hours", [0, 1, 2, 22, 23]),
    ("0 2-23/24 * * *", "hours", [2]),
    ("0 0 28-3 * *", "days", [1, 2, 3, 28, 29, 30, 31]),
    ("0 0 31/2 * *", "days", [31]),
    ("0 0 * nov-FEB *", "months", [1, 2, 11, 12]),
    ("0 0 * NOV-FEB/2 *", "months", [1, 11]),
    ("0 0 * * FRI-MON", "weekdays", [0, 1, 5, 6]),
    ("0 0 * * SAT-SUN", "weekdays", [0, 6]),
    ("0 0 * * MON-SUN", "weekdays", list(range(7))),
    ("0 0 * * 5-7", "weekdays", [0, 5, 6]),
    ("0 0 * * 7-2", "weekdays", [0, 1, 2]),
    ("0 0 * * 0-7", "weekdays", list(range(7))),
    ("0 0 * * 7", "weekdays", [0]),
    ("0 0 * * */7", "weekdays", [0]),
    ("0 0 * * 4/3", "weekdays", [0, 4]),
    ("0 0 * * 2/2", "weekdays", [2, 4, 6]),
]


@pytest.mark.parametrize(("expression", "field", "expected"), MEANINGS)
def test_each_form_means_what_it_says(expression: str, field: str, expected: list[int]) -> None:
    assert values(getattr(parse_cron(expression), field)) == expected


@pytest.mark.parametrize(
    ("expression", "both"),
    [
        ("0 0 1 * 1", False),
        ("0 0 */2 * 1", True),
        ("0 0 1 * */2", True),
        ("0 0 * * 1", True),
        ("0 0 */31,1-7 * 1", True),
        ("0 0 1-7,*/31 * 1", False),
    ],
)
def test_a_star_in_front_of_a_day_field_asks_for_both(expression: str, both: bool) -> None:
    assert parse_cron(expression).both_days is both


@pytest.mark.parametrize(
    ("expression", "wildcard"),
    [("*/5 2 * * *", True), ("0 * * * *", True), ("0 */6 * * *", True), ("0-59 0-23 * * *", False)],
)
def test_a_star_in_front_of_minute_or_hour_makes_a_wildcard(expression: str, wildcard: bool) -> None:
    assert parse_cron(expression).every_real_minute is wildcard


@pytest.mark.parametrize("alias", ["@daily", "@MIDNIGHT", " @Daily\t"])
def test_aliases_are_taken_in_any_case_and_amid_blanks(alias: str) -> None:
    assert parse_cron(alias) == parse_cron("0 0 * * *")


def test_five_fields_have_no_seconds_and_spread_over_their_minute() -> None:
    spec = parse_cron("0 0 * * *")
    assert (values(spec.seconds), spec.window_s) == ([0], 60)
    nothing_else = (0, 0, False, 0, 0, ())
    assert spec == CronSpec(1, 1, 1, 0xFFFFFFFE, 0x1FFE, 0x7F, *nothing_else, True, False, 60)


def test_six_fields_begin_with_the_second_and_are_not_spread() -> None:
    spec = parse_cron("*/20 30 4 * * *")
    assert (values(spec.seconds), values(spec.minutes), spec.window_s) == ([0, 20, 40], [30], 1)
    assert not spec.every_real_minute, "what makes a wildcard is the minute or the hour"


# Weekday w of week k is bit 7 (k - 1) + w.
RULES: list[tuple[str, dict[str, Any]]] = [
    ("0 0 L * *", {"from_end": 1, "days": 0}),
    ("0 0 L-3,L-30 * *", {"from_end": 1 << 3 | 1 << 30}),
    ("0 0 lw,15,1W * *", {"last_workday": True, "days": 1 << 15, "workdays": 1 << 1}),
    ("0 0 * * 5L,sunL", {"last_weekdays": 1 << 5 | 1, "weekdays": 0}),
    ("0 0 * * 7#1,WED#5", {"nth_weekdays": 1 | 1 << 31}),
    ("0 0 ? * MON", {"days": 0xFFFFFFFE, "both_days": True, "weekdays": 2}),
    ("0 0 ?/2 * 7", {"days": 0xAAAAAAAA, "both_days": True}),
]


@pytest.mark.parametrize(("expression", "parts"), RULES)
def test_forms_of_the_day_fields_are_rules_beside_the_values(expression: str, parts: dict[str, Any]) -> None:
    spec = parse_cron(expression)
    assert {name: getattr(spec, name) for name in parts} == parts


DRAWS = [
    ("H * * * *", [(1, 0, 59, 0, 60)]),
    ("h/5 * * * *", [(1, 0, 59, 5, 5)]),
    ("H(10-20),H(50-59)/7 * * * *", [(1, 10, 20, 0, 11), (1, 50, 59, 7, 7)]),
    ("H H * * * *", [(0, 0, 59, 0, 60), (1, 0, 59, 0, 60)]),
    ("0 0 H H H", [(3, 1, 28, 0, 28), (4, 1, 12, 0, 12), (5, 0, 6, 0, 7)]),
    ("0 0 H(20-31)/30 * *", [(3, 20, 31, 30, 12)]),
    ("0 0 * H(JUN-AUG) H(MON-FRI)", [(4, 6, 8, 0, 3), (5, 1, 5, 0, 5)]),
    ("0 0 * * H(0-7)", [(5, 0, 7, 0, 7)]),
]


@pytest.mark.parametrize(("expression", "draws"), DRAWS)
def test_an_h_is_a_draw_from_a_range(expression: str, draws: list[tuple[int, ...]]) -> None:
    spec = parse_cron(expression)
    assert list(spec.draws) == draws
    for draw in spec.draws:
        for outcome in (0, draw.outcomes - 1):
            assert set(values(draw.mask(outcome))) <= set(range(draw.first, draw.last + 1))


def test_a_draw_of_every_nth_value_takes_all_of_them() -> None:
    (draw,) = parse_cron("H/5 * * * *").draws
    assert [values(draw.mask(outcome)) for outcome in range(5)] == [list(range(i, 60, 5)) for i in range(5)]
    assert parse_cron("H/5 2,3 * * *").drawn((3,)).minutes == draw.mask(3)


MESSAGES = [
    ("5 0-24 * * *", "cron hour: '24' at character 5 is out of range; write a number from 0 to 23"),
    ("  1,61 * * * *", "cron minute: '61' at character 5 is out of range"),
    (
        "0 0 * * MON,WEN",
        "cron weekday: 'WEN' at character 13 is no name of this field; write a number from 0",
    ),
    ("0 0 * tue *", "cron month: 'TUE' at character 7 names a weekday, but here stands the month"),
    ("0 0 * * L", "cron weekday: 'L' at character 9 names no weekday; write the weekday before it: 5L"),
    ("0 0 * * L5", "'L5' at character 9 has the L in front; write 5L for the last such weekday"),
    ("0 0 * * MON#6", "'MON#6' at character 9 is a weekday that no month has; write MON#1 to MON#5, or MONL"),
    ("0 0 * * 8#1", "cron weekday: '8' at character 9 is out of range"),
    ("0 ? * * 1", "cron hour: '?' at character 3 stands for any day, and here is none; write * here"),
    ("0 0 L-31 * *", "'L-31' at character 5 reaches back past the first of the month; write L-1 to L-30"),
    ("0 0 32W * *", "cron day of month: '32' at character 5 is out of range"),
    ("0 0 3,1-5W * *", "'1-5W' at character 7 has a W on a range; write each day with its own W"),
    ("0 0 1#2 * *", "'1#2' at character 5 has a #, which is for weekdays; write it in the weekday field"),
    ("H(10-5) * * * *", "'H(10-5)' at character 1 draws from a range that runs backwards; write H(5-10)"),
    ("H(0-60) * * * *", "cron minute: '60' at character 5 is out of range"),
    ("H/61 * * * *", "'H/61' at character 1 has a step out of range; write a step from 1 to 60"),
    ("H5 * * * *", "'H5' at character 1 is no form of H; write H, H/n, H(a-b) or H(a-b)/n"),
    ("H,H,H,H,H,H,H,H,H,H,H * * * *", "has 11 times an H; write 10 at most"),
    ("0 0 H(28-31) 2 *", "'H(28-31)' with month '2' can draw a date that never occurs; mend the date, or"),
    ("0 5 * * 1 root", "cron weekday: 'root' at character 11 is neither value, range nor step"),
    ("60 0 5 * * 1", "cron second: '60' at character 1 is out of range; write a number from 0 to 59 (of six"),
    ("TZ=UTC 0 0 * * *", "carries a setting; set the time zone in tz"),
    ("0 22, 10 * * *", "'0 22, 10 * * *' has a space in the list '22, 10'; write 22,10"),
    ("0 22 ,10 * * *", "'0 22 ,10 * * *' has a space in the list '22 ,10'; write 22,10"),
    (
        "0 0 0 1 1 * 2030",
        "has 7 fields; write five fields: minute, hour, day of month, month, weekday and",
    ),
    (
        "0 0 30 2 *",
        "cron day of month: '30' with month '2' is a date that never occurs; mend the date, or pause",
    ),
    ("0 0 */31 * 1#2", "'*/31' with month '*' and weekday '1#2' is a date that never occurs; mend the date"),
    ("0 0 */31 2 1#3,1#4", "'*/31' with month '2' and weekday '1#3,1#4' is a date that never occurs"),
    ("0 0 30 2 ?", "'30' with month '2' is a date that never occurs"),
    ('"0 0 * * *"', "cron minute: '\"0' at character 1 has a quotation mark; leave the quotes out"),
    ("0 0 * * MON'", "has a quotation mark; leave the quotes out"),
    ("@every 5m", "set every_s"),
    ("TZ=UTC 0 0 * *", "set the time zone in tz"),
    ("weekly", "did you mean @weekly?"),
]


@pytest.mark.parametrize(("expression", "message"), MESSAGES)
def test_an_error_names_field_token_place_and_mend(expression: str, message: str) -> None:
    with pytest.raises(ScheduleError) as refusal:
        parse_cron(expression)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    "expression",
    [
        "0 0 30 2 1",
        "0 0 31 4,6 SUN",
        "0 0 29 2 *",
        "0 0 */31 1,4 */6",
        "0 0 H 2 H",
        "0 0 31W 1 *",
        "0 0 * 2 1#5",
    ],
)
def test_a_rare_date_is_no_error(expression: str) -> None:
    assert parse_cron(expression)


def refused(expression: str) -> bool:
    try:
        parse_cron(expression)
    except ScheduleError:
        return True
    return False


@pytest.mark.parametrize(
    ("days", "months", "weekday"),
    [
        ((1, 28), (1, 12), "*"),
        ((27, 30), (1, 3), "*"),
        ((28, 29), (2, 2), "*/6"),
        ((29, 31), (3, 3), "*"),
        ((30, 31), (4, 6), "?"),
        ((30, 31), (4, 6), "MON"),
        ((6, 8), (1, 2), "*/2,1#2"),
        ((8, 9), (1, 2), "*/7,1#2"),
        ((28, 29), (1, 2), "*/7,SUN#5"),
    ],
)
def test_an_h_is_refused_where_one_of_its_draws_would_be(
    days: tuple[int, int], months: tuple[int, int], weekday: str
) -> None:
    drawn = [
        f"0 0 {day} {month} {weekday}"
        for day in range(days[0], days[1] + 1)
        for month in range(months[0], months[1] + 1)
    ]
    hashed = f"0 0 H({days[0]}-{days[1]}) H({months[0]}-{months[1]}) {weekday}"
    assert refused(hashed) is any(map(refused, drawn))


@pytest.mark.parametrize("junk", ["*", "1,", "0 ", "\x00", "é", "9" * 7])
def test_a_megabyte_is_refused_at_once_and_not_echoed(junk: str) -> None:
    with pytest.raises(ScheduleError, match=r"\d+ characters long; write at most 256") as refusal:
        parse_cron(junk * 1_000_000)
    assert len(str(refusal.value)) < 400


def test_the_longest_expression_allowed_is_read_to_its_end() -> None:
    expression = "0 0 1 1 " + "1," * 123 + "09"
    assert len(expression) == 256
    with pytest.raises(ScheduleError, match="cron weekday: '09' at character 255 is out of range"):
        parse_cron(expression)
