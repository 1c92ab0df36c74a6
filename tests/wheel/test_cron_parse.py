"""The grammar: what each form means, and what its errors tell."""

import time

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
    assert spec == CronSpec(1, 1, 1, 0xFFFFFFFE, 0x1FFE, 0x7F, True, False, 60)


MESSAGES = [
    ("5 0-24 * * *", "cron hour: '24' at character 5 is out of range; write a number from 0 to 23"),
    ("  1,61 * * * *", "cron minute: '61' at character 5 is out of range"),
    (
        "0 0 * * MON,WEN",
        "cron weekday: 'WEN' at character 13 is no name of this field; write a number from 0",
    ),
    ("0 0 * tue *", "cron month: 'TUE' at character 7 names a weekday, but here stands the month"),
    ("0 0 * * 5L", "cron weekday: '5L' at character 9 is not supported yet"),
    ("0 0 ? * 1", "cron day of month: '?' at character 5 is not supported yet; write * for any day"),
    ("H * * * *", "cron minute: 'H' at character 1 is not supported yet"),
    ("0 22, 10 * * *", "'0 22, 10 * * *' has a space in the list '22, 10'; write 22,10"),
    ("0 22 ,10 * * *", "'0 22 ,10 * * *' has a space in the list '22 ,10'; write 22,10"),
    ("0 0 0 1 1 *", "'0 0 0 1 1 *' has 6 fields, and a field of seconds is not supported yet"),
    (
        "0 0 30 2 *",
        "cron day of month: '30' with month '2' is a date that never occurs; mend the date, or pause",
    ),
    ("@every 5m", "set every_s"),
    ("TZ=UTC 0 0 * *", "set the time zone in tz"),
    ("weekly", "did you mean @weekly?"),
]


@pytest.mark.parametrize(("expression", "message"), MESSAGES)
def test_an_error_names_field_token_place_and_mend(expression: str, message: str) -> None:
    with pytest.raises(ScheduleError) as refusal:
        parse_cron(expression)
    assert message in str(refusal.value)


@pytest.mark.parametrize("expression", ["0 0 30 2 1", "0 0 31 4,6 SUN", "0 0 29 2 *", "0 0 */31 1,4 */6"])
def test_a_rare_date_is_no_error(expression: str) -> None:
    assert parse_cron(expression)


@pytest.mark.parametrize("junk", ["*", "1,", "0 ", "\x00", "é", "9" * 7])
def test_a_megabyte_is_refused_at_once_and_not_echoed(junk: str) -> None:
    started = time.thread_time()
    with pytest.raises(ScheduleError, match=r"\d+ characters long; write at most 256") as refusal:
        parse_cron(junk * 1_000_000)
    assert time.thread_time() - started < 0.1
    assert len(str(refusal.value)) < 400


def test_the_longest_expression_allowed_is_read_to_its_end() -> None:
    expression = "0 0 1 1 " + "1," * 123 + "09"
    assert len(expression) == 256
    with pytest.raises(ScheduleError, match="cron weekday: '09' at character 255 is out of range"):
        parse_cron(expression)
