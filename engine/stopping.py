"""Ending concurrent work: nothing is left running, and no error is left untold."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

# A cancellation can be lost: `asyncio.wait_for` of Python 3.11, which drivers use, drops one that arrives
# while its inner call completes. So it is repeated until the task has ended.
_CANCEL_AGAIN_S = 0.5


async def unless_stopped(work: Awaitable[Result], stop: asyncio.Event) -> Result | None:
    """The result of `work`, or None when `stop` is set before; then `work` has been cancelled."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        await cancelled(working, stopping)


async def run_beside(work: Coroutine[Any, Any, None], *loops: Coroutine[Any, Any, None]) -> None:
    """`work` to its end while `loops` run beside it. The first error of any ends all and is raised."""
    main = asyncio.ensure_future(work)
    tasks = [main, *map(asyncio.ensure_future, loops)]
    try:
        while not main.done():
            done, _ = await asyncio.wait(
                [task for task in tasks if not task.done()], return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                task.result()
    finally:
        await cancelled(*tasks)


async def cancelled(*tasks: asyncio.Future[Any]) -> None:
    """Cancel until all have ended, whatever they end with."""
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=_CANCEL_AGAIN_S)
