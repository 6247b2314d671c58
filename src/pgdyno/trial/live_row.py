"""A running study's row on the live board: written once a second, from a thread of its own, until the study ends."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pgdyno.errors import PgdynoError
from pgdyno.linux.identity import ProcessIdentity, pid_namespace, uptime
from pgdyno.model.guard import Indicator
from pgdyno.model.live import Live, LiveIndicator, LiveNotice, LivePoint
from pgdyno.store.live import LiveBoard

POINTS = 300
"""Seconds that a dashboard shows: five minutes."""
NOTICES = 20
INTERVAL_S = 1.0
RETRY_S = 10.0
"""How long nothing is written after a store that refused: a board is worth no more than that."""


def first_state(study: str, now: float) -> Live:
    """Return the row of a study that this process begins to run."""
    own = ProcessIdentity.own()
    return Live(
        study,
        now,
        now,
        socket.gethostname(),
        own.pid,
        start_ticks=own.start_ticks,
        boot_id=own.boot_id,
        namespace=pid_namespace(),
        uptime=uptime(),
    )


class LiveRow:
    """Writes the row while the context is open. `ends_at` is when this part of the study will be over, if known.

    A study never waits for the board and never fails for it: a store that refuses is left alone for `RETRY_S`. The row
    goes at `close`, which is the context's end. Uses the store from its thread; changes nothing on a server.
    """

    def __init__(
        self,
        board: LiveBoard,
        study: str,
        *,
        clock: Callable[[], float] = time.time,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self.clock = clock
        self.ends_at: float | None = None
        self._board = board
        self._interval_s = interval_s
        self._live = first_state(study, clock())
        self._latest: LivePoint | None = None
        self._points: deque[str] = deque(maxlen=POINTS)
        self._notices: deque[LiveNotice] = deque(maxlen=NOTICES)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pgdyno-live", daemon=True)

    def __enter__(self) -> LiveRow:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the thread and take the row away. A thread that waits for a store is not waited for longer than that."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(RETRY_S)

    def put(self, **members: Any) -> None:  # noqa: ANN401 - members of Live, each of its own type
        """Keep members of `Live` until others come in their place."""
        self._live = replace(self._live, **members)

    def phase(self, text: str) -> None:
        """Keep what is done now."""
        self.put(phase=text, elapsed_s=None, duration_s=None)

    def progress(self, elapsed_s: float, duration_s: float, place: str = "") -> None:
        """Keep how far it is, in words too where `place` has any."""
        self.put(elapsed_s=min(elapsed_s, duration_s), duration_s=duration_s, place=place or self._live.place)

    def is_due(self, now: float) -> bool:
        """Return whether a second has passed since the last point."""
        return self._latest is None or not 0 <= now - self._latest.t < INTERVAL_S  # below 0 the clock was set back

    def add(self, point: LivePoint) -> None:
        """Add a point, see `is_due`."""
        self._latest = point.shortened()
        self._points.append(self._latest.to_text())

    def guards(self, indicators: Sequence[Indicator]) -> None:
        """Keep the indicators."""
        self.put(indicators=tuple(LiveIndicator(one.name, one.colour.value, one.text) for one in indicators))

    def notice(self, text: str) -> None:
        """Keep a line that must stay to be read."""
        self._notices.append(LiveNotice(self.clock(), text))

    def _run(self) -> None:
        pause, written = 0.0, False
        while not self._stopping.wait(pause):
            now, ends_at = self.clock(), self.ends_at
            state = replace(
                self._live,
                at=now,
                left_s=None if ends_at is None else max(0.0, ends_at - now),
                uptime=uptime(),
                notices=tuple(self._notices.copy()),
            )
            try:
                self._board.show(state, self._points.copy())
                pause, written = self._interval_s, True
            except PgdynoError:
                pause = RETRY_S
        if written:
            try:
                self._board.clear(self._live.study)
            except PgdynoError:
                return  # the row stays and shows by its age that nobody writes it
