"""The world of a live study over a server that is made up: what ends a wait, and what a switch leaves behind."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import datetime
from types import SimpleNamespace

import numpy as np
import pytest

from pgdyno.errors import ApplyError, ConnectError, EnvironmentUnsuitable
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.guard import GuardKind, GuardPlan
from pgdyno.probes.statements import DatabaseTotals, Housework, SessionCounts
from pgdyno.stats.body_index import PeriodCounts, StatementBody
from pgdyno.stats.statement_deltas import StatementSnapshot, VoidCause
from pgdyno.studies.live.course.moments import LiveCourse
from pgdyno.studies.live.quiet import QuietTimes
from pgdyno.studies.live.server_world import ServerWorld
from pgdyno.studies.live.windows import RestartCount
from pgdyno.studies.live.world import BASELINE_ARM, A, B, LiveStopped, StopAsked, StopFile
from pgdyno.studies.night.window import Occurrence
from pgdyno.trial.live_guards import LiveGuards, LiveLoad
from pgdyno.trial.sentry import GuardBreached
from simulated_live_world import breached

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
            guards=LiveGuards(LiveLoad(BODY, RATE, 3.0, 4.0, 2), GuardPlan()),
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
    lamps = ()

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

    def guards(self, lamps):
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


@pytest.fixture
def server(tmp_path):
    return Server(tmp_path)


@pytest.mark.requirement("R-TUN-23")
def test_a_period_counts_what_ended_in_it_and_nothing_else(server):
    server.world.apply(B)
    assert server.world.wash(5.0, 10.0)
    assert server.now >= 1005.3
    found = server.world.count(25.0)
    assert isinstance(found, PeriodCounts)
    assert found.calls[0] == pytest.approx(25 * RATE, rel=0.02)
    first, second = found.halves
    assert first.calls[0] == pytest.approx(second.calls[0], rel=0.05)
    assert first.time_ms[0] + second.time_ms[0] == pytest.approx(found.time_ms[0])
    server.world.put_back()
    assert server.back == 1


@pytest.mark.requirement("R-TUN-23")
def test_a_burst_right_after_the_switch_is_in_no_figure(server):
    server.world.apply(B)
    begun = server.now

    def sleep(seconds):
        server.share = 40.0 if server.now < begun + 4.0 else 1.0
        server.sleep(seconds)

    server.world.sleep = sleep
    assert server.world.wash(5.0, 10.0)
    assert server.calls > 4 * 40 * RATE, "there was one"
    assert server.world.count(25.0).calls[0] == pytest.approx(25 * RATE, rel=0.02)


def test_a_kept_session_whose_baseline_somebody_else_has_changed_ends_and_no_arm_comes_after_it(server):
    def refuse(configuration, *, restart):
        raise ApplyError("not in force: jit was on, is off; somebody else changed that")

    server.world.keeps_session = True
    server.world.apply(B)
    server.apply = refuse
    server.world.put_back()
    assert server.back == 1
    with pytest.raises(LiveStopped, match="somebody else changed that"):
        server.world.apply(A)
    server.world.put_back()
    assert server.back == 1


def test_what_began_before_the_switch_is_waited_for_but_not_for_ever(server):
    server.world.apply(B)
    server.crossings = 8
    assert server.world.wash(5.0, 10.0)
    server.crossings = 10_000
    assert not server.world.wash(5.0, 10.0)


def test_a_clock_that_was_set_and_a_server_that_was_away_too_long_void_a_period(server):
    server.world.apply(A)
    real = server.sleep

    def jump(seconds):
        real(seconds)
        server.jump = 60.0

    server.world.sleep = jump
    assert server.world.count(25.0) is VoidCause.LATE
    server.world.sleep, server.away = real, 5
    assert isinstance(server.world.count(25.0), PeriodCounts), "before it begins a period waits"
    server.away = 10_000
    with pytest.raises(EnvironmentUnsuitable, match="could not be read"):
        server.world.count(25.0)


@pytest.mark.requirement("R-TUN-11")
def test_a_change_that_cripples_the_load_ends_the_period_within_ten_seconds_of_its_start(server):
    server.factor = {server.world.arms[B]: 9.0}
    server.world.apply(B)
    began = server.now
    assert server.world.wash(5.0, 10.0)
    with pytest.raises(GuardBreached, match="statement-time"):
        server.world.count(25.0)
    assert server.now - began < 9.0
    server.world.apply(BASELINE_ARM)
    assert server.applied[-1] == BASELINE
    assert server.watching == 0


def test_sessions_that_pile_up_end_it(server):
    server.world.apply(B)
    server.active = 50
    with pytest.raises(GuardBreached, match="backlog"):
        server.world.count(25.0)


def test_a_guard_of_the_sentry_does_not_keep_the_baseline_from_coming_back(server):
    server.world.apply(B)
    server.breach = breached()
    with pytest.raises(GuardBreached):
        server.world.count(25.0)
    with pytest.raises(GuardBreached):
        server.world.apply(A)
    server.world.apply(BASELINE_ARM)
    assert server.applied == [server.world.arms[B], BASELINE]
    with pytest.raises(GuardBreached):
        server.world.rest(600.0)  # it goes on in the baseline


@pytest.mark.requirement("R-TUN-11")
def test_a_breach_of_the_sentry_is_seen_in_a_twentieth_of_a_second(server):
    """Its thread finds it while we wait: of the second that the way back has, the waits take next to nothing."""
    server.world.apply(B)
    real, tripped = server.sleep, []

    def sleep(seconds):
        if not tripped and server.now > 1010.0:
            server.breach = breached()
            tripped.append(server.now)
        real(seconds)

    server.world.sleep = sleep
    with pytest.raises(GuardBreached):
        server.world.count(25.0)
    assert server.now - tripped[0] <= 0.051


def test_the_stop_file_ends_a_wait_and_a_rest(server):
    server.world.apply(B)
    server.world.stop.path.touch()
    for wait in (lambda: server.world.count(25.0), lambda: server.world.rest(600.0), lambda: server.world.apply(A)):
        with pytest.raises(StopAsked, match="stop"):
            wait()


def test_a_reload_of_somebody_else_is_looked_into_in_mid_period(server):
    server.world.apply(B)
    real, looked = server.sleep, server.looked

    def reload(seconds):
        real(seconds)
        if server.now > 1010:
            server.loaded_at, server.others_say = 2.0, LiveStopped("somebody")

    server.world.sleep = reload
    with pytest.raises(LiveStopped, match="somebody"):
        server.world.count(25.0)
    assert server.now < 1013
    assert server.looked > looked


def test_a_load_that_went_home_leaves_nothing_to_measure_and_b_alone_does_not_say_so(server):
    server.share = 0.2
    server.world.apply(B)
    server.world.count(25.0)
    assert server.world.has_room(60.0)
    server.world.apply(A)
    server.world.count(25.0)
    with pytest.raises(LiveStopped, match="20 % of the calls"):
        server.world.has_room(60.0)


@pytest.mark.requirement("R-SAF-12")
def test_what_does_not_fit_into_the_time_is_not_begun(server):
    assert server.world.has_room(1000.0)
    assert not server.world.has_room(1001.0)


@pytest.mark.requirement("R-SAF-12")
def test_a_pause_is_waited_for_in_the_baseline_and_is_not_of_the_study_s_time(server, tmp_path):
    pause, said = tmp_path / "pause", []
    server.world.quiet, server.world.announce = QuietTimes.of([], pause), said.append
    server.world.apply(B)
    pause.touch()
    real = server.sleep

    def sleep(seconds):
        assert server.arm == BASELINE
        assert server.watching == 0
        real(seconds)
        if server.now > 1900.0:
            pause.unlink(missing_ok=True)

    server.world.sleep = sleep
    assert server.world.has_room(990.0)
    assert server.now > 1900.0
    assert said[0].startswith("the server waits in its baseline: the pause file")
    pause.touch()
    server.world.stop.path.touch()
    with pytest.raises(StopAsked):
        server.world.has_room(60.0)


def test_a_pair_that_would_reach_into_a_quiet_time_waits_for_its_end(server):
    server.world.quiet = QuietTimes.of(["18:00-18:10"])
    begin = datetime(2026, 3, 10, 17, 59).timestamp()
    server.world.wall = lambda: begin + server.now - 1000.0
    assert server.world.has_room(60.0)
    assert server.now == pytest.approx(1000.0 + 660.0, abs=2.0)
    assert server.applied == [], "it was in its baseline"


@pytest.mark.requirement("R-TUN-11")
def test_a_statement_of_b_that_does_not_end_is_told_under_a_too_and_forgotten_in_the_baseline(server):
    server.world.apply(A)
    server.started = [server.now]  # A's own
    server.world.apply(B)
    server.started.append(server.now)
    assert isinstance(server.world.count(30.0), PeriodCounts)
    server.world.apply(A)
    with pytest.raises(GuardBreached, match="oldest-statement") as told:
        server.world.count(60.0)
    assert "a statement of B has run for" in str(told.value)
    assert 60.0 < server.now - server.started[1] < 61.0
    server.world.apply(BASELINE_ARM)
    server.world.rest(600.0)


def test_sessions_that_wait_for_locks_end_an_arm_for_no_fault_of_it(server):
    server.world.apply(B)
    server.blocked = 5
    assert isinstance(server.world.count(25.0), PeriodCounts)
    server.blocked = 6
    with pytest.raises(GuardBreached, match="lock-waits") as told:
        server.world.count(25.0)
    assert told.value.breach.kind is GuardKind.ENVIRONMENT


def test_what_goes_on_is_told_with_its_moments(server):
    server.world.apply(A)
    server.vacuums = 1
    server.world.count(10.0)
    server.checkpoints, server.vacuums = 8, 0
    server.world.apply(B)
    server.world.count(10.0)
    server.breach = breached()
    with pytest.raises(GuardBreached):
        server.world.count(10.0)
    server.breach = None
    server.world.apply(BASELINE_ARM)
    server.world.rest(60.0)
    server.world.put_back()
    seen = [(one.lane, round(one.seconds)) for one in server.world.course.moments]
    assert [lane for lane, _ in seen] == ["A", "vacuum", "B", "checkpoint", "guard", "baseline", "rest"]
    assert dict(seen)["rest"] == 60
    assert dict(seen)["A"] >= 10
    assert dict(seen)["checkpoint"] == 0, "it was seen to begin, and nothing more"


def test_a_lone_session_waits_and_several_wait(server):
    for blocked, words in ((1, "1 session waits for locks"), (2, "2 sessions wait for locks")):
        server.world.guards.sessions(server.now, 3, blocked)
        assert [lamp for lamp in server.world.guards.lamps if words in lamp.text]


def test_a_restart_in_the_wash_out_voids_the_period_that_follows(server):
    """Its cache is empty, and the wash-out was for the switch."""
    server.world.apply(B)
    server.started_at += 3.0
    server.world.wash(5.0, 10.0)
    assert server.world.count(10.0) is VoidCause.RESTARTED
    server.world.apply(A)
    server.world.wash(5.0, 10.0)
    assert isinstance(server.world.count(10.0), PeriodCounts)


@pytest.mark.parametrize("when", ["before a switch", "after it", "at a period's end"])
def test_a_colleague_s_restart_as_settings_are_looked_at_is_waited_for(server, when):
    """No session is to be had for as long as it takes, and that is no reason to end the study with an error."""
    looks, require_none = {"before a switch": 1, "after it": 2, "at a period's end": 3}[when], server.require_none

    def restarted():
        if server.looked + 1 == looks:
            server.away = 3
        return require_none()

    server.require_none, server.loaded_at = restarted, 1.0
    server.world.apply(B)
    server.world.wash(5.0, 10.0)
    server.world.count(10.0)
    assert server.away == 0
    assert server.looked >= 4, "looked at again when the server is back"
    server.others_say = LiveStopped("somebody else has changed work_mem")
    with pytest.raises(LiveStopped, match="work_mem"):
        server.world.apply(A)


def test_a_switch_that_restarts_is_counted_and_the_last_restart_is_for_the_way_back(server):
    """B needs one, and the way back; what cannot have both is not begun."""
    outages = iter([4.0, 5.0])

    def apply(configuration):
        assert server.watching == 0, "a restart ends the sessions that watch"
        server.arm = configuration
        return SimpleNamespace(restarted=True, outage_s=next(outages))

    server.apply = apply
    server.rollback = lambda: SimpleNamespace(restarted=False)
    kept = []
    server.world.restarts = count = RestartCount(3, keep=lambda made: kept.append(made.made))
    server.world.apply(B)
    assert kept == [2, 2], "from before it is begun on, with the way back that a watchdog makes after a kill"
    server.world.apply(A)
    assert kept[2:] == [2, 2]
    with pytest.raises(LiveStopped, match=r"3 restarts were announced, and the last is for the way back"):
        server.world.apply(B)
    server.world.put_back()
    assert (count.made, count.outages) == (2, (4.0, 5.0))


def test_a_cold_cache_is_no_breach_before_the_count_begins(server):
    server.apply = lambda configuration: SimpleNamespace(restarted=True, outage_s=1.0)
    server.world.restarts = RestartCount(4)
    server.factor = {BASELINE: 6.0}
    server.world.apply(B)
    assert server.world.wash(10.0, 10.0)
    with pytest.raises(GuardBreached, match="statement-time"):
        server.world.count(60.0)


class Doors:
    """A window of the day, as `night.window.NightWindow`, that closes when told."""

    def __init__(self, server):
        self.server, self.closes, self.opens = server, 1e9, 2e9

    def now(self, at):
        is_open = at < self.closes or at >= self.opens
        return Occurrence(0.0, self.closes if at < self.closes else 3e9) if is_open else None

    def following(self, at):
        return Occurrence(self.opens, 3e9)

    def clock_text(self, at):
        return f"{at:.0f}"


@pytest.fixture
def windowed(server):
    """A server that is restarted by each switch to B and back, in a window."""

    def apply(configuration):
        assert server.watching == 0, "a restart ends the sessions that watch"
        restarted, server.arm = configuration != server.arm, configuration
        server.applied += [server.now] if restarted else []
        return SimpleNamespace(restarted=restarted, outage_s=2.5 if restarted else None)

    server.apply = apply
    server.rollback = lambda: SimpleNamespace(restarted=False)
    server.doors = Doors(server)
    server.world.quiet, server.world.wall = QuietTimes(only=(server.doors,), switch_s=5.0), lambda: server.now
    server.world.restarts = RestartCount(8)
    return server


@pytest.mark.parametrize("after_s", [3.0, 20.0, 59.0])
def test_a_window_that_closes_in_mid_period_costs_the_pair_and_leaves_the_server_as_found(windowed, after_s):
    """At least the time of the way back is left of it; the next window goes on, and nothing is restarted between."""
    world, doors = windowed.world, windowed.doors
    assert world.has_room(140.0)
    world.apply(B)
    doors.closes, doors.opens = windowed.now + after_s + 5.0, windowed.now + 4000.0
    assert world.wash(10.0, 10.0)
    assert world.count(60.0 - 10.0) is VoidCause.CLOSED
    assert windowed.now <= doors.closes - 4.5
    world.ends_at = 1e6
    assert world.has_room(140.0)
    assert windowed.arm == BASELINE
    assert windowed.applied[-1] <= doors.closes - 4.5
    assert windowed.now >= doors.opens
    world.apply(B)
    assert world.wash(10.0, 10.0)
    assert not isinstance(world.count(50.0), VoidCause)


@pytest.mark.parametrize(("is_refused", "made"), [(True, 0), (False, 2)])
def test_a_b_that_does_not_come_up_is_two_restarts_and_one_that_is_refused_before_is_none(windowed, is_refused, made):
    kept = []
    windowed.world.restarts = count = RestartCount(8, keep=lambda one: kept.append(one.made))

    def apply(configuration):
        assert kept == [2], "on disk before it is tried"
        windowed.started_at += 0.0 if is_refused else 60.0
        raise ApplyError("it did not come up")

    windowed.apply = apply
    with pytest.raises(ApplyError):
        windowed.world.apply(B)
    assert (count.made, kept[-1]) == (made, made)


def test_the_way_back_is_given_twice_the_longest_restart_that_was_measured(windowed):
    """The estimate before the first one is of the rate of spread checkpoints, and often far too long; or too short."""
    world, took = windowed.world, iter([1.0, 9.0])
    world.quiet = QuietTimes(only=(windowed.doors,), switch_s=400.0)
    windowed.apply = lambda configuration: SimpleNamespace(restarted=True, outage_s=next(took))
    world.apply(B)
    assert world.quiet.switch_s == 2.0
    world.apply(A)
    assert world.quiet.switch_s == 18.0


def test_nothing_is_restarted_any_more_where_the_window_closes_between_two_arms(windowed):
    world, doors = windowed.world, windowed.doors
    world.apply(A)
    doors.closes, doors.opens = windowed.now + 4.0, windowed.now + 4000.0
    world.apply(B)
    assert windowed.applied == []
    began = windowed.now
    assert world.wash(10.0, 10.0)
    assert world.count(50.0) is VoidCause.CLOSED
    assert windowed.now == began
    assert world.restarts.made == 0


def test_a_study_of_reloads_knows_no_window(windowed):
    windowed.world.restarts = None
    windowed.doors.closes = 0.0
    windowed.apply = lambda configuration, restart: windowed.applied.append(configuration)
    windowed.world.apply(B)
    assert windowed.world.wash(10.0, 10.0)
    assert not isinstance(windowed.world.count(50.0), VoidCause)
