"""Work on a thread that is never left behind: whoever is cancelled waits for it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

Result = TypeVar("Result")


async def on_thread(threads: Executor, call: Callable[..., Result], *arguments: Any) -> Result:
    """What `call` gives, on one of the threads; it has ended when this returns or raises."""
    working = asyncio.get_running_loop().run_in_executor(threads, call, *arguments)
    try:
        return await asyncio.shield(working)
    finally:
        await asyncio.wait([working])


async def on_each_thread(threads: Executor, count: int, call: Callable[[], None]) -> None:
    """The same call on `count` threads side by side; all have ended when this returns or raises."""
    working = [asyncio.get_running_loop().run_in_executor(threads, call) for _ in range(count)]
    await asyncio.wait(working)
    for done in working:
        done.result()
