"""What can go wrong with a job that was named or written. Each message is what the user reads."""


class JobsError(Exception):
    """The command could not be done; the message says why and what to do."""


class UnknownJob(JobsError):
    """No job has this id or key."""

    def __init__(self, names: list[str]) -> None:
        which = ", ".join(name if len(name) <= 60 else name[:57] + "..." for name in names[:10])
        super().__init__(f"no job has the id or key {which}: `mainspring jobs list` shows those there are")
        self.names = names


class KeyTaken(JobsError):
    """The key belongs to another job."""

    def __init__(self, key: str) -> None:
        super().__init__(f"key: {key!r} belongs to another job: edit that one, or choose another key")


class IdTaken(JobsError):
    """The id, given or drawn, is in use."""

    def __init__(self) -> None:
        super().__init__("id: another job has it: leave --id out, or edit that job")


class TableMoved(JobsError):
    """Someone else deleted or inserted the same jobs while an import was writing."""

    def __init__(self) -> None:
        super().__init__("the table changed under the import, nothing was written: import the file again")


class SessionLost(JobsError):
    """Postgres, or what lies between, ended the session of an import."""

    def __init__(self, *, committing: bool) -> None:
        if committing:
            super().__init__(
                "the session was lost amid the commit: `mainspring jobs list` shows what became of it"
            )
        else:
            super().__init__("the session was lost, nothing was written: import the file again")
