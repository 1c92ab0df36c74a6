"""Load tests end on SIGTERM as on Ctrl-C: with all that they have started."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def run_to_its_end(main: Coroutine[Any, Any, Result]) -> Result:
    """`asyncio.run`, which SIGTERM cancels too. Raises KeyboardInterrupt then, once all is ended."""

    async def ended_by_sigterm() -> Result:
        task = asyncio.current_task()
        if task is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await main

    try:
        return asyncio.run(ended_by_sigterm())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
