"""The wall clock of a budget: what is kept for the way back, what trials take, and the alarm at the end."""

from __future__ import annotations

import signal
import time
from types import SimpleNamespace

import pytest

from pgdyno.linux import processes
from pgdyno.model.trial import ENDED_EARLY, EXTENDED, OUTAGE, Outcome, TrialState
from pgdyno.trial import stopwatch
from pgdyno.trial.stopwatch import (
    CLOSING_S,
    FIRST_RESTART_S,
    KEPT_CLOSING,
    KEPT_RESTART,
    WALL,
    Alarm,
    BudgetSpent,
    Stopwatch,
    process_began,
)


class Ticks:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def outcome(seconds: float, **counters: float) -> Outcome:
    return Outcome(TrialState.COMPLETE, elapsed_s=seconds, counters=counters)


def watch_of(budget_s: float, *, began: float = 0.0) -> tuple[Stopwatch, Ticks]:
    clock = Ticks()
    return Stopwatch(budget_s, began=began, clock=clock), clock


def test_two_restarts_of_five_seconds_and_six_are_kept_for_the_way_back() -> None:
    watch, clock = watch_of(100.0)
    assert (CLOSING_S, FIRST_RESTART_S) == (6.0, 5.0)
    assert watch.end_s == 84.0
    clock.now = 80.0
    assert (watch.now_s(), watch.left_s()) == (80.0, 4.0)
    clock.now = 90.0
    assert watch.left_s() == -6.0
    assert watch_of(10.0)[0].end_s == 0.0


def test_a_process_that_started_slowly_ends_as_slowly_but_takes_a_quarter_of_the_budget_at_most() -> None:
    assert watch_of(100.0, began=-10.0)[0].closing_s == 16.0
    assert watch_of(20.0, began=-10.0)[0].closing_s == 11.0


def test_a_trial_keeps_where_the_clock_stood_and_what_is_kept() -> None:
    watch, clock = watch_of(100.0, began=-10.0)
    watch.expect_restart(7.0)
    clock.now = 20.0
    assert watch.counters() == {WALL: 30.0, KEPT_CLOSING: 16.0, KEPT_RESTART: 7.0}
    watch.expect_restart(6.0)
    assert watch.restart_s == 7.0


def test_a_recorded_trial_stands_where_it_stood_and_the_clock_goes_on_from_there() -> None:
    watch, clock = watch_of(100.0, began=-3.0)
    watch.mark(outcome(5.0, **{WALL: 40.0, KEPT_CLOSING: 8.0, KEPT_RESTART: 9.0}), recorded=True)
    assert (watch.closing_s, watch.restart_s, watch.end_s) == (8.0, 9.0, 74.0)
    assert (watch.start_s, watch.position_s, watch.trial_s) == (35.0, 40.0, 5.0)
    clock.now = 2.0
    assert watch.now_s() == 45.0, "what this process took comes on top"
    watch.mark(outcome(7.0), recorded=True)
    assert watch.position_s == 47.0, "one that kept nothing took its own time"


def test_the_mean_is_of_whole_trials_and_the_longest_of_all_without_extensions() -> None:
    watch, _ = watch_of(200.0)
    for end, more in ((10.0, {}), (40.0, {EXTENDED: 12.0}), (45.0, {ENDED_EARLY: 1.0}), (65.0, {ENDED_EARLY: 1.0})):
        watch.mark(outcome(10.0, **{WALL: end, **more}), recorded=False)
    assert (watch.trials, watch.trial_s, watch.longest_s) == (4, 20.0, 20.0)
    assert watch_of(10.0)[0].trial_s == 0.0


def test_the_longest_outage_is_what_a_restart_takes_from_then_on() -> None:
    watch, _ = watch_of(100.0)
    for end, outage, longest in ((5.0, 2.0, 2.0), (9.0, 4.0, 4.0), (12.0, 3.0, 4.0)):
        watch.mark(outcome(3.0, **{WALL: end, OUTAGE: outage}), recorded=False)
        assert watch.restart_s == longest
    watch.expect_restart(50.0)
    assert watch.restart_s == 4.0


def test_a_share_is_of_the_time_between_the_first_trial_and_the_end() -> None:
    watch, clock = watch_of(100.0)
    clock.now = 14.0
    watch.mark(outcome(10.0, **{WALL: 14.0}), recorded=False)
    assert watch.start_s == 4.0
    assert [watch.share_s(share) for share in (0.0, 0.25, 1.0)] == [4.0, 24.0, 84.0]
    late, clock = watch_of(16.0)
    clock.now = 14.0
    late.mark(outcome(10.0), recorded=False)
    assert [late.share_s(share) for share in (0.0, 1.0)] == [4.0, 4.0], "there was no time for any"


def test_before_a_trial_there_is_room_while_the_end_is_not_reached() -> None:
    assert watch_of(20.0)[0].has_room(99)
    assert not watch_of(16.0)[0].has_room(1)
    assert watch_of(16.0)[0].shortage(2) == "2 trials cannot be begun, and 0.0 s of the 16 s are left"


def test_room_for_exactly_what_trials_take_is_room() -> None:
    """One more takes as long as the longest, and each before it as long as they take on average."""
    watch, _ = watch_of(100.0)
    for end in (10.0, 30.0):
        watch.mark(outcome(10.0, **{WALL: end}), recorded=False)
    assert (watch.trial_s, watch.longest_s) == (15.0, 20.0)
    assert watch.has_room(1, until_s=50.0)
    assert not watch.has_room(1, until_s=49.9)
    assert watch.has_room(3, until_s=80.0)
    assert not watch.has_room(3, until_s=79.9)


