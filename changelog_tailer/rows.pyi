from mainspring.changelog_tailer.layout import Rows

class Decoder:
    """Turns the bytes of one COPY after the other into `Rows`.

    Keep one for the life of a reader: its dictionaries of routes and crons go on growing, so that numbers
    given once stay good. Not for two threads at once. Routes begin with 'default', so that 0, which rows
    without a definition carry, is a route.
    """

    @property
    def routes(self) -> list[str]: ...
    @property
    def crons(self) -> list[tuple[str, str]]: ...
    def __init__(self) -> None: ...
    def begin(self) -> None:
        """Expect the first byte of a COPY next."""

    def decode(self, data: bytes) -> Rows:
        """The rows that `data` completes; a row cut at its end is kept for the next call.

        Raises RowsCorrupt where it is no binary COPY of the expected columns.
        """

    def finish(self) -> None:
        """Raises RowsCorrupt unless the COPY has ended as it should."""
