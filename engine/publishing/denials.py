"""Subjects that our login may not publish to.

The server answers such a run with a line that names the subject and no run, so it is every open run of that
subject that is refused. They are sent again, since permissions can be given. After `PATIENCE_S` of nothing
but refusals the runs of that subject are set aside as they come, so that they keep no others waiting.
"""

from typing import Final

PATIENCE_S: Final = 10.0
# A job may run seldom; what is denied again after a longer pause is given its chance anew.
FORGET_S: Final = 60.0


class Denials:
    """Decisions only; `now` in monotonic seconds. nats-py gives the subjects in small letters."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[float, float]] = {}
        self._news: set[str] = set()

    def note(self, subject: str, now: float) -> bool:
        """It was denied now; True when it was not known to be."""
        first, last = self._since.get(subject, (now, now))
        known = subject in self._since and now - last <= FORGET_S
        self._since[subject] = (first if known else now, now)
        self._news.add(subject)
        return not known

    def take(self) -> dict[str, bool]:
        """What was denied since the last call; by subject, whether its runs are to be set aside."""
        news, self._news = self._news, set()
        return {subject: self._patience_over(subject) for subject in news}

    def _patience_over(self, subject: str) -> bool:
        first, last = self._since[subject]
        return last - first >= PATIENCE_S
