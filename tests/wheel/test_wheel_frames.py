"""Frames byte for byte, against a writer in plain Python that knows nothing of templates and pieces."""

import datetime

import numpy as np
import pytest
from wheel_rows import Change, Job, batch, every, put

from mainspring.wheel import Frames, Schedule, Wheel

NOW = 1_764_500_000
LONGEST = "r" * 128
NEAR_HEX = (*'/0:@AFG`fg-\x7f\x00\x16\x1f"\\', "é")
"""What stands beside a hexadecimal digit in ASCII, or shares its lower half, or is longer than it looks."""

IDS = (0, 9, 10, 99_999_999, 10**8, 10**16 - 1, 10**16, 2**63 - 1, -1, -(10**8), -(10**16), -(2**63))


def civil(instant: int) -> str:
    """RFC 3339 of any instant: after 400 years the calendar repeats, which datetime does not reach."""
    cycles, within = divmod(instant - 946_684_800, 146_097 * 86_400)
    shown = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=within)
    year = shown.year + 400 * cycles
    sign = "-" if year < 0 else ""
    return f"{sign}{abs(year):04d}{shown:-%m-%dT%H:%M:%S}Z"


def frame_of(
    job: Job, at: int, reply: int, *, instance: str = "mainspring", prefix: str = "_INBOX.x"
) -> bytes:
    run_id = f"{job.id}@{at}"
    headers = (
        f"NATS/1.0\r\nNats-Msg-Id: {run_id}\r\nContent-Type: application/cloudevents+json\r\n\r\n".encode()
    )
    subject = escaped(str(job.id) if job.key is None else job.key)
    data = "" if job.data is None else f',"data":{job.data}'
    body = (
        f'{{"specversion":"1.0","type":"mainspring.run","source":"{instance}","id":"{run_id}",'
        f'"subject":{subject},"time":"{civil(at)}"{data}}}'
    ).encode()
    line = f"HPUB {instance}.run.{job.route} {prefix}.{reply} {len(headers)} {len(headers) + len(body)}\r\n"
    return line.encode() + headers + body + b"\r\n"


def escaped(key: str) -> str:
    short = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return "".join(['"', *(short.get(c, f"\\u{ord(c):04x}" if c < " " else c) for c in key), '"'])


def text_of(size: int) -> str | None:
    """JSON of just so many bytes."""
    if size < 2:
        return "7" * size or None
    return '"' + "".join(chr(ord("a") + i % 26) for i in range(size - 2)) + '"'


def check_frames(
    jobs: list[Job], start: int, *, first: int = 0, capacity: int = 262_144, **names: str
) -> None:
    """All jobs run in the second after ``start``; each frame is as the plain writer has it."""
    names = {"instance": "mainspring", "prefix": "_INBOX.x"} | names
    wheel = Wheel(start, instance=names["instance"], reply_prefix=names["prefix"])
    put(wheel, *jobs)
    by_id, frames, whole, seen = {job.id: job for job in jobs}, Frames(capacity=capacity), False, 0
    while not whole:
        frames.reset(first + seen)
        whole = wheel.drain(start + 1, start + 1, frames)
        offsets = frames.offsets().tolist()
        view = bytes(frames.view())
        for i in range(len(frames)):
            job = by_id.pop(frames.job_id(i))
            expected = frame_of(job, frames.scheduled_at(i), first + seen + i, **names)
            assert view[offsets[i] : offsets[i + 1]] == expected
        seen += len(frames)
    assert by_id == {}


def test_the_plain_writer_tells_the_time_as_everybody_does() -> None:
    for instant in (0, -1, NOW, 951_782_400, 2**31, 2**32, 253_402_300_799, -62_135_596_800):
        shown = datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(seconds=instant)
        assert civil(instant) == f"{shown.year:04d}{shown:-%m-%dT%H:%M:%SZ}"
    assert civil(253_402_300_800) == "10000-01-01T00:00:00Z"


@pytest.mark.parametrize("seed", range(8))
def test_random_jobs_are_written_as_the_plain_writer_writes_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    digits = rng.integers(1, 20, 400)
    ids = {
        int(rng.integers(-(10 ** int(n)) + 1, 10 ** int(n)))
        if n < 19
        else int(rng.integers(-(2**63), 2**63 - 1))
        for n in digits
    }
    jobs = [random_job(job_id, rng) for job_id in ids]
    check_frames(jobs, NOW + seed, first=10 ** int(rng.integers(0, 18)), capacity=80_000)


