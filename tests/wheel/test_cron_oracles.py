"""The evaluator against cron libraries: the same instants, but for what docs/cron.md explains.

Each oracle works in a process of its own under a time limit, for some expressions send one into a loop.
`make oracles` asks 100,000 cases, and croner as well, which comes from npm. MAINSPRING_ORACLE_CASES and _SEED
say how many and which.
"""

import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pytest

from mainspring.wheel.cron import parse_cron
from mainspring.wheel.cron_eval import CompiledCron
from mainspring.wheel.errors import ScheduleError

CASES = int(os.environ.get("MAINSPRING_ORACLE_CASES", "1500"))
SEED = int(os.environ.get("MAINSPRING_ORACLE_SEED", "20251130"))
CHUNK = 2000
LIMIT_S = 300
FIRES = 3
CRONER = Path(__file__).parents[2] / "build" / "oracles"
# Zones that have not changed their clocks since 1990: what the libraries do there is another matter.
ZONES = ("UTC", "Asia/Tokyo", "Asia/Kathmandu", "America/Phoenix")

# Reads "epoch<TAB>zone<TAB>expression" lines; writes the next fire times of each, or what went wrong. A case
# that takes two seconds is given up.
PYTHON = """
import signal, sys
from datetime import datetime
from zoneinfo import ZoneInfo
{imports}
def give_up(*_):
    raise TimeoutError
signal.signal(signal.SIGALRM, give_up)
for line in sys.stdin:
    after, zone, expression = line.rstrip("\\n").split("\\t")
    start = datetime.fromtimestamp(int(after), ZoneInfo(zone))
    signal.setitimer(signal.ITIMER_REAL, 2)
    try:
        told = [{fires} for _ in range(FIRES)]
    except BaseException as error:
        told = [type(error).__name__]
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(*told, flush=True)
""".replace("FIRES", str(FIRES))
JAVASCRIPT = """
const {Cron} = require("croner");
for (const line of require("fs").readFileSync(0, "utf8").split("\\n").slice(0, -1)) {
  const [after, timezone, expression] = line.split("\\t");
  try {
    const fires = new Cron(expression, {timezone}).nextRuns(FIRES, new Date(after * 1000));
    console.log(fires.map((fire) => fire.getTime() / 1000).join(" ") || "never");
  } catch (error) { console.log(error.constructor.name); }
}
""".replace("FIRES", str(FIRES))
PROGRAMS = {
    "cronsim": [
        sys.executable,
        "-c",
        PYTHON.replace("{imports}", "from cronsim import CronSim").replace(
            "[{fires} for _", "[int(next(cron).timestamp()) for cron in [CronSim(expression, start)] for _"
        ),
    ],
    "croniter": [
        sys.executable,
        "-c",
        PYTHON.replace("{imports}", "from croniter import croniter").replace(
            "[{fires} for _",
            "[int(cron.get_next(float)) for cron in [croniter(expression, start, implement_cron_bug=True, "
            "second_at_beginning=True)] for _",
        ),
    ],
    "croner": ["node", "-e", JAVASCRIPT],
}


class Difference(NamedTuple):
    """A form that a library does not have or reads otherwise, as a pattern over the expression."""

    pattern: str
    why: str


BACKWARDS = Difference("<", "ranges that run backwards")
STEP_FROM = Difference(r"(?<![\d*?-])\d+/", "a/n")
L_MINUS = Difference(r"L-\d", "L-n")
EVERY_DAY, EVERY_WEEKDAY = 0xFFFFFFFE, 0x7F
ONE_VALUE = r"(?<!\d)(\d+)-\1(?!\d)"
DIFFERENCES = {
    "cronsim": [
        BACKWARDS,
        L_MINUS,
        Difference(r"\?", "?"),
        Difference(r"\dW", "nW"),
        Difference(ONE_VALUE + "/", "a-a/n"),
    ],
    "croniter": [
        Difference("<", "a step across the end of a field"),
        L_MINUS,
        Difference("LW", "LW"),
        Difference(r"\dL", "nL"),
        Difference(r"\dW,|,\d+W|(29|30|31)W", "nW in a list, or in a month without day n"),
        Difference(r"\dW [^ ]+ [^*?]", "nW beside a weekday"),
        Difference(ONE_VALUE, "a-a"),
        Difference("all days", "a list or range that names every day without a star"),
        Difference("#", "n#k in a list, or beside a day of the month"),
        Difference(r"(?<![\d*?/-])\d/\d+[^ ]*$", "a/n as a weekday"),
    ],
    "croner": [
        BACKWARDS,
        STEP_FROM,
        L_MINUS,
        Difference("LW,|,LW", "LW in a list"),
        Difference("day rule", "*/n or ?/n in one day field, and the other restricted"),
    ],
}


