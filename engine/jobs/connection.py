"""The connection of the jobs commands: in UTC, and at ease with every instant that the table can hold."""

from datetime import UTC, datetime, timedelta
from typing import Final

import asyncpg

_PG_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MICROSECONDS_MIN: Final = (_FIRST - _PG_EPOCH) // _MICROSECOND
_MICROSECONDS_MAX: Final = (_LAST - _PG_EPOCH) // _MICROSECOND


async def prepare(connection: asyncpg.Connection) -> None:
    """Make a fresh connection fit for ``JobStore``, ``Import`` and ``export_jobs``."""
    await connection.execute(
        "set timezone to 'UTC'; set datestyle to 'ISO'; set application_name to 'mainspring jobs'"
    )
    # Postgres counts to the year 294276, Python to 9999: a row from before jobs_years_are_1_to_9999 must not
    # end a listing.
    await connection.set_type_codec(
        "timestamptz", schema="pg_catalog", encoder=_encode, decoder=_decode, format="tuple"
    )


def _encode(instant: datetime) -> tuple[int]:
    return ((instant - _PG_EPOCH) // _MICROSECOND,)


def _decode(value: tuple[int]) -> datetime:
    microseconds = min(max(value[0], _MICROSECONDS_MIN), _MICROSECONDS_MAX)
    return _PG_EPOCH + timedelta(microseconds=microseconds)
