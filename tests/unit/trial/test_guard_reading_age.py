"""How old a reading of the guards or of a load may be, and how long one is kept, on a clock of the test."""

from __future__ import annotations

import pytest

from guard_ticks import Readings
from pgdyno.probes.guards.reader import GuardedLoad
from pgdyno.trial.guard_settings import guard_plan
from pgdyno.trial.sentry import GuardBreached, Sentry
from pgdyno.workloads.protocol import LoadReading


def on_clock(words: tuple[str, ...] = ()) -> tuple[Sentry, list[float]]:
    """Return a sentry without a thread, whose last tick was at 100 s, and its clock."""
    now = [100.0]
    sentry = Sentry(Readings(), guard_plan(words), clock=lambda: now[0])
    sentry._ticked = sentry._checked = 100.0
    return sentry, now


def test_readings_may_be_a_tick_and_two_seconds_old_and_no_older() -> None:
    sentry, now = on_clock()
    for now[0] in (101.0, 102.0, 102.5):
        sentry.check()
    assert sentry.patience_left_s == 0.0
    now[0] = 102.75
    with pytest.raises(GuardBreached) as raised:
        sentry.check()
    breach = raised.value.breach
    assert (breach.name, breach.at, breach.began_at) == ("readings", 102.75, 100.0)


def test_who_slept_for_more_than_a_second_gives_the_readings_their_time_again() -> None:
    for asleep_s, left_s in ((1.0, 1.5), (1.25, 2.5)):
        sentry, now = on_clock()
        now[0] += asleep_s
        sentry.check()
        assert sentry.patience_left_s == left_s


@pytest.mark.parametrize(("age_s", "tps"), [(0.0, 50.0), (3.0, 50.0), (3.25, 0.0)])
def test_a_load_that_reports_nothing_for_three_seconds_does_nothing(age_s: float, tps: float) -> None:
    sentry, now = on_clock()
    assert sentry._load_state() is None
    sentry.load_reads(LoadReading(99.0, 1.0, 1.0, None, 1, 1))
    assert sentry._load_state() is None, "it has not begun"
    sentry.load_begins("db", is_captured=True)
    assert sentry._load_state() == GuardedLoad(100.0, None, None, 0, 0, True)
    now[0] = 110.0
    sentry.load_reads(LoadReading(110.0 - age_s, 50.0, 2.0, 4.0, 500, 3, captured_deadlocks=2))
    assert sentry._load_state() == GuardedLoad(100.0, tps, 4.0, 500, 3, True, 2)
    sentry.load_ended()
    assert sentry._load_state() is None


@pytest.mark.parametrize(
    ("words", "keep_s"),
    [((), 15.0), (("replication-lag=60s",), 65.0), (("replication-lag=1s",), 10.0), (("replication-lag=off",), 15.0)],
)
def test_readings_are_kept_for_as_long_as_a_standby_may_lag(words: tuple[str, ...], keep_s: float) -> None:
    assert on_clock(words)[0]._keep_s == keep_s
