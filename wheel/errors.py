"""What goes wrong with a schedule, told to the person who wrote it."""


class ScheduleError(ValueError):
    """A schedule that cannot be kept. The message is the whole story: field, value, problem, mend."""

    def __init__(self, field: str, token: object, problem: str, mend: str) -> None:
        self.field = field
        self.token = token
        super().__init__(f"{field}: {shown(token)} {problem}; {mend}")


def shown(token: object, characters_max: int = 40) -> str:
    """`token` as plain ASCII on one line, long ones cut: it may be anything that somebody pasted."""
    text = token if isinstance(token, str) else str(token)
    cut = text[:characters_max]
    dots = "..." if len(text) > characters_max else ""
    return ascii(cut)[:-1] + dots + "'" if isinstance(token, str) else cut + dots
