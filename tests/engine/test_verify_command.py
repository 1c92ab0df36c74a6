"""`mainspring verify` against real servers, and a stream that the test itself fills, well or badly."""

import asyncio
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import asyncpg
import nats as nats_client
import pytest
from command_line import Ended, mainspring
from conftest import execute
from nats.js.api import RetentionPolicy, StreamConfig
from nats.js.client import JetStreamContext

from mainspring.changelog_tailer import Cursor, schema
from mainspring.engine.failover.recovery import KEY, RecoveryPoint
from mainspring.wheel.twin import job_hash

SPAN_S = 8
JOBS = 60
EVERY_S = 2
WINDOW_S = 0.2

FLEET = f"""
insert into mainspring.jobs (every_s, catch_up)
select {EVERY_S}, case when n % 2 = 0 then 'all' else 'none' end from generate_series(1, {JOBS}) as n
"""
# As if that had been yesterday.
AGED = "update mainspring.job_changes set changed_at = changed_at - interval '1 day'"


@dataclass
class Place:
    """Where the command looks: an instance of the test's own, and a span that is over when it does."""

    dsn: str
    nats_url: str
    instance: str
    first: int

    @property
    def stop(self) -> int:
        return self.first + SPAN_S

    def owed(self) -> list[str]:
        """All run ids, in the order of their instants."""
        return [
            f"{job_id}@{at}"
            for at in range(self.first, self.stop)
            for job_id in range(1, JOBS + 1)
            if at % EVERY_S == job_hash(job_id) % EVERY_S
        ]

    def verify(self, *flags: str) -> Ended:
        return self.verify_upto(self.stop, *flags)

    def verify_upto(self, stop: int, *flags: str) -> Ended:
        servers = ("--postgres-dsn", self.dsn, "--nats-url", self.nats_url, "--instance", self.instance)
        time.sleep(max(0.0, stop + 0.1 - time.time()))
        return mainspring("verify", *servers, "--from", str(self.first), "--to", str(stop), *flags)

    async def found(self, *flags: str) -> tuple[int, dict[str, Any]]:
        """Exit status and JSON."""
        ended = await asyncio.to_thread(self.verify, "--json", *flags)
        assert ended.out, ended.err
        return ended.status, json.loads(ended.out)

    async def jetstream(self) -> JetStreamContext:
        return (await nats_client.connect(self.nats_url)).jetstream()

    async def store(self, ids: Iterable[str]) -> None:
        jetstream = await self.jetstream()
        for run_id in ids:
            await jetstream.publish(f"{self.instance}.run.default", b"{}", headers={"Nats-Msg-Id": run_id})
        await jetstream._nc.close()

    async def settle(self, watermark: int, **keys: object) -> None:
        """Leave a recovery point, and other keys, as an engine does."""
        jetstream = await self.jetstream()
        bucket = await jetstream.create_key_value(bucket=self.instance)
        await bucket.put(KEY, RecoveryPoint(watermark, Cursor(1, 1, "1:1:")).encode())
        for name, value in keys.items():
            await bucket.put(name.replace("_", "."), json.dumps(value).encode())
        await jetstream._nc.close()

    async def make_stream(self, **settings: Any) -> None:
        jetstream = await self.jetstream()
        subjects = [f"{self.instance}.run.>"]
        options: dict[str, Any] = {"duplicate_window": WINDOW_S} | settings
        await jetstream.add_stream(StreamConfig(name=self.instance.upper(), subjects=subjects, **options))
        await jetstream._nc.close()


@pytest.fixture
async def place(database: str, nats_url: str, request: pytest.FixtureRequest) -> Place:
    await schema.init(database)
    await execute(database, FLEET)
    await execute(database, AGED)
    first = int(time.time()) + 2  # the stream has to be older than what it is to hold
    return Place(database, nats_url, f"v{abs(hash(request.node.name)) % 10**9}", first)


@pytest.fixture
async def settled(place: Place) -> Place:
    """With a stream, and nothing in it."""
    await place.make_stream()
    await place.settle(place.stop)
    return place


