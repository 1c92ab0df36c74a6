"""A run that can never be stored is told, noted in the instance's bucket, and only then settled."""

import itertools
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import nats as nats_py
import pytest
import pytest_asyncio
from nats.errors import NoRespondersError

from mainspring.changelog_tailer import Cursor
from mainspring.engine.broker.bucket import Bucket, open_bucket
from mainspring.engine.failover.recovery import KEY, RecoveryPoint
from mainspring.engine.publishing import dead_letters
from mainspring.engine.publishing.dead_letters import DeadLetters
from mainspring.engine.verify.gaps import Told, read_told

AT = 1_764_500_000
NUMBERS = itertools.count()


@dataclass
class Desk:
    """Dead letters on a bucket of their own, what was settled so far, and whether the broker is away."""

    bucket: Bucket
    settled: list[tuple[int, int]] = field(default_factory=list)
    away: bool = False
    letters: DeadLetters = field(init=False)

    def __post_init__(self) -> None:
        self.letters = DeadLetters(self, lambda second, runs: self.settled.append((second, runs)))  # type: ignore[arg-type]

    async def put(self, key: str, value: bytes, ttl_s: int) -> None:
        if self.away:
            raise NoRespondersError
        await self.bucket.put(key, value, ttl_s)

    async def told(self) -> Told:
        """What an audit finds."""
        found = await read_told(self.bucket)
        assert found is not None
        return found


@pytest_asyncio.fixture
async def desk(nats_url: str) -> AsyncIterator[Desk]:
    client = await nats_py.connect(nats_url)
    name = f"letters{next(NUMBERS)}"
    bucket = await open_bucket(client.jetstream(), name)
    await bucket.put(KEY, RecoveryPoint(AT, Cursor(1, 1, "1:1:")).encode())
    yield Desk(bucket)
    await client.jetstream().delete_key_value(name)
    await client.close()


async def test_they_are_settled_by_their_seconds_once_an_audit_can_find_them(desk: Desk) -> None:
    for second, run in ((AT, "7@1764500000"), (AT, "8@1764500000"), (AT + 1, "-7@1764499990")):
        desk.letters.add(second, run, "too large")
    assert (desk.settled, (await desk.told()).dead) == ([], frozenset())
    await desk.letters.run_once()
    assert desk.settled == [(AT, 2), (AT + 1, 1)]
    assert (await desk.told()).dead == {(7, AT), (8, AT), (-7, AT - 10)}
    await desk.letters.run_once()
    assert desk.settled == [(AT, 2), (AT + 1, 1)]


async def test_while_the_broker_is_away_they_wait_and_it_is_told_once(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.away = True
    desk.letters.add(AT, f"7@{AT}", "too large")
    for _ in range(3):
        await desk.letters.run_once()
    assert (desk.settled, (await desk.told()).dead) == ([], frozenset())
    assert caplog.text.count("does not take the note of dead letters") == 1
    desk.away = False
    await desk.letters.run_once()
    assert desk.settled == [(AT, 1)]
    assert (await desk.told()).dead == {(7, AT)}


async def test_many_go_in_notes_that_a_server_takes(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "_RUNS_MAX", 10)
    for job in range(25):
        desk.letters.add(AT, f"{job}@{AT}", "too large")
    for _ in range(3):
        await desk.letters.run_once()
    assert desk.settled == [(AT, 10), (AT, 10), (AT, 5)]
    assert (await desk.told()).dead == {(job, AT) for job in range(25)}


async def test_what_is_forgotten_is_neither_noted_nor_settled(desk: Desk) -> None:
    desk.letters.add(AT, f"7@{AT}", "too large")
    desk.letters.forget()
    await desk.letters.run_once()
    assert (desk.settled, (await desk.told()).dead) == ([], frozenset())


def test_each_is_told_with_its_job_and_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    letters = DeadLetters(None, lambda _second, _runs: None)  # type: ignore[arg-type]
    letters.add(AT, f"7@{AT}", "its 9 bytes are too many")
    assert f"run 7@{AT} of job 7 is set aside" in caplog.text
    assert "its 9 bytes are too many" in caplog.text
