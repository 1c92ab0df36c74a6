"""A phase of a load test in a process of its own, so that no phase inherits the memory of another.

    figures = run_apart(phase, plan, tell)      # what phase(plan, tell) returns, computed in a fresh child

A phase is a function at the top of a module. What it tells of its progress is told here again.
"""

import multiprocessing
import traceback
from multiprocessing.connection import Connection

from mainspring.loadtest.plan import Figures, Phase, Plan, Tell
from mainspring.loadtest.resident import forbid_huge_pages, return_freed_arrays


class PhaseFailed(RuntimeError):
    """A phase ended without figures; the message says which and how."""


def run_apart(phase: Phase, plan: Plan, tell: Tell) -> Figures:
    """Run the phase in a fresh child. PhaseFailed when it raises or is killed."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_serve, args=(theirs, phase, plan), daemon=True)
    child.start()
    theirs.close()
    try:
        return _follow(ours, tell)
    except EOFError:
        child.join()
        ending = f"{phase.__name__} ended with status {child.exitcode}"
        raise PhaseFailed(f"{ending}: killed for want of memory? Try fewer --jobs") from None
    finally:
        child.kill()
        child.join()


def _follow(ours: Connection, tell: Tell) -> Figures:
    while isinstance(message := ours.recv(), float):
        tell(message)
    if isinstance(message, str):
        raise PhaseFailed(message)
    figures: Figures = message
    return figures


def _serve(theirs: Connection, phase: Phase, plan: Plan) -> None:
    try:
        return_freed_arrays()
        if plan.small_pages:
            forbid_huge_pages()
        theirs.send(phase(plan, lambda share: theirs.send(float(share))))
    except Exception:
        theirs.send(traceback.format_exc())
