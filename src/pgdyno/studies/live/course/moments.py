"""What goes on while a live study switches its server, as it happens: arms, pauses, checkpoints, vacuum, guards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pgdyno.model.results.live import LiveMoment
from pgdyno.probes.statements import Housework
from pgdyno.studies.live.world import A, B

BASELINE, PAUSE, REST = "baseline", "pause", "rest"
CHECKPOINT, VACUUM, GUARD = "checkpoint", "vacuum", "guard"
ARMS = (BASELINE, A, B)
LANES = (*ARMS, PAUSE, REST, CHECKPOINT, VACUUM, GUARD)
"""In the order in which they are drawn."""
MOST = 4000
"""The newest so many are kept: they are written with every pair."""


@dataclass(slots=True)
class LiveCourse:
    """What happened so far, by `clock` (Unix time); what has not ended lasts until now."""

    clock: Callable[[], float] = time.time
    kept: list[LiveMoment] = field(default_factory=list)
    _open: dict[str, tuple[float, str]] = field(default_factory=dict)
    _checkpoints: int | None = None

    @property
    def moments(self) -> tuple[LiveMoment, ...]:
        """Return all by their begin."""
        now = self.clock()
        going = (
            LiveMoment(lane=lane, at=at, seconds=now - at, words=words) for lane, (at, words) in self._open.items()
        )
        return tuple(sorted((*self.kept, *going), key=lambda one: (one.at, LANES.index(one.lane))))

    def switched(self, arm: str) -> None:
        """Note that an arm is in force, the baseline where it is empty."""
        for other in ARMS:
            self._end(other)
        self._begin(arm or BASELINE)

    def ended(self) -> None:
        """Note that the study does nothing more to the server."""
        for lane in LANES:
            self._end(lane)

    @contextmanager
    def during(self, lane: str, words: str) -> Iterator[None]:
        """Note how long the block takes."""
        self._begin(lane, words)
        try:
            yield
        finally:
            self._end(lane)

    def happened(self, lane: str, words: str = "") -> None:
        """Note something that has no length."""
        self._keep(LiveMoment(lane=lane, at=self.clock(), seconds=0.0, words=words))

    def saw(self, found: Housework) -> None:
        """Note the checkpoints that began since the last look, and whether tables are being vacuumed."""
        if self._checkpoints is not None and found.checkpoints > self._checkpoints:
            self.happened(CHECKPOINT, "began")
        self._checkpoints = found.checkpoints
        if found.vacuums == 0:
            self._end(VACUUM)
        elif VACUUM not in self._open:
            self._begin(VACUUM)

    def _begin(self, lane: str, words: str = "") -> None:
        self._open[lane] = (self.clock(), words)

    def _end(self, lane: str) -> None:
        if lane in self._open:
            at, words = self._open.pop(lane)
            self._keep(LiveMoment(lane=lane, at=at, seconds=self.clock() - at, words=words))

    def _keep(self, moment: LiveMoment) -> None:
        self.kept.append(moment)
        del self.kept[:-MOST]
