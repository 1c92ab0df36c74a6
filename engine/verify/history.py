"""The definitions of all jobs over a span, as arrays: one *version* for each that may have been in effect.

Read from the table as it is now and the change log, whose rows carry the definition before and after.
"""

import asyncio
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

import asyncpg
import numpy as np
from numpy.typing import NDArray

from mainspring.changelog_tailer import OP_DELETE, ROW, Decoder, Rows
from mainspring.changelog_tailer.copying import copy_rows
from mainspring.engine.jobs.definition import judge_cron
from mainspring.engine.verify.effect import EVER, Effect, Instants
from mainspring.engine.verify.refusal import CannotJudge
from mainspring.wheel.twin import job_hash

LOOK_BACK_S: Final = 900
"""So much before the span a change that is still uncertain in it may have been written."""

_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True)
class History:
    """All versions, those of one job in their order side by side.

    ids: (jobs,) ascending. hashes: (jobs,) uint64. job: (versions,) index into ids. rows: (versions,) of ROW.
    A version may give a run of an instant in (may_after, may_until], and surely does in
    (sure_after, sure_until]; `alive` is false for one that gives none: paused, deleted, quarantined.
    crons: (expression, zone) by number.
    """

    ids: Instants
    hashes: NDArray[np.uint64]
    job: Instants
    rows: NDArray[np.void]
    alive: NDArray[np.bool_]
    may_after: Instants
    may_until: Instants
    sure_after: Instants
    sure_until: Instants
    crons: list[tuple[str, str]]
    quarantined: int

    def first_version(self) -> NDArray[np.int64]:
        """Where each job's versions begin, and behind them their number; (jobs + 1,)."""
        return np.searchsorted(self.job, np.arange(len(self.ids) + 1))


async def read_history(connection: asyncpg.Connection, since: int, effect: Effect) -> History:
    """The versions that may have been in effect from `since` (epoch seconds) on.

    Raises CannotJudge where the log does not reach back so far.
    """
    since -= LOOK_BACK_S
    decoder = Decoder()
    async with asyncio.timeout(_TIMEOUT_S):
        await connection.execute("begin isolation level repeatable read read only")
    names = ("jobs", "before_changes", "changes")
    table, before, changes = [await _read(connection, name, since, decoder) for name in names]
    await _require_unpruned(connection, since)
    async with asyncio.timeout(_TIMEOUT_S):
        await connection.execute("commit")
    return history_of(table, *_in_order(before, changes), crons=decoder.crons, effect=effect)


async def _read(connection: asyncpg.Connection, name: str, since: int, decoder: Decoder) -> NDArray[np.void]:
    pages: list[NDArray[np.void]] = [np.empty(0, ROW)]

    async def keep(page: Rows) -> None:
        pages.append(page.rows.copy())  # the decoder's own array has room for more rows than came

    await copy_rows(connection, _query(name).format(since=since), keep, decoder)
    return np.concatenate(pages)


async def _require_unpruned(connection: asyncpg.Connection, since: int) -> None:
    async with asyncio.timeout(_TIMEOUT_S):
        log = await connection.fetchrow(_query("pruned"))
    whole_from = log["whole_from"]
    if log["pruned"] and log["pruned_at"] > since and (whole_from is None or whole_from > since):
        raise CannotJudge(
            "the change log was pruned past the beginning of the span, so which definitions held then is not "
            "known; verify a later span, and let `mainspring db prune --keep-s` keep more"
        )


@cache
def _queries() -> dict[str, str]:
    text = (files("mainspring.engine.verify") / "queries.sql").read_text("utf-8")
    _, *parts = text.split("-- name: ")
    return {name: body.strip() for name, _, body in (part.partition("\n") for part in parts)}


def _query(name: str) -> str:
    return _queries()[name]


# ------------------------------------------------------------------------------------------- putting together


def _in_order(
    before: NDArray[np.void], changes: NDArray[np.void]
) -> tuple[NDArray[np.void], NDArray[np.void]]:
    """What each job was before its first change, and the changes in their order; given transaction by
    transaction, which need not be the order in which they changed one job.
    """
    order = np.argsort(before["seq"], kind="stable")
    before, changes = before[order], changes[order]
    _, first = np.unique(before["job_id"], return_index=True)
    before = before[first]
    before["seq"] = 0
    return before, changes


def history_of(
    table: NDArray[np.void],
    before: NDArray[np.void],
    changes: NDArray[np.void],
    *,
    crons: list[tuple[str, str]],
    effect: Effect,
) -> History:
    """From the table, what each changed job was before its first change, and the changes in their order."""
    unchanged = table[~np.isin(table["job_id"], before["job_id"])]
    rows = np.concatenate([unchanged, before, changes])
    # Where what stands in `seq` is a time, the row is a change; `stable` keeps those of a job in their order.
    rows = rows[np.argsort(rows["job_id"], kind="stable")]
    ids, job = np.unique(rows["job_id"], return_inverse=True)
    after, surely_after = _beginnings(rows, effect)
    until, surely_until = np.full(len(rows), EVER), np.full(len(rows), EVER)
    followed = np.flatnonzero(job[1:] == job[:-1])
    until[followed], surely_until[followed] = surely_after[followed + 1], after[followed + 1]
    bad = _quarantined(rows, crons)
    return History(
        ids=ids,
        hashes=np.fromiter(map(job_hash, ids.tolist()), np.uint64, len(ids)),
        job=job.astype(np.int64),
        rows=rows,
        alive=(rows["op"] != OP_DELETE) & (rows["enabled"] != 0) & ~bad,
        may_after=after,
        may_until=until,
        sure_after=surely_after,
        sure_until=surely_until,
        crons=crons,
        quarantined=int((bad & (rows["op"] != OP_DELETE) & (until == EVER)).sum()),
    )


def _beginnings(rows: NDArray[np.void], effect: Effect) -> tuple[Instants, Instants]:
    """After which instant each version may be, and surely is, in effect."""
    after, surely_after = np.full(len(rows), -EVER), np.full(len(rows), -EVER)
    changes = np.flatnonzero(rows["seq"] != 0)
    after[changes] = effect.earliest(rows["changed_at"][changes] / 1e6)
    surely_after[changes] = effect.latest(rows["seq"][changes] / 1e6)
    return after, surely_after


def _quarantined(rows: NDArray[np.void], crons: list[tuple[str, str]]) -> NDArray[np.bool_]:
    """Versions whose expression or zone the engine sets aside: it is told so, and none of them fires."""
    bad = np.zeros(len(crons), np.bool_)
    for code in np.unique(rows["cron"]).tolist():
        if code:
            bad[code] = judge_cron(*crons[code]) is not None
    quarantined: NDArray[np.bool_] = bad[rows["cron"]]
    return quarantined
