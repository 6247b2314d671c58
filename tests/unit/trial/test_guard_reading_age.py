"""How old a reading of the guards or of a load may be, and how long one is kept, on a clock of the test."""

from __future__ import annotations

import pytest

from guard_ticks import Readings, a_tick
from pgdyno.model.guard import Indicator
from pgdyno.model.guard_table import GUARDS
from pgdyno.model.live import Colour
from pgdyno.probes.guards.reader import BY_SQL_ALONE, GuardedLoad
from pgdyno.trial.guard_settings import guard_plan
from pgdyno.trial.guards import OFF_BY_USER
from pgdyno.trial.sentry import GuardBreached, Sentry, off_text, status_now
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


@pytest.mark.parametrize(("word", "left_s"), [("readings=0s", 0.5), ("readings=7s", 7.5)])
def test_readings_are_waited_for_as_long_as_the_user_says(word: str, left_s: float) -> None:
    assert on_clock((word,))[0].patience_left_s == left_s


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


def test_a_line_says_which_guards_watch_and_why_others_do_not() -> None:
    indicators = [
        Indicator("memory", Colour.GREEN, "fine"), Indicator("disk", Colour.AMBER, "near"),
        Indicator("oom", Colour.RED, "1"), Indicator("slots", Colour.OFF, "there is no replication slot"),
        Indicator("temp", Colour.OFF, OFF_BY_USER), Indicator("swap-in", Colour.OFF, BY_SQL_ALONE),
    ]  # fmt: skip
    assert off_text(indicators) == (
        f"guards: 3 watch; nothing to watch yet for slots; NOT WATCHED: swap-in ({BY_SQL_ALONE}); "
        "SWITCHED OFF by --guard: temp"
    )
    assert off_text(indicators[:2]) == "guards: 2 watch"


def test_how_guards_stand_is_read_twice_a_second_apart() -> None:
    now, waits, read = [100.0], [], []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds

    readings = Readings(lambda t: read.append(t) or a_tick(t))
    statuses = status_now(readings, guard_plan(["errors=off"]), clock=lambda: now[0], sleep=sleep)
    assert (waits, read, readings.is_open) == ([1.0], [100.0, 101.0], False)
    assert list(statuses) == list(GUARDS)
    assert statuses["disk"].reading.t == 101.0
    assert statuses["errors"].indicator.text == OFF_BY_USER
