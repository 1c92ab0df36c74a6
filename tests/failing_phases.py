"""Phases of a load test that give no figures, in a module that a fresh process can import."""

import os
import signal

from mainspring.loadtest.plan import Figures, Plan, Tell


def raising(plan: Plan, tell: Tell) -> Figures:
    tell(0.5)
    raise ValueError(f"no room for {plan.jobs} jobs")


def dying(_plan: Plan, _tell: Tell) -> Figures:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}
