"""The world of a live study whose arms come by restarts, in windows: what is counted, and what a closed one ends."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from pgdyno.errors import ApplyError, ConnectError
from pgdyno.model.configuration import BASELINE
from pgdyno.stats.statement_deltas import VoidCause
from pgdyno.studies.live.quiet import QuietTimes
from pgdyno.studies.live.windows import RestartCount
from pgdyno.studies.live.world import BASELINE_ARM, A, B, LiveStopped
from pgdyno.studies.night.window import Occurrence
from pgdyno.trial.sentry import GuardBreached, Sentry
from simulated_live_server import Server
from simulated_live_world import breached


@pytest.fixture
def server(tmp_path):
    return Server(tmp_path)


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


class StillReads:
    """What a sentry reads of a made-up server: nothing, for its ticks are told by the test."""

    def read(self, t, load=None):
        raise AssertionError("no tick comes in this test")

    def watch_database(self, name):
        pass

    def close(self):
        pass


class StillSentry(Sentry):
    """The real judge of breaches and of silence, by the clock of the made-up server and without a thread."""

    @contextmanager
    def watch(self):
        self._breach, self._ticked, self._checked = None, self._clock(), self._clock()
        yield


@pytest.fixture
def guarded(windowed):
    windowed.world.sentry = StillSentry(StillReads(), clock=lambda: windowed.now)
    return windowed


def test_a_guard_that_tripped_does_not_end_the_way_back_of_an_arm_that_came_by_a_restart(guarded):
    """Before each restart the server is asked since when it runs: that question is no look at the guards."""
    guarded.world.apply(B)
    guarded.world.sentry._breach = breached().breach
    guarded.world.apply(BASELINE_ARM)
    assert guarded.arm == BASELINE
    assert guarded.world.restarts.made == 2


def test_a_restart_that_fails_slowly_is_told_as_that_and_counted(guarded):
    """Nobody reads guards while a server starts, so that their silence is no breach of B's."""
    guarded.world.restarts = count = RestartCount(8)

    def apply(configuration):
        guarded.now += 60.0
        guarded.started_at += 60.0
        raise ApplyError("it did not come up")

    guarded.apply = apply
    with pytest.raises(ApplyError, match="did not come up"):
        guarded.world.apply(B)
    assert count.made == 2


def test_a_server_that_is_away_before_the_first_arm_is_waited_for_as_long_as_later(guarded):
    back = guarded.now + 30.0

    def answer():
        if guarded.now < back:
            raise ConnectError("connection refused")

    guarded._answer = answer
    guarded.world.apply(B)
    assert guarded.now >= back
    assert guarded.arm != BASELINE


def test_an_arm_that_was_not_brought_is_not_counted_when_the_next_window_opens_at_once(windowed):
    """Windows may touch: one closes before the switch, and the next is open a moment later."""
    world, doors = windowed.world, windowed.doors
    world.apply(A)
    doors.closes = doors.opens = windowed.now + 4.0
    world.apply(B)
    windowed.now += 4.0
    assert world.wash(10.0, 10.0)
    assert world.count(50.0) is VoidCause.CLOSED
    world.apply(B)
    assert world.wash(10.0, 10.0)
    assert not isinstance(world.count(50.0), VoidCause)
