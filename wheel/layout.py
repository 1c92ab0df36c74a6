"""The row a change arrives in: one numpy record a definition, texts beside it in one buffer.

``rows = np.zeros(n, DEFINITION)`` with ``texts: bytes`` is a batch for ``Wheel.apply``. Field by field:

===============  ==================================================================================
id               of the job
seq              of the change in the log; 0 for a load from the table, which is always accepted
run_at           instant of a one-shot, else ``NEVER``
starts_at        window, inclusive; ``MIN`` when open
ends_at          window, exclusive; ``NEVER`` when open
boost_until      exclusive; ``MIN`` without a boost
changed_at       of an insert, in whole seconds: the first run soon counts from it; 0 for none
every_s          interval in seconds, 0 for the other kinds
phase_s          override of the hashed phase, -1 for none
jitter_s         spread of a cron job in seconds, -1 for the expression's own
boost_every_s    interval while boosted, 0 for none
route, cron      numbers given by ``Wheel.route`` and ``Wheel.cron``
key_at, key_len  slice of ``texts``, UTF-8, 255 bytes at most; length 0 for no key
data_at, data_len  slice of ``texts``, the payload as JSON text, 64 KiB at most; length 0 for none
op               ``OP_*``
kind             ``KIND_*``
enabled, first_run_soon  0 or 1
catch_up         ``CATCH_UP_*``
===============  ==================================================================================

Instants are epoch seconds.
"""

import numpy as np

from mainspring.wheel.definition import NEVER

__all__ = [
    "CATCH_UP_ALL",
    "CATCH_UP_LATEST",
    "CATCH_UP_NONE",
    "DEFINITION",
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
]

MIN = -(2**63)
SHARDS = 256

OP_LOAD, OP_INSERT, OP_UPDATE, OP_DELETE = 0, 1, 2, 3
KIND_INTERVAL, KIND_CRON, KIND_ONCE = 1, 2, 3
CATCH_UP_ALL, CATCH_UP_LATEST, CATCH_UP_NONE = 0, 1, 2

DEFINITION = np.dtype(
    [
        ("id", "<i8"),
        ("seq", "<i8"),
        ("run_at", "<i8"),
        ("starts_at", "<i8"),
        ("ends_at", "<i8"),
        ("boost_until", "<i8"),
        ("changed_at", "<i8"),
        ("every_s", "<i4"),
        ("phase_s", "<i4"),
        ("jitter_s", "<i4"),
        ("boost_every_s", "<i4"),
        ("route", "<u4"),
        ("cron", "<u4"),
        ("key_at", "<u4"),
        ("key_len", "<u4"),
        ("data_at", "<u4"),
        ("data_len", "<u4"),
        ("op", "u1"),
        ("kind", "u1"),
        ("enabled", "u1"),
        ("first_run_soon", "u1"),
        ("catch_up", "u1"),
    ],
    align=True,
)
