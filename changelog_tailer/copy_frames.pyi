class CopyFrames:
    """What a server sends during a COPY: the rows in pages, everything else passed on.

    page_bytes: from so many bytes of rows on a page is full; it has room for a receipt more.
    """

    def __init__(self, page_bytes: int) -> None: ...
    def room(self) -> memoryview:
        """Where the next bytes belong, a quarter of a page at least; good until `take` or `cut` is called."""

    def take(self, nbytes: int) -> bytes:
        """So many bytes have come into `room`: gives those that are of no CopyData message.

        ValueError for more than there was room for, or for a length that no message can have.
        """

    @property
    def full(self) -> bool:
        """Whether the page should be cut before more is received."""

    def cut(self) -> bytes:
        """The page: what CopyData messages held since the last one, the last row perhaps cut."""
