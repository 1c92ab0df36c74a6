"""Reads job definitions out of Postgres: all of them once, then every change, each one exactly once.

    decoder = Decoder()
    connection = await connect(dsn)
    cursor = await load(connection, load_sink, decoder)
    tailer = Tailer(dsn, cursor, change_sink, decoder)
    await tailer.run()

`mainspring.changelog_tailer.schema` makes the tables.
"""

from mainspring.changelog_tailer.connection import LOST, close, connect, costs_little, cursor_now
from mainspring.changelog_tailer.copying import RowSink
from mainspring.changelog_tailer.cursor import Cursor
from mainspring.changelog_tailer.errors import (
    ChangeLogError,
    CursorVoid,
    RowsCorrupt,
    SchemaMismatch,
    ServerRefused,
)
from mainspring.changelog_tailer.layout import (
    BEGINNING,
    CATCH_UP_ALL,
    CATCH_UP_LATEST,
    CATCH_UP_NONE,
    CATCH_UP_UNKNOWN,
    NEVER,
    OP_DELETE,
    OP_INSERT,
    OP_LOAD,
    OP_TRUNCATE,
    OP_UNKNOWN,
    OP_UPDATE,
    ROW,
    Rows,
)
from mainspring.changelog_tailer.reading import (
    changes_between,
    expected_jobs,
    load,
    newcomers_between,
    undo_since,
)
from mainspring.changelog_tailer.rows import Decoder
from mainspring.changelog_tailer.tailer import PageSink, Tailer

__all__ = [
    "BEGINNING",
    "CATCH_UP_ALL",
    "CATCH_UP_LATEST",
    "CATCH_UP_NONE",
    "CATCH_UP_UNKNOWN",
    "LOST",
    "NEVER",
    "OP_DELETE",
    "OP_INSERT",
    "OP_LOAD",
    "OP_TRUNCATE",
    "OP_UNKNOWN",
    "OP_UPDATE",
    "ROW",
    "ChangeLogError",
    "Cursor",
    "CursorVoid",
    "Decoder",
    "PageSink",
    "RowSink",
    "Rows",
    "RowsCorrupt",
    "SchemaMismatch",
    "ServerRefused",
    "Tailer",
    "changes_between",
    "close",
    "connect",
    "costs_little",
    "cursor_now",
    "expected_jobs",
    "load",
    "newcomers_between",
    "undo_since",
]
