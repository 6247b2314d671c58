"""A watcher between the laboratory and the display: keeps on the board what a dashboard shows, once a second."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType

from pgdyno.errors import PgdynoError
from pgdyno.linux.identity import ProcessIdentity, pid_namespace, uptime
from pgdyno.model.guard import Indicator
from pgdyno.model.live import Live, LiveIndicator, LiveNotice, LivePoint
from pgdyno.model.person.live_question import LiveDesk
from pgdyno.model.trial import Trial, TrialSpec
from pgdyno.probes.latest import latest_point
from pgdyno.probes.sampler import Sampler
from pgdyno.store.live import LiveBoard
from pgdyno.trial.pace import Outlook
from pgdyno.trial.watcher import Watcher
from pgdyno.workloads.protocol import LoadReading

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


class LiveRecorder:
    """Tells `watcher` all it hears, and the board of the store the state once a second, from a thread of its own.

    A study never waits for the board and never fails for it: a store that refuses is left alone for `RETRY_S`. The row
    goes at `close`, which is a context's end. Uses the store from its thread; changes nothing on a server.
    """

    def __init__(
        self,
        watcher: Watcher,
        board: LiveBoard,
        study: str,
        *,
        clock: Callable[[], float] = time.time,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._watcher = watcher
        self._board = board
        self._clock = clock
        self._interval_s = interval_s
        self._live = first_state(study, clock())
        self._ends_at: float | None = None
        self._latest: LivePoint | None = None
        self._points: deque[str] = deque(maxlen=POINTS)
        self._notices: deque[LiveNotice] = deque(maxlen=NOTICES)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pgdyno-live", daemon=True)

    def __enter__(self) -> LiveRecorder:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the thread and take the row away. A thread that waits for a store is not waited for longer than that."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(RETRY_S)

    def outlook(self, outlook: Outlook) -> None:
        """Keep which trial of how many it is, and the best so far."""
        self._ends_at = None if outlook.left_s is None else self._clock() + outlook.left_s
        self._live = replace(self._live, metric=outlook.metric.value, place=outlook.place, best=outlook.best)
        self._watcher.outlook(outlook)

    def trial_began(self, spec: TrialSpec, number: int, run_id: int) -> None:
        """Begin a trial's state."""
        self._live = replace(
            self._live,
            run=run_id,
            number=number,
            role=spec.role.value,
            arm=spec.arm,
            phase="begin",
            elapsed_s=None,
            duration_s=None,
        )
        self._watcher.trial_began(spec, number, run_id)

    def phase(self, text: str) -> None:
        """Keep what the trial does now."""
        self._live = replace(self._live, phase=text, elapsed_s=None, duration_s=None)
        self._watcher.phase(text)

    def reading(self, elapsed_s: float, duration_s: float, load: LoadReading | None, sampler: Sampler) -> None:
        """Keep a point where a second has passed; may raise what the watcher raises."""
        self._live = replace(self._live, elapsed_s=min(elapsed_s, duration_s), duration_s=duration_s)
        now = self._clock()
        if self._is_due(now):
            point = latest_point(sampler.latest(), now)
            if load is not None:
                point = replace(point, tps=load.tps, p99_ms=load.p99_ms)
            self._keep(point)
        self._watcher.reading(elapsed_s, duration_s, load, sampler)

    def progress(self, elapsed_s: float, duration_s: float, place: str, point: LivePoint) -> None:
        """Keep how far a run without trials is, in words too, and a point where a second has passed."""
        elapsed_s = min(elapsed_s, duration_s)
        self._live = replace(self._live, elapsed_s=elapsed_s, duration_s=duration_s, place=place)
        if self._is_due(point.t):
            self._keep(point)

    def _is_due(self, now: float) -> bool:
        return self._latest is None or not 0 <= now - self._latest.t < INTERVAL_S  # below 0 the clock was set back

    def _keep(self, point: LivePoint) -> None:
        self._latest = point.shortened()
        self._points.append(self._latest.to_text())

    def guards(self, lamps: Sequence[Indicator]) -> None:
        """Keep the lamps."""
        self._live = replace(
            self._live, lamps=tuple(LiveIndicator(one.name, one.colour.value, one.text) for one in lamps)
        )
        self._watcher.guards(lamps)

    def notice(self, text: str) -> None:
        """Keep the line."""
        self._notices.append(LiveNotice(self._clock(), text))
        self._watcher.notice(text)

    def desk(self, desk: LiveDesk) -> None:
        """Keep what the study asks a person."""
        self._live = replace(self._live, desk=desk)

    def trial_ended(self, trial: Trial) -> None:
        """Between two trials nothing of the ended one's progress is shown."""
        self._live = replace(self._live, phase="between trials", elapsed_s=None, duration_s=None)
        self._watcher.trial_ended(trial)

    def _run(self) -> None:
        pause, written = 0.0, False
        while not self._stopping.wait(pause):
            now, ends_at = self._clock(), self._ends_at
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
