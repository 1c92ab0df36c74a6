"""The evaluator against two cron libraries where their rules are ours: in UTC, away from known differences.

Each oracle works in a process of its own under a time limit, for some expressions send one into a loop.
"""

import random
import subprocess
import sys

import pytest

from mainspring.wheel.cron_eval import CompiledCron

CASES = 1000
LIMIT_S = 60

# Reads "epoch<TAB>expression" lines, writes the next three fire times of each.
ORACLES = {
    "cronsim": """
import sys
from datetime import datetime, timezone
from cronsim import CronSim
for line in sys.stdin:
    after, expression = line.rstrip("\\n").split("\\t")
    fires = CronSim(expression, datetime.fromtimestamp(int(after), timezone.utc))
    print(*[int(next(fires).timestamp()) for _ in range(3)])
""",
    "croniter": """
import sys
from croniter import croniter
for line in sys.stdin:
    after, expression = line.rstrip("\\n").split("\\t")
    fires = croniter(expression, float(after), day_or=True, implement_cron_bug=True)
    print(*[int(fires.get_next(float)) for _ in range(3)])
""",
}


def one_item(draw: random.Random, lowest: int, highest: int) -> str:
    first, last = sorted(draw.sample(range(lowest, highest + 1), 2))
    step = draw.randint(1, highest - lowest)
    return draw.choice([str(first), f"{first}-{last}", f"*/{step}", f"{first}-{last}/{step}", "*", "*"])


def cases(seed: int) -> list[tuple[int, str]]:
    """Plain forms only: ranges that wrap and weekday 7 in a step are read differently by each library."""
    draw = random.Random(seed)
    spans = ((0, 59), (0, 23), (1, 28), (1, 12), (0, 6))
    return [
        (draw.randint(0, 4_000_000_000), " ".join(one_item(draw, *span) for span in spans))
        for _ in range(CASES)
    ]


@pytest.mark.parametrize("oracle", sorted(ORACLES))
def test_a_library_gives_the_same_fire_times_in_utc(oracle: str) -> None:
    asked = cases(seed=20251130)
    answer = subprocess.run(
        [sys.executable, "-c", ORACLES[oracle]],
        input="".join(f"{after}\t{expression}\n" for after, expression in asked),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    for (after, expression), line in zip(asked, answer.stdout.splitlines(), strict=True):
        cron = CompiledCron(expression, "UTC")
        fires = [after]
        for _ in range(3):
            fires.append(cron.next(fires[-1]))
        assert fires[1:] == [int(word) for word in line.split()], (expression, after)
