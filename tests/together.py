"""Several threads at once, each with a duty of its own."""

import threading
from collections.abc import Callable

WAIT_S = 60.0


def together(*duties: Callable[[], object]) -> None:
    """Runs all to their end; the first error of any of them is raised here, and so is that one never ends."""
    errors: list[BaseException] = []

    def guarded(duty: Callable[[], object]) -> None:
        try:
            duty()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(duty,), daemon=True) for duty in duties]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive(), "a thread waits for ever"
    if errors:
        raise errors[0]