async def test_a_whole_stream_is_clean_and_runs_by_hand_are_counted_apart(settled: Place) -> None:
    await settled.store([*settled.owed(), f"3@{settled.first}!a1b2"])
    status, report = await settled.found()
    assert status == 0
    assert report["owed"] == report["stored"] == len(settled.owed()) == JOBS * SPAN_S // EVERY_S
    assert (report["missing"], report["duplicate"], report["unexpected"], report["hands"]) == (0, 0, 0, 1)
    told = await asyncio.to_thread(settled.verify)
    assert (told.status, told.err) == (0, "")
    assert " 0  missing" in told.out


async def test_missing_doubled_and_unexpected_runs_are_named(settled: Place) -> None:
    owed = settled.owed()
    lost, doubled = owed[7], owed[11]
    off_grid = f"1@{settled.first + (job_hash(1) - settled.first + 1) % EVERY_S}"
    await settled.store([run_id for run_id in owed if run_id != lost])
    await asyncio.sleep(3 * WINDOW_S)
    await settled.store([doubled, off_grid, f"99@{settled.first}", "nonsense"])
    status, report = await settled.found()
    assert status == 3
    assert (report["missing_ids"], report["duplicate_ids"]) == ([lost], [doubled])
    assert sorted(report["unexpected_ids"]) == sorted([off_grid, f"99@{settled.first}", "nonsense"])
    told = await asyncio.to_thread(settled.verify)
    assert told.status == 3
    assert lost in told.out
    assert doubled in told.out


async def test_a_change_in_the_log_decides_and_leaves_open_what_lies_beside_it(settled: Place) -> None:
    gone_at = settled.first + 2
    await execute(settled.dsn, "delete from mainspring.jobs where id = 5")
    await execute(
        settled.dsn,
        f"update mainspring.job_changes set changed_at = to_timestamp({gone_at}) where op = 'delete'",
    )
    before = [run_id for run_id in settled.owed() if not run_id.startswith("5@")]
    of_job = [run_id for run_id in settled.owed() if run_id.startswith("5@")]
    await settled.store(before + [run_id for run_id in of_job if int(run_id[2:]) <= gone_at])
    assert len(of_job) == SPAN_S // EVERY_S
    status, report = await settled.found()
    assert (status, report["changes"]) == (0, 1)
    late = [run_id for run_id in of_job if int(run_id[2:]) > gone_at + 3]
    await settled.store(late)
    status, report = await settled.found()
    assert (status, report["unexpected_ids"]) == (3, late)


async def test_a_gap_record_excuses_what_it_counts_and_no_more(place: Place) -> None:
    await place.make_stream()
    start, end = place.first + 2, place.first + 5
    skipped = [
        run_id
        for run_id in place.owed()
        if int(run_id.split("@")[0]) % 2 and start <= int(run_id.split("@")[1]) <= end
    ]
    gap = {"from": start, "to": end, "skipped": {"none": len(skipped)}}
    await place.settle(place.stop, **{f"gaps_{start}": gap})
    await place.store([run_id for run_id in place.owed() if run_id not in skipped])
    status, report = await place.found()
    assert (status, report["skipped"], report["missing"]) == (0, {"none": len(skipped)}, 0)

    gap["skipped"] = {"none": len(skipped) - 1}
    jetstream = await place.jetstream()
    await (await jetstream.key_value(place.instance)).put(f"gaps.{start}", json.dumps(gap).encode())
    await jetstream._nc.close()
    status, report = await place.found()
    assert (status, report["missing"]) == (3, 1)
    assert report["missing_ids"][0] in skipped


