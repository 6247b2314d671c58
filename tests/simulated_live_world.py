"""A made-up world of a live study: arms are applied to a simulated load, and what happens is told beforehand."""

from __future__ import annotations

from live_simulation import LiveSimulation, SimulatedLoad
from pgdyno.model.guard import Breach, GuardKind, GuardReading
from pgdyno.model.results.live import LiveReference, LiveResult
from pgdyno.studies.live.world import BASELINE_ARM, B
from pgdyno.trial.sentry import GuardBreached

WATCHED = LiveResult(
    study="s", title="watched", word="resolvable", periods=(), period_s=30.0, body=(), beside=(), confidence=0.95,
    reference=LiveReference(
        seconds=600, steps=120, statements=200, entries=200, calls_a_second=1.0, commits_a_second=1.0,
        statement_ms_a_second=1.0, own_share=0.0, new_share=0.0, visible=None, sessions=1.0, active_median=1.0,
        active_most=2, old_share=0.0, oldest_s=0.1,
    ),
)  # fmt: skip
"""What the reference of such a world came to."""


def breached(kind=GuardKind.CONFIGURATION):
    return GuardBreached(Breach("temp", kind, 1.0, 1.0, GuardReading("temp", 1.0, 9.0), 1.0, "too much"))


class World:
    """Applies arms to a simulated load; `happens` maps the number of a call to what comes of it instead."""

    def __init__(self, factors=1.0, *, seed=1, pairs=99, happens=None, crossed=()):
        self.simulation = LiveSimulation(SimulatedLoad(), seed)
        self.reference = self.simulation.reference(60, 10.0)
        self.factors, self.room, self.happens, self.crossed = factors, pairs, happens or {}, crossed
        self.arm, self.applied, self.rests, self.counted, self.back = BASELINE_ARM, [], [], 0, 0
        self.washes = 0

    def apply(self, arm):
        self.applied.append(arm)
        self._perhaps(("apply", len(self.applied)))
        self.arm = arm

    def wash(self, least_s, most_s):
        self.washes += 1
        return self.washes not in self.crossed

    def count(self, seconds):
        self.counted += 1
        found = self.simulation.period(seconds, self.factors if self.arm == B else 1.0)
        other = self._perhaps(("count", self.counted))
        return found if other is None else other(found) if callable(other) else other

    def has_room(self, seconds):
        self.room -= 1
        return self.room >= 0

    def rest(self, seconds):
        assert self.arm == BASELINE_ARM
        self.rests.append(seconds)

    def put_back(self):
        self.back += 1

    def _perhaps(self, key):
        what = self.happens.get(key)
        if isinstance(what, BaseException):
            raise what
        return what
