"""What goes wrong with embedded servers."""


class EmbeddedError(RuntimeError):
    """An embedded server cannot be started or reached; the message says why and names the mend."""
