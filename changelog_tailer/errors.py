"""What can be wrong with the server, the schema or the cursor. Each message names the mend."""


class ChangeLogError(Exception):
    """The change log cannot be read as things are."""


class ServerRefused(ChangeLogError):
    """This server cannot be read from: too old, in recovery, behind a pooler, or not in UTF8."""


class SchemaMismatch(ChangeLogError):
    """The schema `mainspring` is missing, older than this version needs, or newer than it knows."""


class CursorVoid(ChangeLogError):
    """The cursor says nothing about this server's log; load the table again."""


class RowsCorrupt(ChangeLogError):
    """The bytes are not those of a binary COPY with the expected columns."""


class Unreachable(ConnectionError):
    """No server answers at the address: an OSError, for trying again may cure it.

    refused: each port was closed, so that nobody waited and trying again costs little.
    """

    refused = False