def test_room_is_what_trials_took_here_and_restarts_are_kept_for_the_way_back() -> None:
    clock = Ticks()
    watch = Stopwatch(100.0, began=0.0, clock=clock)
    clock.now = 10.0
    watch.expect_restart(20.0)
    assert watch.end_s == 100 - 40 - CLOSING_S
    for at in (15.0, 20.0, 27.0):
        clock.now = at
        watch.mark(outcome(5.0, **{OUTAGE: 2.0, WALL: at}), recorded=False)
    assert (watch.start_s, watch.trials, watch.longest_s) == (10.0, 3, 7.0)
    assert watch.end_s == 100 - 4 - CLOSING_S
    assert watch.has_room(10)
    assert not watch.has_room(11)
    assert not watch.has_room(1, until_s=30.0)


def test_a_shortage_is_told_by_the_figures_that_it_was_decided_by() -> None:
    clock = Ticks()
    watch = Stopwatch(95.0, began=0.0, clock=clock)
    for seconds in (8.0, 8.0, 20.0):
        clock.now += seconds
        watch.mark(outcome(seconds), recorded=False)
    assert watch.has_room(3) is False
    assert watch.shortage(3) == "3 trials take 44 s, and 43 s of the 1:35 min are left"


def test_the_alarm_ends_what_waits_and_rings_no_more_on_the_way_back() -> None:
    watch = Stopwatch(CLOSING_S + 2 * FIRST_RESTART_S + 0.2, began=time.monotonic())
    alarm, before = Alarm(watch), signal.getsignal(signal.SIGALRM)
    with pytest.raises(BudgetSpent), alarm.ringing():
        time.sleep(60)
    with alarm.ringing():
        alarm.stop()
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before


def test_the_process_began_before_now() -> None:
    assert time.monotonic() - 60 <= process_began() <= time.monotonic()


@pytest.mark.parametrize(("age_s", "began"), [(-0.25, 50.0), (0.0, 50.0), (2.5, 47.5), (60.0, -10.0), (60.25, 50.0)])
def test_an_age_that_is_strange_is_none(monkeypatch: pytest.MonkeyPatch, age_s: float, began: float) -> None:
    """Of a process that a resumed container or a clock of another host tells of."""
    started = (1000.0 - age_s) * processes.TICKS_PER_S
    monkeypatch.setattr(processes, "read_stat", lambda _: SimpleNamespace(started_ticks=started))
    clocks = SimpleNamespace(clock_gettime=lambda _: 1000.0, CLOCK_BOOTTIME=7, monotonic=lambda: 50.0)
    monkeypatch.setattr(stopwatch, "time", clocks)
    assert process_began() == began
    monkeypatch.setattr(processes, "read_stat", lambda _: None)
    assert process_began() == 50.0


def test_an_alarm_that_rings_too_early_is_set_again() -> None:
    """Restarts were shorter than was taken before, so there is more time than when it was set."""
    watch = Stopwatch(CLOSING_S + 2 * FIRST_RESTART_S + 0.1, began=time.monotonic())

    def wait() -> None:
        watch.restart_s -= 0.05
        time.sleep(60)

    with pytest.raises(BudgetSpent), Alarm(watch).ringing():
        wait()
    assert watch.left_s() <= 0


@pytest.mark.parametrize(("age_s", "told_s"), [(50.0, 50.0), (61.0, 0.0), (-1.0, 0.0)])
def test_an_age_that_cannot_be_is_none(age_s: float, told_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = (time.clock_gettime(time.CLOCK_BOOTTIME) - age_s) * processes.TICKS_PER_S
    monkeypatch.setattr(processes, "read_stat", lambda pid: SimpleNamespace(started_ticks=ticks))
    assert time.monotonic() - process_began() == pytest.approx(told_s, abs=9)  # a machine may stand still
    monkeypatch.setattr(processes, "read_stat", lambda pid: None)
    assert time.monotonic() - process_began() == pytest.approx(0, abs=9)


def test_a_trial_and_an_outage_below_a_second_are_as_short_as_they_were() -> None:
    watch, _ = watch_of(100.0)
    watch.mark(outcome(0.5, **{WALL: 0.5, OUTAGE: 0.25}), recorded=False)
    assert (watch.longest_s, watch.restart_s) == (0.5, 0.25)


def test_an_alarm_at_the_very_end_of_the_time_ends_it_and_one_beyond_it_rings_at_once(monkeypatch) -> None:
    """A timer of 0 is one that never rings."""
    left, wound = [60.0, 0.0, -5.0], []
    alarm = Alarm(SimpleNamespace(left_s=lambda: left.pop(0), budget_s=90.0))  # type: ignore[arg-type]  # what it asks
    with pytest.raises(BudgetSpent, match=r"the time budget of 1:30 min was over"), alarm.ringing():
        signal.raise_signal(signal.SIGALRM)
    monkeypatch.setattr(stopwatch.signal, "setitimer", lambda timer, seconds: wound.append((timer, seconds)))
    alarm.wind()
    ((timer, seconds),) = wound
    assert timer == signal.ITIMER_REAL
    assert 0 < seconds < 0.1