def explained(oracle: str, expression: str) -> str | None:
    """The documented difference that the expression falls under."""
    day, _, weekday = expression.split()[-3:]
    named = parse_cron(expression)
    for pattern, why in DIFFERENCES[oracle]:
        if pattern == "<":
            if any(int(a) > int(b) for a, b in re.findall(r"(\d+)-(\d+)", expression)):
                return why
        elif pattern == "day rule":
            if any(re.match(r"[*?].", word) for word in (day, weekday)):
                return why
        elif pattern == "all days":
            if (day[0] not in "*?" and named.days == EVERY_DAY) or (
                weekday[0] not in "*?" and named.weekdays == EVERY_WEEKDAY
            ):
                return why
        elif re.search(pattern, expression):
            return why
    return None


# ------------------------------------------------------------------------------------------------ cases

SPANS = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def item(draw: random.Random, column: int) -> str:
    lowest, highest = SPANS[column]
    a, b = draw.randint(lowest, highest), draw.randint(lowest, highest)
    low, high = sorted((a, b))
    step = draw.randint(1, highest - lowest)
    forms = [f"{a}", f"{a}", f"{low}-{high}", f"*/{step}", f"{low}-{high}/{step}", "*", "*"]
    if draw.random() < 0.1:
        forms = [f"{a}-{b}", f"{a}/{step}", f"{a}-{b}/{step}"]
        forms += {3: ["?", "L", f"L-{draw.randint(1, 27)}", "LW", f"{a}W"], 5: ["?", f"{a}L"]}.get(column, [])
        forms += [f"{a}#{draw.randint(1, 5)}"] if column == 5 else []
    return draw.choice(forms)


def field(draw: random.Random, column: int) -> str:
    chosen = [item(draw, column) for _ in range(draw.choice((1, 1, 1, 1, 2, 3)))]
    # A star amid a list says nothing that a star alone does not, and each library reads it in its own way.
    return (
        chosen[0] if chosen[0] in "*?" or len(chosen) == 1 else ",".join(c for c in chosen if c not in "*?")
    )


def cases(seed: int, count: int) -> Iterator[tuple[int, str, str]]:
    draw = random.Random(seed)
    while count:
        first = draw.choice((0, 1, 1, 1))
        expression = " ".join(field(draw, column) for column in range(first, 6))
        try:
            CompiledCron(expression, "UTC")
        except ScheduleError:
            continue  # a date that never occurs: all else is in the grammar
        count -= 1
        yield draw.randint(631_152_000, 3_800_000_000), draw.choice(ZONES), expression


def ask(oracle: str, asked: Iterable[tuple[int, str, str]]) -> list[str]:
    ended = subprocess.run(
        PROGRAMS[oracle],
        input="".join(f"{after}\t{zone}\t{expression}\n" for after, zone, expression in asked),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
        cwd=CRONER if oracle == "croner" else None,
    )
    return ended.stdout.splitlines()


def ours(after: int, zone: str, expression: str) -> str:
    cron = CompiledCron(expression, zone)
    fires = [after]
    for _ in range(FIRES):
        fires.append(cron.next(fires[-1]))
    return " ".join(map(str, fires[1:]))


@pytest.mark.parametrize("oracle", sorted(PROGRAMS))
def test_a_library_gives_the_same_fire_times_but_for_what_is_explained(oracle: str) -> None:
    if oracle == "croner" and not CRONER.joinpath("node_modules").exists():
        pytest.skip("croner is there after `make oracles`")
    counts: Counter[str] = Counter()
    unexplained = []
    remaining = cases(SEED, CASES)
    while chunk := list(islice(remaining, CHUNK)):
        for case, told in zip(chunk, ask(oracle, chunk), strict=True):
            if told == "TimeoutError":
                counts["given up"] += 1
            elif told == ours(*case):
                counts["same"] += 1
            elif why := explained(oracle, case[2]):
                counts[why] += 1
            else:
                unexplained.append((case, told, ours(*case)))
    print(oracle, dict(counts), len(unexplained))
    assert unexplained == []
    assert counts["same"] > CASES // 2
    assert counts["given up"] <= CASES // 100
