"""Log lines on stderr, as text for people or JSON for collectors."""

import json
import logging
import sys
import time
from typing import Literal, TextIO


class StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to the ``sys.stderr`` of the moment: a live view replaces it to keep the screen whole."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        """The present stderr."""
        return sys.stderr


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (UTC), level, logger, message, and the traceback where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Render one record."""
        line = {
            "time": _instant(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """``2026-01-31T08:00:00.123Z WARNING mainspring.engine.x: message``."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """The record's time in UTC, to the millisecond."""
        del datefmt
        return _instant(record)


def configure_logs(log_format: Literal["text", "json"], level: int = logging.INFO) -> None:
    """Send the log of the whole process to stderr; a second call replaces the first."""
    handler = StderrHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)


def _instant(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"