async def test_what_the_stream_has_let_go_is_evicted_and_that_part_of_the_span_is_not_judged(
    settled: Place,
) -> None:
    middle = settled.first + EVERY_S
    early = [run_id for run_id in settled.owed() if int(run_id.split("@")[1]) < middle]
    for turn in range(SPAN_S // EVERY_S):  # as late as a run is stored, not before
        await asyncio.sleep(max(0.0, middle + turn * EVERY_S - time.time()))
        await settled.store(settled.owed()[turn * len(early) :][: len(early)])
    jetstream = await settled.jetstream()
    await jetstream.purge_stream(settled.instance.upper(), seq=len(early) + 1)
    await jetstream._nc.close()
    status, report = await settled.found()
    assert status == 1
    rest = len(settled.owed()) - len(early)
    assert (report["stored"], report["evicted"], report["missing"]) == (rest, len(early), 0)
    told = await asyncio.to_thread(settled.verify)
    assert "error: the stream holds nothing from before " in told.err
    stop, settled.first = settled.stop, report["judged_from"]
    assert middle <= settled.first < stop
    assert (await asyncio.to_thread(settled.verify_upto, stop)).status == 0


async def test_an_emptied_stream_tells_nothing_and_one_that_never_held_anything_does(
    settled: Place,
) -> None:
    status, report = await settled.found()
    assert (status, report["missing"]) == (3, len(settled.owed()))
    await settled.store(settled.owed())
    jetstream = await settled.jetstream()
    await jetstream.purge_stream(settled.instance.upper())
    await jetstream._nc.close()
    told = await asyncio.to_thread(settled.verify)
    assert (told.status, told.out) == (1, "")
    assert "holds nothing of the span any more" in told.err


async def test_a_span_that_begins_before_stream_and_engine_is_judged_from_where_they_begin(
    place: Place,
) -> None:
    await place.make_stream()
    before = {"from": place.first - 86_400, "to": place.first - 1, "skipped": {"start": None}}
    await place.settle(place.stop, gaps_0=before)
    await place.store(place.owed())
    stop, place.first = place.stop, 0
    told = await asyncio.to_thread(place.verify_upto, stop, "--json")
    assert told.status == 1
    (report,) = told.json_lines()
    assert (report["from"], report["missing"], report["unexpected"]) == (0, 0, 0)
    assert stop - SPAN_S - 60 < report["judged_from"] <= stop


@pytest.mark.parametrize("span", ["9/3", "x/3", "3"])
async def test_a_bad_span_away_is_named(settled: Place, span: str) -> None:
    told = await asyncio.to_thread(settled.verify, "--away", span)
    assert told.status == 2
    assert "--away" in told.err
    assert span in told.err


async def test_a_span_that_cannot_be_judged_is_refused_with_one_line(place: Place, database: str) -> None:
    async def refused(mend: str) -> None:
        ended = await asyncio.to_thread(place.verify)
        assert ended.status == 1
        assert ended.err.strip().splitlines()[-1].startswith("error: ")
        assert mend in ended.err

    await refused("there is no stream")
    await place.make_stream()
    await refused("recovery point")
    await place.settle(place.stop - 2)
    await refused("settled up to")
    jetstream = await place.jetstream()
    bucket = await jetstream.key_value(place.instance)
    await bucket.put(KEY, RecoveryPoint(place.stop - 1, Cursor(1, 1, "1:1:")).encode())
    connection = await asyncpg.connect(database)
    await connection.execute(
        "update mainspring.prunings set before = (select max(xid)::text::bigint + 1 from "
        "mainspring.job_changes)::text::xid8, pruned_at = clock_timestamp(), rows_removed = 1"
    )
    await refused("pruned")
    await connection.execute("update mainspring.prunings set rows_removed = 0")
    await connection.execute("update mainspring.jobs set enabled = false")
    await connection.execute("update mainspring.job_changes set changed_at = changed_at - interval '1 day'")
    await connection.close()
    await refused("no run was owed")
    await jetstream.delete_stream(place.instance.upper())
    await jetstream._nc.close()
    await place.make_stream(retention=RetentionPolicy.INTEREST)
    await refused("retention")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--from", "100", "--to", "100"), "empty"),
        (("--from", "100", "--to", "99999999999"), "not over"),
        (("--from", "yesterday", "--to", "100"), "no time"),
        (("--from", "100"), "--to"),
    ],
)
def test_a_span_that_is_none_is_wrong_usage(flags: tuple[str, ...], says: str) -> None:
    ended = mainspring("verify", *flags)
    assert ended.status == 2
    assert says in ended.err
