"""Ends the sessions of jobs on a server, which may hang: all requests together are waited for once, not each.

Requests go to the server from one thread, those that wait with one statement. A thread that a frozen server never
answers keeps no process from ending.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from pgdyno.errors import PgdynoError
from pgdyno.server.postgres import Postgres

ANSWER_S = 5.0
"""For so long a server is waited for in all; one that has not answered by then keeps the sessions."""
_END = (
    "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity"
    " WHERE application_name = ANY(%s) AND pid <> pg_catalog.pg_backend_pid()"
)


def end_sessions(server: Postgres, tags: Iterable[str]) -> None:
    """End the sessions that are called so. Raises PgdynoError where the server cannot be asked."""
    server.fetch(_END, [list(tags)])


@dataclass(eq=False)
class SessionsEnd:
    """A request to end the sessions of one name; `answered` is set once the server was asked, or cannot be."""

    tag: str
    answered: threading.Event = field(default_factory=threading.Event)


class SessionEnder:
    """Ends sessions on one server. `clock` is in seconds and is never set."""

    def __init__(self, server: Postgres, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._server, self._clock = server, clock
        self._lock = threading.Lock()
        self._waiting = list[SessionsEnd]()
        self._is_asking = False
        self._until = math.inf
        """Until when an answer is waited for; past after one that did not come, until another one does."""

    def begin(self, tag: str) -> SessionsEnd:
        """Have the sessions of this name ended, and do not wait for it."""
        request = SessionsEnd(tag)
        with self._lock:
            self._waiting.append(request)
            self._until = min(self._until, self._clock() + ANSWER_S)
            if not self._is_asking:
                self._is_asking = True
                threading.Thread(target=self._ask, name="pgdyno-end", daemon=True).start()
        return request

    def is_over(self, request: SessionsEnd) -> bool:
        """Tell whether a request was answered, or is waited for no longer."""
        return request.answered.is_set() or self._clock() >= self._until

    def wait(self, request: SessionsEnd) -> None:
        """Wait until that is so."""
        request.answered.wait(max(0.0, self._until - self._clock()))

    def end(self, tag: str) -> None:
        """End the sessions of this name, and wait as `wait` does."""
        self.wait(self.begin(tag))

    def _ask(self) -> None:
        while True:
            with self._lock:
                asked, self._waiting = self._waiting, []
                if not asked:
                    self._is_asking = False
                    return
            has_answered = False
            with suppress(PgdynoError):
                end_sessions(self._server, dict.fromkeys(one.tag for one in asked))
                has_answered = True
            with self._lock:
                if has_answered or self._clock() < self._until:  # that it refuses is an answer, too
                    self._until = self._clock() + ANSWER_S if self._waiting else math.inf
            for one in asked:
                one.answered.set()
