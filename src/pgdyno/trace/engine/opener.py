"""Threads for what blocks: opening sessions, and asking the server to cancel."""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from pgdyno.trace.engine.login import Opened, cancel, open_session
from pgdyno.trace.engine.plan import EnginePlan
from pgdyno.trace.engine.scram import LoginError
from pgdyno.trace.engine.session import ReplaySession

_THREADS = 16
_CANCEL_TIMEOUT_S = 2.0


class Opener:
    """Takes jobs in the order in which they came; `wake` is a descriptor that is written to when one was answered."""

    def __init__(self, plan: EnginePlan, wake: int) -> None:
        self._plan, self._wake = plan, wake
        self._pool = ThreadPoolExecutor(_THREADS, "open")
        self._answered: queue.SimpleQueue[tuple[ReplaySession, int, Opened | LoginError]] = queue.SimpleQueue()

    def open(self, session: ReplaySession, words: bytes) -> None:
        """Have a session opened, by the payload of its record."""
        self._pool.submit(self._open, session, *words.decode().split("\0")[:3])

    def cancel(self, session: ReplaySession) -> None:
        """Have what a session is at cancelled."""
        self._cancel(self._pool, session)

    def answered(self) -> Iterator[tuple[ReplaySession, int, Opened | LoginError]]:
        """Give each session that was answered, when that began in ns of the monotonic clock, and what came of it."""
        while not self._answered.empty():
            yield self._answered.get()

    def close(self, busy: Iterable[ReplaySession]) -> None:
        """Forget what no thread has begun, cancel what these sessions are at, and close what is opened meanwhile."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with ThreadPoolExecutor(_THREADS, "cancel") as pool:  # of its own: sessions may still be at being opened
            for session in busy:
                self._cancel(pool, session)
        self._pool.shutdown()
        for _, _, found in self.answered():
            if isinstance(found, Opened):
                found.socket.close()

    def _cancel(self, pool: ThreadPoolExecutor, session: ReplaySession) -> None:
        pool.submit(cancel, self._plan.end_point, session.pid, session.key, _CANCEL_TIMEOUT_S)

    def _open(self, session: ReplaySession, user: str, database: str, application: str) -> None:
        began = time.monotonic_ns()
        try:
            found: Opened | LoginError = open_session(self._plan, user, database, application)
        except LoginError as error:
            found = error
        self._answered.put((session, began, found))
        os.eventfd_write(self._wake, 1)
