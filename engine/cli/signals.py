"""Ctrl-C and SIGTERM as a request that the program can finish its work for."""

import asyncio
import signal
import threading


def stop_on_signals() -> asyncio.Event:
    """An event that SIGINT and SIGTERM set; a second one of either ends the process at once."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def ask(number: signal.Signals) -> None:
        stop.set()
        loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ask, number)
    return stop


def interrupt_reads() -> None:
    """From here on Ctrl-C also ends a read that waits, for a pipe say, which asyncio would let go on."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
