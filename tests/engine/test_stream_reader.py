"""The reader of the stream gives every message once, whatever goes on while a chunk is looked at."""

import asyncio

import nats as nats_client
from nats.js.api import StreamConfig

from mainspring.engine.broker.stream_reader import PULL, Deliveries, StreamReader
from mainspring.engine.config import load_settings

NOW = 1_764_500_000
MESSAGES = 2 * PULL + 1000


async def test_every_message_is_given_once_also_to_who_takes_his_time(nats_url: str) -> None:
    client = await nats_client.connect(nats_url)
    jetstream = client.jetstream()
    await jetstream.add_stream(StreamConfig(name="ARRIVALS", subjects=["arrivals.run.>"]))
    for number in range(MESSAGES):
        headers = {"Nats-Msg-Id": f"{number}@{NOW}"}
        await client.publish("arrivals.run.default", b"{}", headers=headers)
    await client.publish("arrivals.run.default", b"{}", headers={"Nats-Msg-Id": f"5@{NOW}!a1"})
    await client.publish("arrivals.run.default", b"{}")
    while (await jetstream.stream_info("ARRIVALS")).state.messages < MESSAGES + 2:
        await asyncio.sleep(0.05)

    reader = StreamReader(load_settings({"nats_url": nats_url}), jetstream, "ARRIVALS")
    await reader.fix_end()
    job_ids: list[int] = []
    async for chunk in reader.chunks(0):
        job_ids += chunk.job_ids.tolist()
        await asyncio.sleep(0.02)
    await client.close()
    assert job_ids == list(range(MESSAGES))
    assert reader.hands == [NOW]
    assert reader.strangers == [f"message {MESSAGES + 2} without an id"]
    assert reader.gone_until is None


async def test_what_is_stored_after_the_end_was_fixed_is_not_taken(nats_url: str) -> None:
    """A job that is made meanwhile runs at once, and stands in no definition that was read before."""
    client = await nats_client.connect(nats_url)
    jetstream = client.jetstream()
    await jetstream.add_stream(StreamConfig(name="ENDED", subjects=["ended.run.>"]))
    reader = StreamReader(load_settings({"nats_url": nats_url}), jetstream, "ENDED")
    for number in range(100):
        if number == 50:
            await reader.fix_end()
        await jetstream.publish("ended.run.default", b"{}", headers={"Nats-Msg-Id": f"{number}@{NOW}"})
    await jetstream.publish("ended.run.default", b"{}", headers={"Nats-Msg-Id": f"5@{NOW}!a1"})
    await jetstream.publish("ended.run.default", b"{}")
    job_ids = [job_id async for chunk in reader.chunks(0) for job_id in chunk.job_ids.tolist()]
    await client.close()
    assert job_ids == list(range(50))
    assert (reader.hands, reader.strangers) == ([], [])


async def test_a_run_that_comes_in_another_form_is_a_run(nats_url: str) -> None:
    """Over a websocket all come so: one by one, through nats-py."""
    client = await nats_client.connect(nats_url)
    jetstream = client.jetstream()
    await jetstream.add_stream(StreamConfig(name="FORMS", subjects=["forms.run.>"]))
    for number in range(10):
        headers = {"Nats-Msg-Id": f"{number}@{NOW}"}
        headers = headers if number % 2 else {"Trace": "a"} | headers
        await jetstream.publish("forms.run.default", b"{}", headers=headers)
    reader = StreamReader(load_settings({"nats_url": nats_url}), jetstream, "FORMS")
    await reader.fix_end()
    seen = [
        run
        async for chunk in reader.chunks(0)
        for run in zip(chunk.seqs.tolist(), chunk.job_ids.tolist(), chunk.at.tolist(), strict=True)
    ]
    await client.close()
    assert sorted(seen) == [(number + 1, number, NOW) for number in range(10)]
    assert reader.strangers == []


def frame(run_id: str, seq: int) -> bytes:
    headers = f"NATS/1.0\r\nNats-Msg-Id: {run_id}\r\nContent-Type: x\r\nNats-Msg-Size: 9\r\n\r\n"
    reply = f"$JS.ACK.MAINSPRING.abc.1.{seq}.{seq}.1764500000123456789.0"
    return f"HMSG mainspring.run.a.b 7 {reply} {len(headers)} {len(headers)}\r\n{headers}\r\n".encode()


async def test_frames_are_taken_where_they_lie_up_to_one_that_is_cut_or_another() -> None:
    runs = frame(f"-42@{NOW}", 3) + frame(f"7@{NOW + 1}", 4)
    for rest in (b"", frame("1@2", 5)[:-1], b"PING\r\n", frame("1@2!ab", 5), frame("none", 5)):
        deliveries, buffer = Deliveries(), bytearray(runs + rest)
        assert deliveries.read(buffer, 0, len(buffer)) == len(runs)
        chunk = deliveries.take()
        assert (chunk.job_ids.tolist(), chunk.at.tolist()) == ([-42, 7], [NOW, NOW + 1])
        assert (chunk.seqs.tolist(), chunk.stored_at.tolist()) == ([3, 4], [1764500000] * 2)
        assert not len(deliveries.take().at)