def random_job(job_id: int, rng: np.random.Generator) -> Job:
    key = [None, uuid_of(rng), uuid_of(rng).upper(), letters(rng)][rng.integers(4)]
    route = ["default", "a", "checks.http.eu-west", LONGEST[: rng.integers(1, 128)]][rng.integers(4)]
    size = int(rng.integers(0, 40 if rng.random() < 0.6 else 600))
    return every(job_id, 1, key=key, data=text_of(size), route=route)


def uuid_of(rng: np.random.Generator) -> str:
    text = rng.bytes(16).hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def letters(rng: np.random.Generator) -> str:
    alphabet = 'abc"\\\n\t\r\b\x01\x1f/é€𝄞 '
    return "k" + "".join(alphabet[i] for i in rng.integers(0, len(alphabet), rng.integers(0, 40)))


def test_each_length_of_payload_and_key_is_copied_whole() -> None:
    jobs = [every(i, 1, data=text_of(i), key="k" * (i % 255 + 1)) for i in range(700)]
    check_frames(jobs, NOW)
    check_frames([every(i, 1, data=text_of(65_536 - i)) for i in range(3)], NOW, capacity=69_632)


def test_each_number_of_digits_is_written_with_and_without_a_sign() -> None:
    jobs = [
        every(job_id, 1)
        for job_id in {*IDS, *(s * 10**n - e for n in range(19) for s in (1, -1) for e in (0, 1))}
    ]
    for first in (0, 9, 99_999_990, 10**16 - 5, 2**63 - 1000):
        check_frames(jobs, NOW, first=first)


def test_the_longest_names_fit() -> None:
    job = every(-(2**63), 1, key="\x1f" * 255, data=text_of(65_536), route=LONGEST)
    check_frames([job], -(2**40), first=2**63 - 1, capacity=69_632, instance="i" * 64, prefix="p" * 128)


@pytest.mark.parametrize(
    "start", [-1, -2, -62_135_596_801, -62_167_219_201, -(2**40), 253_402_300_799, 2**32 - 1, 2**45, 2**55]
)
def test_any_year_is_written(start: int) -> None:
    check_frames([every(job_id, 1, data="1") for job_id in IDS], start)


def test_a_late_run_has_its_own_instant_between_runs_on_time() -> None:
    wheel = Wheel(NOW)
    jobs = [Job(i, Schedule(run_at=NOW - i), data="1") if i % 3 else every(i, 1) for i in range(1, 60)]
    put(wheel, *jobs)
    frames = Frames()
    assert wheel.drain(NOW + 1, NOW + 1, frames)
    assert len(frames) == len(jobs)
    for i in range(len(frames)):
        job = jobs[frames.job_id(i) - 1]
        at = NOW + 1 if job.schedule.run_at is None else job.schedule.run_at
        assert bytes(frames.frame(i)) == frame_of(job, at, i)


def test_two_wheels_may_fill_one_buffer_with_the_same_second() -> None:
    frames, job = Frames(), every(5, 1)
    for instance in ("one", "other"):
        wheel = Wheel(NOW, instance=instance)
        put(wheel, job)
        assert wheel.drain(NOW + 1, NOW + 1, frames)
    assert bytes(frames.view()) == b"".join(
        frame_of(job, NOW + 1, i, instance=instance) for i, instance in enumerate(("one", "other"))
    )


def test_a_key_that_is_nearly_a_uuid_comes_back_as_it_was() -> None:
    right = "0189abcd-ef01-4789-abcd-ef0123456789"
    jobs = [
        every(place * len(NEAR_HEX) + i, 1, key=right[:place] + other + right[place + 1 :])
        for place in range(len(right))
        for i, other in enumerate(NEAR_HEX)
    ]
    jobs.append(every(-1, 1, key="é" + right[2:]))
    check_frames(jobs, NOW, capacity=600_000)


def test_each_byte_of_a_uuid_is_packed_and_unpacked() -> None:
    texts = [f"{value:02x}" * 16 for value in range(256)]
    keys = ["-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])) for text in texts]
    check_frames([every(i, 1, key=key) for i, key in enumerate(keys)], NOW)


def test_a_uuid_takes_less_room_than_another_key_of_its_length() -> None:
    right = "0189abcd-ef01-4789-abcd-ef0123456789"
    count = 200_000
    assert room_of(right.upper(), count) - room_of(right, count) > count * 16


def room_of(key: str, count: int) -> int:
    """What so many jobs take, all of one key."""
    wheel = Wheel(NOW)
    rows = np.repeat(batch(wheel, [Change(every(0, 60, key=key))])[0], count)
    rows["id"] = np.arange(count)
    wheel.apply(rows, key.encode())
    return wheel.nbytes
