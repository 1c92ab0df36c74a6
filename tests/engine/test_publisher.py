"""The publisher against a real broker: every run is stored once, through every outage."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import nats as nats_client
import pytest
from nats.js.api import DiscardPolicy, RetentionPolicy, StreamConfig
from publisher_bench import INSTANCES, Bench, bench_on, every_second

from mainspring.engine.broker.connections import Broker
from mainspring.engine.broker.stream import StreamUnfit, covers
from mainspring.engine.clock import SystemClock
from mainspring.engine.config import load_settings
from mainspring.engine.embedded import EmbeddedNats
from mainspring.loadtest.tcp_proxy import proxied
from mainspring.wheel import Frames, Wheel, shard_of


@pytest.fixture
async def bench(nats_url: str) -> AsyncIterator[Bench]:
    made = await bench_on(nats_url)
    yield made
    await made.broker.aclose()


@pytest.fixture
async def own_bench(own_nats: EmbeddedNats) -> AsyncIterator[Bench]:
    made = await bench_on(own_nats.url)
    yield made
    await made.broker.aclose()


async def test_every_run_is_acknowledged_and_stored_once(bench: Bench) -> None:
    for _ in range(3):
        await bench.publish_second()
    await bench.all_settled(150)
    assert bench.settled == {bench.start + n: 50 for n in (1, 2, 3)}
    acknowledged = bench.publisher.acknowledged
    assert (acknowledged.count, acknowledged.duplicates, bench.publisher.in_flight) == (150, 0, 0)
    assert await bench.stored() == 150


async def test_the_same_run_from_a_second_engine_counts_as_a_duplicate(bench: Bench) -> None:
    await bench.publish_second()
    again = Wheel(bench.start, instance=bench.settings.instance, reply_prefix=bench.broker.inbox)
    again.apply(every_second(again, 50), b"")
    bench.wheel = again
    await bench.publish_second()
    await bench.all_settled(100)
    assert bench.publisher.acknowledged.duplicates == 50
    assert await bench.stored() == 50


async def test_runs_of_a_killed_broker_are_stored_once_after_its_restart(
    own_bench: Bench, own_nats: EmbeddedNats
) -> None:
    await own_bench.publish_second()
    await own_nats.kill()
    for _ in range(4):
        await own_bench.publish_second()
    assert own_bench.publisher.in_flight >= 200
    await own_nats.start()
    await own_bench.all_settled(250, timeout_s=60)
    assert await own_bench.stored() == 250


async def test_a_frozen_broker_is_left_and_found_again(own_bench: Bench, own_nats: EmbeddedNats) -> None:
    await own_bench.publish_second()
    await own_bench.all_settled(50)
    own_nats.freeze()
    await own_bench.publish_second()
    await asyncio.sleep(2)
    own_nats.thaw()
    await own_bench.all_settled(100, timeout_s=60)
    assert await own_bench.stored() == 100


async def test_a_stream_that_somebody_deleted_is_made_again_and_loses_no_run(bench: Bench) -> None:
    client = await nats_client.connect(bench.settings.nats_url)
    await client.jetstream().delete_stream(bench.broker.stream.name)
    await bench.publish_second()
    await bench.all_settled(50)
    assert bench.metrics.publish_errors.labels("no_responders")._value.get() > 0
    assert await bench.stored() == 50
    await client.close()


async def test_a_full_stream_delays_runs_and_loses_none(bench: Bench) -> None:
    client = await nats_client.connect(bench.settings.nats_url)
    jetstream = client.jetstream()
    config = (await jetstream.stream_info(bench.broker.stream.name)).config
    await jetstream.update_stream(config, max_msgs=20, discard=DiscardPolicy.NEW)
    await bench.publish_second()
    async with asyncio.timeout(10):
        while bench.metrics.publish_errors.labels("stream_full")._value.get() == 0:
            await asyncio.sleep(0.02)
    assert bench.settled.total() <= 20
    await jetstream.update_stream(config, max_msgs=-1, discard=DiscardPolicy.OLD)
    await bench.all_settled(50)
    assert await bench.stored() == 50
    await client.close()


async def test_submitting_waits_while_too_many_runs_are_open(own_nats: EmbeddedNats) -> None:
    bench = await bench_on(own_nats.url, max_in_flight=100)
    own_nats.freeze()
    await bench.publish_second()
    submitting = asyncio.create_task(bench.publish_second())
    done, _ = await asyncio.wait([submitting], timeout=0.5)
    assert not done
    own_nats.thaw()
    await bench.all_settled(100)
    await submitting
    await bench.broker.aclose()


async def test_what_is_older_than_the_streams_memory_is_looked_up_before_it_is_sent_again(
    own_nats: EmbeddedNats,
) -> None:
    bench = await bench_on(own_nats.url, reach_s=0.2, deaf=True)
    client = await nats_client.connect(own_nats.url)
    # A stream that remembers ids for a moment only: a resend would be stored twice.
    await client.jetstream().update_stream(
        (await client.jetstream().stream_info(bench.broker.stream.name)).config, duplicate_window=0.1
    )
    await bench.publish_second()
    async with asyncio.timeout(10):
        while await bench.stored() < 50:
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.5)
    await bench.publisher.start()
    bench.publisher.resend_all()
    await bench.all_settled(50)
    assert bench.publisher.acknowledged.duplicates == 50
    assert await bench.stored() == 50
    await client.close()
    await bench.broker.aclose()


@pytest.mark.parametrize(("leave", "told"), [("mute", 50), ("forget", 0)])
async def test_what_is_left_to_another_while_it_is_looked_up_is_settled_by_nobody_twice(
    nats_url: str, monkeypatch: pytest.MonkeyPatch, leave: str, told: int
) -> None:
    """A deposed node wakes up: it looks in the stream, and meanwhile learns what the other has settled."""
    bench = await bench_on(nats_url, reach_s=0.2, deaf=True)
    second = bench.start + 1
    await bench.publish_second()
    await asyncio.sleep(0.5)
    asked, answer = asyncio.Event(), asyncio.Event()
    look_up = bench.broker.stored_ids

    async def slow(since: float) -> set[str]:
        asked.set()
        await answer.wait()
        return await look_up(since)

    monkeypatch.setattr(bench.broker, "stored_ids", slow)
    bench.publisher.resend_all()
    turn = asyncio.create_task(bench.publisher.run_once())
    await asked.wait()
    if leave == "mute":
        bench.publisher.mute(second)
    else:
        bench.publisher.forget()
    answer.set()
    await turn
    assert bench.settled.total() == told
    assert bench.publisher.in_flight == 0
    assert bench.publisher.acknowledged.count == 0
    assert bench.metrics.publish_errors.labels("timeout")._value.get() == 0
    await bench.broker.aclose()


@pytest.mark.parametrize("retention", [RetentionPolicy.WORK_QUEUE, RetentionPolicy.INTEREST])
async def test_what_cannot_be_looked_up_for_the_streams_retention_is_set_aside_and_holds_nothing_up(
    nats_url: str, retention: RetentionPolicy
) -> None:
    client = await nats_client.connect(nats_url)
    instance = f"kept{retention.value}"
    await client.jetstream().add_stream(
        StreamConfig(
            instance.upper(), subjects=[f"{instance}.run.>"], retention=retention, duplicate_window=120
        )
    )
    bench = await bench_on(nats_url, late_s=1000, flags={"instance": instance})
    await bench.publish_second()
    await bench.all_settled(50)
    assert len(bench.dead) == 50
    assert bench.publisher.in_flight == 0
    assert await bench.stored() == 0
    await client.close()
    await bench.broker.aclose()


async def test_what_was_due_for_longer_than_the_stream_remembers_is_looked_up_before_its_first_sending(
    nats_url: str,
) -> None:
    """A node that was stopped for minutes goes on beside the one that took over."""
    bench = await bench_on(nats_url)
    await bench.publish_second()
    await bench.all_settled(50)
    client = await nats_client.connect(nats_url)
    late = await bench_on(nats_url, jobs=60, beside=bench, late_s=1000)
    config = (await client.jetstream().stream_info(bench.broker.stream.name)).config
    await client.jetstream().update_stream(config, duplicate_window=0.1)
    await asyncio.sleep(0.5)
    await late.publish_second()
    await late.all_settled(60)
    assert late.publisher.acknowledged.duplicates == 50
    assert await late.stored() == 60
    await client.close()


async def test_what_a_fault_had_lost_long_ago_is_looked_up_before_its_first_sending(
    nats_url: str,
) -> None:
    """Its second was long ago, though it is drained now: another node may have sent it then."""
    bench = await bench_on(nats_url, late_s=1000)
    other = await bench_on(nats_url, beside=bench)
    client = await nats_client.connect(nats_url)
    for _ in range(3):
        await other.publish_second()
    await other.all_settled(150)
    config = (await client.jetstream().stream_info(bench.broker.stream.name)).config
    await client.jetstream().update_stream(config, duplicate_window=0.1)
    await asyncio.sleep(0.5)
    bench.wheel._inject("dropped", 7)
    for _ in range(3):
        lost = Frames()
        bench.wheel.drain(bench.wheel.now + 1, bench.wheel.now + 1, lost)
    bench.wheel.sweep(shard_of(7))
    # Between the seconds that were lost and the one that brings them.
    bench.publisher._reach_s = bench.publisher._clock.now() - (bench.start + 3.5)
    await bench.publish_second()
    await bench.all_settled(53)
    assert bench.publisher.acknowledged.duplicates == 3
    assert await bench.stored() == 200
    await client.close()


async def test_lateness_counts_from_the_second_that_a_fault_had_lost_and_settlement_from_its_drain(
    nats_url: str,
) -> None:
    bench = await bench_on(nats_url, jobs=10)
    bench.wheel._inject("dropped", 7)
    for _ in range(3):
        bench.wheel.drain(bench.wheel.now + 1, bench.wheel.now + 1, Frames())
    bench.wheel.sweep(shard_of(7))
    lost, drained, before = bench.start + 1, bench.start + 4, SystemClock().now()
    await bench.publish_second()
    await bench.all_settled(13)
    after = SystemClock().now()
    assert bench.settled == {drained: 13}
    last = bench.publisher.acknowledged.last()
    assert len(last) == 13
    for run in last:
        since = drained if run.run_id.endswith(f"@{drained}") else lost
        assert before - since <= run.lateness_s <= after - since
    await bench.broker.aclose()


async def test_a_run_over_the_servers_limit_is_set_aside_and_the_others_go_on(own_nats: EmbeddedNats) -> None:
    bench = await bench_on(own_nats.url, jobs=3)
    rows = every_second(bench.wheel, 1)
    texts = b'"' + b"x" * 60_000 + b'"'
    rows["data_len"] = len(texts)
    bench.wheel.apply(rows, texts)
    bench.broker._frames._max_payload = 50_000
    await bench.publish_second()
    await bench.all_settled(3)
    assert bench.metrics.dead_letters._value.get() == 1
    assert await bench.stored() == 2
    await bench.broker.aclose()


async def test_a_run_that_the_stream_can_never_take_is_set_aside_and_the_others_go_on(bench: Bench) -> None:
    client = await nats_client.connect(bench.settings.nats_url)
    config = (await client.jetstream().stream_info(bench.broker.stream.name)).config
    await client.jetstream().update_stream(config, max_msg_size=1000)
    rows = every_second(bench.wheel, 1)
    texts = b'"' + b"x" * 2000 + b'"'
    rows["data_len"] = len(texts)
    bench.wheel.apply(rows, texts)
    for _ in range(3):
        await bench.publish_second()
    await bench.all_settled(150)
    assert bench.metrics.dead_letters._value.get() == 3
    assert bench.dead == [f"1@{bench.start + second}" for second in (1, 2, 3)]
    assert await bench.stored() == 147
    await client.close()


async def test_refusals_are_told_once_and_not_for_every_run(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    client = await nats_client.connect(bench.settings.nats_url)
    jetstream = client.jetstream()
    config = (await jetstream.stream_info(bench.broker.stream.name)).config
    await jetstream.update_stream(config, max_msgs=1, discard=DiscardPolicy.NEW)
    for _ in range(5):
        await bench.publish_second()
    async with asyncio.timeout(10):
        while bench.metrics.publish_errors.labels("stream_full")._value.get() < 400:
            await bench.publisher.run_once()
            await asyncio.sleep(0.02)
    assert caplog.text.count("refuses runs") <= 2
    await client.close()


async def test_a_connection_that_takes_nothing_more_is_left_and_its_runs_go_out_on_the_next(
    own_nats: EmbeddedNats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.engine.publishing.publisher.SILENCE_MAX_S", 1.0)
    async with proxied(own_nats.port) as proxy:
        bench = await bench_on(own_nats.url.replace(str(own_nats.port), str(proxy.port)))
        rows = every_second(bench.wheel, 50)
        texts = b'"' + b"x" * 60_000 + b'"'
        rows["data_len"] = len(texts)
        bench.wheel.apply(rows, texts)
        proxy.freeze()
        for _ in range(6):  # 18 MB: far more than the sockets on the way can hold
            await bench.publish_second()
        await bench.all_settled(300, timeout_s=30)
        assert await bench.stored() == 300
        await bench.broker.aclose()


async def test_a_stop_does_not_wait_for_a_socket_that_takes_nothing_more(own_nats: EmbeddedNats) -> None:
    async with proxied(own_nats.port) as proxy:
        bench = await bench_on(own_nats.url.replace(str(own_nats.port), str(proxy.port)))
        rows = every_second(bench.wheel, 50)
        texts = b'"' + b"x" * 60_000 + b'"'
        rows["data_len"] = len(texts)
        bench.wheel.apply(rows, texts)
        proxy.freeze()
        submitting = asyncio.create_task(bench.publish_second())
        while not submitting.done() and bench.broker.has_room:
            await asyncio.sleep(0.01)
        while submitting.done():
            submitting = asyncio.create_task(bench.publish_second())
            await asyncio.wait([submitting], timeout=0.5)
        bench.publisher.stop_waiting()
        await asyncio.wait_for(submitting, 5)
        await bench.broker.aclose()


async def test_nothing_that_was_buffered_for_an_old_connection_is_sent_on_the_next(
    own_nats: EmbeddedNats,
) -> None:
    async with proxied(own_nats.port) as proxy:
        bench = await bench_on(own_nats.url.replace(str(own_nats.port), str(proxy.port)))
        proxy.freeze()
        bench.broker._frames._pending.append(b"PUB stale 2\r\nhi\r\n")
        bench.broker._frames._pending_data_size += 18
        heard = await nats_client.connect(own_nats.url)
        stale = await heard.subscribe("stale")
        await heard.flush()
        await bench.broker.reconnect()
        await bench.publish_second()
        await bench.all_settled(50)
        assert stale.pending_msgs == 0
        await heard.close()
        await bench.broker.aclose()


@pytest.mark.parametrize(
    ("pattern", "subjects", "covered"),
    [
        ("a.run.>", "a.run.>", True),
        ("a.>", "a.run.>", True),
        (">", "a.run.>", True),
        ("*.run.>", "a.run.>", True),
        ("a.run.*", "a.run.>", False),
        ("a.run.x", "a.run.>", False),
        ("b.>", "a.run.>", False),
        ("a.run.x.>", "a.run.>", False),
        ("a.run", "a.run.>", False),
    ],
)
def test_a_subject_covers_what_all_its_wildcards_reach(pattern: str, subjects: str, covered: bool) -> None:
    assert covers(pattern, subjects) is covered


async def test_a_stream_that_takes_more_subjects_than_ours_is_used_as_it_is(nats_url: str) -> None:
    settings = load_settings({"nats_url": nats_url, "instance": f"wide{next(INSTANCES)}"})
    client = await nats_client.connect(nats_url)
    config = StreamConfig(
        name=settings.instance.upper(), subjects=[f"{settings.instance}.>"], duplicate_window=200
    )
    await client.jetstream().add_stream(config)
    broker = Broker(settings)
    await broker.connect()
    assert await broker.ensure_stream() == 200
    await broker.aclose()
    await client.close()


async def test_a_stream_is_made_so_that_the_next_start_accepts_it(nats_url: str) -> None:
    settings = load_settings(
        {"nats_url": nats_url, "instance": f"long{next(INSTANCES)}", "catch_up_window_s": 7200}
    )
    broker = Broker(settings)
    await broker.connect()
    assert await broker.ensure_stream() == await broker.ensure_stream() == 7230
    await broker.aclose()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"duplicate_window": 60}, "duplicate window of 60 s is under"),
        ({"subjects": ["other.>"]}, "does not take"),
        ({"no_ack": True, "duplicate_window": 120}, "no_ack"),
    ],
)
async def test_a_stream_that_cannot_keep_the_promise_is_refused(
    nats_url: str, change: dict[str, object], reason: str
) -> None:
    settings = load_settings({"nats_url": nats_url, "instance": f"unfit{next(INSTANCES)}"})
    client = await nats_client.connect(nats_url)
    config = {
        "name": settings.instance.upper(),
        "subjects": [f"{settings.instance}.run.>"],
        "duplicate_window": 120,
    }
    await client.jetstream().add_stream(StreamConfig(**(config | change)))  # type: ignore[arg-type]
    broker = Broker(settings)
    await broker.connect()
    with pytest.raises(StreamUnfit, match=reason):
        await broker.ensure_stream()
    await broker.aclose()
    await client.close()


@pytest.mark.parametrize("taken", ["{0}.run.>", "{0}.>", "{0}.run.checks.http"])
async def test_a_stream_that_takes_our_subjects_is_named_with_the_mend(nats_url: str, taken: str) -> None:
    settings = load_settings({"nats_url": nats_url, "instance": f"taken{next(INSTANCES)}"})
    client = await nats_client.connect(nats_url)
    other = f"OTHER_{settings.instance}"
    config = StreamConfig(name=other, subjects=[taken.format(settings.instance)])
    await client.jetstream().add_stream(config)
    broker = Broker(settings)
    await broker.connect()
    with pytest.raises(
        StreamUnfit, match=rf"cannot be created: stream {other} takes.*Mend: take the subject"
    ):
        await broker.ensure_stream()
    await client.jetstream().delete_stream(other)
    await broker.aclose()
    await client.close()


async def test_a_broker_without_room_for_the_stream_is_refused_with_the_mend(server_folder: Path) -> None:
    server = EmbeddedNats(server_folder)
    server._config = lambda: EmbeddedNats._config(server).replace("1TB", "1GB")  # type: ignore[method-assign]
    await server.start()
    broker = Broker(load_settings({"nats_url": server.url}))
    await broker.connect()
    with pytest.raises(StreamUnfit, match=r"insufficient storage.*max_file_store"):
        await broker.ensure_stream()
    await broker.aclose()
    await server.stop()
