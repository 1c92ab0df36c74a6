"""The wheel: when each of millions of jobs runs next, and the runs of every second.

Two halves, of which each is of use without the other:

* pure functions of a schedule: ``next_fires``, ``interval_next`` and what they rest on. A consumer can
  compute with them which runs it should have seen.
* ``Wheel``: 256 compiled shards of jobs under one clock. ``loader`` fills an empty one, ``apply`` takes
  batches of changes, ``drain`` writes the runs of the next second as broker frames, ``check`` proves a shard
  right. A ``Ticker`` drains it second by second on a thread of its own.
"""

from mainspring.wheel.cron import CronSpec, parse_cron
from mainspring.wheel.definition import Schedule
from mainspring.wheel.digester import Digester, shards_of
from mainspring.wheel.errors import ScheduleError
from mainspring.wheel.frames import SKIP_REASONS, Frames
from mainspring.wheel.layout import (
    CATCH_UP_ALL,
    CATCH_UP_LATEST,
    CATCH_UP_NONE,
    DEFINITION,
    KIND_CRON,
    KIND_INTERVAL,
    KIND_ONCE,
    MIN,
    NEVER,
    OP_DELETE,
    OP_INSERT,
    OP_LOAD,
    OP_UPDATE,
    SHARDS,
)
from mainspring.wheel.schedule import interval_next, job_hash, next_fires, phase_of, shard_of, spread_of
from mainspring.wheel.ticker import ManualClock, Piece, Ticker
from mainspring.wheel.wheel import FAULTS, Loader, Wheel
from mainspring.wheel.zones import Zone, load_zone

__all__ = [
    "CATCH_UP_ALL",
    "CATCH_UP_LATEST",
    "CATCH_UP_NONE",
    "DEFINITION",
    "FAULTS",
    "KIND_CRON",
    "KIND_INTERVAL",
    "KIND_ONCE",
    "MIN",
    "NEVER",
    "OP_DELETE",
    "OP_INSERT",
    "OP_LOAD",
    "OP_UPDATE",
    "SHARDS",
    "SKIP_REASONS",
    "CronSpec",
    "Digester",
    "Frames",
    "Loader",
    "ManualClock",
    "Piece",
    "Schedule",
    "ScheduleError",
    "Ticker",
    "Wheel",
    "Zone",
    "interval_next",
    "job_hash",
    "load_zone",
    "next_fires",
    "parse_cron",
    "phase_of",
    "shard_of",
    "shards_of",
    "spread_of",
]
