"""The world of a live study over a server that is made up: what ends a wait, and what a switch leaves behind."""

from __future__ import annotations

from datetime import datetime

import pytest

from pgdyno.errors import ApplyError, EnvironmentUnsuitable
from pgdyno.model.configuration import BASELINE
from pgdyno.model.guard import GuardKind
from pgdyno.stats.body_index import PeriodCounts
from pgdyno.stats.statement_deltas import VoidCause
from pgdyno.studies.live.quiet import QuietTimes
from pgdyno.studies.live.world import BASELINE_ARM, A, B, LiveStopped, StopAsked
from pgdyno.trial.sentry import GuardBreached
from simulated_live_server import RATE, Server
from simulated_live_world import breached


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
        assert [indicator for indicator in server.world.guards.indicators if words in indicator.text]


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
