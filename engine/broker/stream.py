"""The stream that holds the runs: as it is made, and whether one that exists will do."""

import logging
from contextlib import suppress
from typing import Final

from nats.errors import Error as NatsError
from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StreamConfig
from nats.js.client import JetStreamContext
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

log = logging.getLogger(__name__)

DUPLICATE_WINDOW_S = 120
MAX_AGE_S = 3600
MAX_BYTES = 10 * 1024**3
# The stream must remember ids for longer than catch-up reaches back, or a late resend could be stored twice.
WINDOW_MARGIN_S = 30
# A run: a payload of 64 KiB, its key, and the envelope around them.
MESSAGE_BYTES = 70_000

SUBJECT_MEND: Final = "take the subject out of that stream, or choose another `instance`"

_OVERLAP = 10065
# Of the account, of the server, of the cluster, of a stream.
_NO_ROOM = frozenset({10002, 10005, 10023, 10047, 10122})
_ANY, _REST = "*", ">"


class StreamUnfit(Exception):
    """The stream has settings under which runs could be stored twice or lost."""


class RunStream:
    """The stream of one instance. keeps_runs: what is absent was never stored, so runs can be looked up."""

    def __init__(self, instance: str, catch_up_window_s: int) -> None:
        self.name = instance.upper()
        self.subjects = f"{instance}.run.>"
        self.window_min_s = catch_up_window_s + WINDOW_MARGIN_S
        self.keeps_runs = True

    async def ensure(self, jetstream: JetStreamContext) -> float:
        """Create it, or judge the one that is there; gives its duplicate window, seconds.

        Raises `StreamUnfit`, and nats-py's errors where JetStream does not answer.
        """
        try:
            config = (await jetstream.stream_info(self.name)).config
        except NotFoundError:
            config = await self._create(jetstream)
        judge_stream(config, subjects=self.subjects, window_min_s=self.window_min_s)
        self.keeps_runs = config.retention == RetentionPolicy.LIMITS
        return config.duplicate_window

    def config(self) -> StreamConfig:
        """What is created where there is none."""
        window_s = max(DUPLICATE_WINDOW_S, self.window_min_s)
        return StreamConfig(
            name=self.name,
            subjects=[self.subjects],
            retention=RetentionPolicy.LIMITS,
            storage=StorageType.FILE,
            discard=DiscardPolicy.OLD,
            max_age=max(MAX_AGE_S, window_s),
            max_bytes=MAX_BYTES,
            duplicate_window=window_s,
        )

    async def _create(self, jetstream: JetStreamContext) -> StreamConfig:
        try:
            made = await jetstream.add_stream(self.config())
        except ServiceUnavailableError:
            raise
        except APIError as error:
            raise StreamUnfit(
                f"stream {self.name} cannot be created: {await self._refusal(jetstream, error)}"
            ) from error
        log.info("created stream %s", self.name)
        if made.config is None:
            raise NatsError("the server told nothing of the stream it made")
        return made.config

    async def _refusal(self, jetstream: JetStreamContext, error: APIError) -> str:
        if error.err_code == _OVERLAP:
            taker = await stream_taking(jetstream, self.subjects)
            return f"{taker} takes {self.subjects}, or a part of it. Mend: {SUBJECT_MEND}"
        if error.err_code in _NO_ROOM:
            return (
                f"{error.description}. It reserves {MAX_BYTES >> 30} GiB of file storage. Mend: raise "
                "JetStream's max_file_store, or create the stream yourself as you need it"
            )
        return f"{error.description}. Mend: what this names, or create the stream yourself as you need it"


async def stream_taking(jetstream: JetStreamContext, subjects: str) -> str:
    """`stream NAME`, of one that takes some of the subjects; `another stream` where that cannot be told."""
    with suppress(NatsError, TimeoutError):
        return f"stream {await jetstream.find_stream_name_by_subject(subjects)}"
    return "another stream"


def judge_stream(config: StreamConfig, *, subjects: str, window_min_s: float) -> None:
    """Raise `StreamUnfit`, naming the setting and the mend, or warn."""
    require_fit(config, subjects=subjects, window_min_s=window_min_s)
    for weakness in weaknesses(config):
        log.warning("stream %s: %s", config.name, weakness)


def require_fit(config: StreamConfig, *, subjects: str, window_min_s: float) -> None:
    """Raise `StreamUnfit` where runs could be stored twice or lost, naming the setting and the mend."""
    if config.duplicate_window < window_min_s:
        raise StreamUnfit(
            f"stream {config.name}: its duplicate window of {config.duplicate_window:.0f} s is under "
            f"catch_up_window_s + {WINDOW_MARGIN_S} = {window_min_s:.0f} s, so a resent run could be stored "
            f"twice. Mend: nats stream edit {config.name} --dupe-window={window_min_s:.0f}s, or lower "
            "catch_up_window_s"
        )
    if config.no_ack:
        raise StreamUnfit(
            f"stream {config.name} has no_ack set, so no run would ever be acknowledged. Mend: unset it"
        )
    if not any(covers(pattern, subjects) for pattern in config.subjects or []):
        raise StreamUnfit(
            f"stream {config.name} does not take {subjects} (it takes {config.subjects}). "
            f"Mend: add the subject, or choose another `instance`"
        )


def covers(pattern: str, subjects: str) -> bool:
    """Whether every subject that `subjects` matches is matched by `pattern`; both may have wildcards."""
    wide, narrow = pattern.split("."), subjects.split(".")
    for position, token in enumerate(wide):
        if token == _REST:
            return len(narrow) > position
        if position >= len(narrow) or narrow[position] == _REST:
            return False
        if token not in (_ANY, narrow[position]):
            return False
    return len(wide) == len(narrow)


def weaknesses(config: StreamConfig) -> list[str]:
    """What weakens the promise of a stream that is fit all the same."""
    found = []
    if config.storage != StorageType.FILE:
        found.append("memory storage: a broker restart loses the stored runs")
    if config.discard != DiscardPolicy.OLD:
        found.append("discard is not 'old': a full stream refuses new runs")
    if config.retention != RetentionPolicy.LIMITS:
        found.append(
            "retention is not 'limits': runs vanish as they are consumed and cannot be looked up, so what an "
            "outage over the duplicate window left unknown is set aside as a dead letter"
        )
    if (config.max_msgs_per_subject or 0) > 0:
        found.append(
            "max_msgs_per_subject is set: older runs of a route are dropped, and verify cannot judge"
        )
    if config.max_age and config.max_age < config.duplicate_window:
        found.append("max_age is under the duplicate window: runs vanish before they can be settled")
    if 0 < (config.max_msg_size or 0) < MESSAGE_BYTES:
        found.append(f"max_msg_size is under {MESSAGE_BYTES}: runs with large payloads are set aside")
    return found
