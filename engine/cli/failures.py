"""From an error to the one line and the exit status that a user sees."""

import asyncpg
import nats.errors

from mainspring.changelog_tailer.errors import ChangeLogError, Unreachable
from mainspring.engine.broker.stream import StreamUnfit
from mainspring.engine.broker.stream_reader import StreamUnreadable
from mainspring.engine.cli.tail import StreamMissing
from mainspring.engine.config import SettingsError
from mainspring.engine.embedded import EmbeddedError
from mainspring.engine.failover.recovery import RecoveryPointDamaged
from mainspring.engine.jobs.definition import DefinitionError
from mainspring.engine.jobs.errors import JobsError
from mainspring.engine.publishing.publisher import BrokerClosed
from mainspring.engine.verify.refusal import CannotJudge
from mainspring.engine.web import PortTaken
from mainspring.wheel.errors import ScheduleError

FAILED, WRONG_USAGE = 1, 2

MISUSE = (SettingsError, DefinitionError, ScheduleError)
# The world is at fault here, not the code: one line says it all, and a traceback would bury it.
WORLD = (
    BrokerClosed,
    CannotJudge,
    EmbeddedError,
    ChangeLogError,
    JobsError,
    PortTaken,
    RecoveryPointDamaged,
    StreamMissing,
    StreamUnfit,
    StreamUnreadable,
    OSError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    nats.errors.Error,
)
WRONG_ADDRESS = (
    Unreachable,
    ConnectionRefusedError,
    asyncpg.InvalidPasswordError,
    asyncpg.InvalidCatalogNameError,
    nats.errors.NoServersError,
)


def status_of(error: Exception) -> int | None:
    """The exit status an error stands for; None for one that nobody expected."""
    if isinstance(error, MISUSE):
        return WRONG_USAGE
    return FAILED if isinstance(error, WORLD) else None


def explain(error: Exception) -> str:
    """One line for one error."""
    text = _text(error)
    line = f"error: {text or type(error).__name__}"
    if isinstance(error, WRONG_ADDRESS):
        line += "; `mainspring config` shows postgres_dsn and nats_url, and --embedded DIR needs neither"
    return line


def _text(error: Exception) -> str:
    if isinstance(error, MISUSE):
        return " ".join(str(error).split("\n"))
    if isinstance(error, OSError) and error.strerror is not None:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    if isinstance(error, TimeoutError):
        return str(error) or "a server did not answer in time; `mainspring doctor` tells which"
    return str(error)
