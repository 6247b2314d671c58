"""Signals: held back while a server is restored, or turned into Ctrl-C, which restores."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)


@contextlib.contextmanager
def deferred_signals() -> Iterator[None]:
    """Hold back SIGINT, SIGTERM, SIGHUP and SIGALRM inside the block, and deliver what came when it is over.

    Replaces the handlers, not the signal mask: a mask would be inherited by a server that is started inside the
    block. Does nothing outside of the main thread, where Python delivers no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        received.append(number)

    previous = {interrupt: signal.getsignal(interrupt) for interrupt in INTERRUPTS}
    try:
        for interrupt in INTERRUPTS:
            signal.signal(interrupt, remember)
        yield
    finally:
        for deferred, handler in previous.items():
            signal.signal(deferred, handler if handler is not None else signal.SIG_DFL)
    for number in dict.fromkeys(received):
        signal.raise_signal(number)


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into KeyboardInterrupt, as SIGINT is one already, so that every ending restores.

    One that is ignored stays so: `nohup pgdyno tune` is to outlive the terminal.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    taken = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, interrupt) for number in taken}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
