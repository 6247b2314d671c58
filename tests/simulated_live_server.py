"""A server that is made up, under a load of one statement, and the world of a live study over it."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np

from pgdyno.errors import ConnectError
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.guard import GuardPlan
from pgdyno.probes.statements import DatabaseTotals, Housework, SessionCounts
from pgdyno.stats.body_index import StatementBody
from pgdyno.stats.statement_deltas import StatementSnapshot
from pgdyno.studies.live.course.moments import LiveCourse
from pgdyno.studies.live.server_world import ServerWorld
from pgdyno.studies.live.world import A, B, StopFile
from pgdyno.trial.live_guards import LiveGuards, LiveLoad

BODY = StatementBody(np.array([0]), np.array([1.0]), np.array([2.0]), 1.0)
RATE = 50.0


class Server:
    """A server under a load of one statement, its session, its guards and its clock, all in one."""

    def __init__(self, tmp_path):
        self.now, self.calls, self.spent, self.applied, self.back = 1000.0, 0.0, 0.0, [], 0
        self.factor, self.share, self.active, self.crossings, self.away = {}, 1.0, 1, 0, 0
        self.arm, self.watching, self.loaded_at, self.looked, self.breach, self.jump = BASELINE, 0, 1.0, 0, None, 0.0
        self.others_say, self.started_at = None, 1.0
        self.started, self.blocked = [], 0
        self.checkpoints, self.vacuums = 7, 0
        self.world = ServerWorld(
            session=self, reader=self, sentry=self, others=self, watcher=self, stop=StopFile(tmp_path / "stop"),
            guards=LiveGuards(LiveLoad(BODY, RATE, 3.0, 4.0, 2, 0.0, 0), GuardPlan()),
            arms={A: BASELINE, B: Configuration.of({"work_mem": "64MB"})}, size=1,
            calls_a_second=RATE, dbname="shop", ends_at=2000.0, clock=lambda: self.now, sleep=self.sleep,
            course=LiveCourse(lambda: self.now),
        )  # fmt: skip

    def sleep(self, seconds):
        self.now += seconds
        ended = RATE * self.share * seconds
        self.calls += ended
        self.spent += 2.0 * ended * self.factor.get(self.arm, 1.0)

    # the reader
    def statements(self):
        self._answer()
        return StatementSnapshot(
            at=self.now + self.jump, started_at=self.started_at, ids=np.array([0]), calls=np.array([self.calls]),
            exec_ms=np.array([self.spent]), sd_ms=np.zeros(1), plans=np.zeros(1), plan_ms=np.zeros(1),
            rows=np.zeros(1), blocks=np.zeros(1), since=np.full(1, np.nan), loaded_at=self.loaded_at,
        )  # fmt: skip

    def sessions(self, since, begun):
        self._answer()
        started = tuple(one for one in self.started if one >= begun)
        return SessionCounts(9, self.active, 4, 0.1, self.now, self.blocked, started)

    def databases(self):
        return DatabaseTotals(0.0, 0.0, self.spent, 3.0 * self.calls, 2.0 * self.calls, self.calls)

    def housework(self):
        return Housework(self.checkpoints, self.vacuums)

    def crossing(self, after, before):
        assert before - after == 30.0
        self.crossings -= 1
        return int(self.crossings >= 0)

    def reopen(self):
        pass

    def _answer(self):
        if self.away > 0:
            self.away -= 1
            self.now += 1.0
            raise ConnectError("gone")

    # the session
    def apply(self, configuration, *, restart):
        assert restart == "never"
        assert self.watching <= 1
        self.now += 0.3
        self.arm = configuration
        self.applied.append(configuration)

    def expect(self, doing, within_s=None):
        pass

    def rollback(self):
        assert self.watching == 0
        self.back += 1

    # the sentry and the watcher
    indicators = ()

    @contextmanager
    def watch(self):
        self.watching += 1
        try:
            yield
        finally:
            self.watching -= 1

    @contextmanager
    def interrupting(self):
        yield

    def check(self):
        if self.breach is not None and self.watching:
            raise self.breach

    def load_begins(self, dbname):
        assert dbname == "shop"

    def phase(self, text):
        pass

    def guards(self, indicators):
        pass

    # others
    def require_none(self):
        self.looked += 1
        self._answer()
        if self.others_say is not None:
            raise self.others_say
        return True

    def switched(self):
        return self.require_none()

    def taken_back(self):
        pass
