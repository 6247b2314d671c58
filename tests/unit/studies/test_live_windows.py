"""Restarts in maintenance windows: which pairs fit where, what is announced, and that it is never exceeded."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.studies.live.quiet import QuietTimes
from pgdyno.studies.live.windows import Booking, RestartCount, b_order, book, pair_s, plan_of, restarts_of
from pgdyno.studies.night.window import NightWindow, Occurrence

UTC = "Etc/UTC"
NIGHT = NightWindow.parse("01:00-05:00", UTC)
NOON = NightWindow.parse("12:00-13:30", UTC)


def at(hour: float, day: int = 10) -> float:
    return datetime(2026, 3, day, tzinfo=ZoneInfo(UTC)).timestamp() + 3600 * hour


def booked(*windows: NightWindow, pairs: int = 4, begin: float = 20.0, first_s: float = 1800.0):
    return book(windows, at(begin), pairs, period_s=1800, outage_s=60, first_s=first_s)


def test_pairs_are_spread_over_the_windows_that_have_room_and_the_first_holds_the_reference():
    first, second = booked(NIGHT)
    assert (first.pairs, second.pairs) == (3, 1), "half an hour of reference, then 62 minutes a pair"
    assert first.window == Occurrence(at(1, 11), at(5, 11))
    assert [one.pairs for one in booked(NIGHT, pairs=3, first_s=0)] == [3]
    assert [one.pairs for one in booked(NIGHT, NOON, pairs=5)] == [3, 1, 1], "one a noon"


def test_a_window_that_is_open_has_the_room_that_is_left_of_it():
    assert [one.pairs for one in booked(NIGHT, begin=27.0, pairs=2, first_s=0)] == [1, 1], (
        "at three, two hours are left"
    )


def test_a_window_too_short_for_a_pair_is_refused_with_what_it_needs():
    with pytest.raises(UsageError, match=r"no window of 01:00-02:00 has room for") as told:
        book((NightWindow.parse("01:00-02:00", UTC),), at(0), 4, period_s=1800, outage_s=60, first_s=0)
    assert "--period" in (told.value.hint or "")


@pytest.mark.parametrize(("pairs", "restarts"), [((1,), 2), ((2,), 2), ((3,), 4), ((1, 1), 4), ((3, 1), 6), ((4,), 4)])
def test_restarts_of_windows(pairs, restarts):
    """A B and back; A B, B A; an odd number leaves B in force at the end, which is taken back before the close."""
    assert restarts_of([Booking(Occurrence(0, 1), one) for one in pairs]) == restarts


@pytest.mark.parametrize(
    ("drawn", "pairs", "restarts"), [(1, (2,), 4), (1, (3,), 4), (1, (1, 2), 4), (2, (2,), 2), (3, (1,), 2)]
)
def test_restarts_of_pairs_that_are_left_go_on_with_the_order(drawn, pairs, restarts):
    """After one pair the next is B A: to B and back, then to B and back again."""
    assert restarts_of([Booking(Occurrence(0, 1), one) for one in pairs], drawn) == restarts


QUIET = NightWindow.parse("02:30-03:00", UTC)


def test_a_quiet_time_within_a_window_is_left_out_of_what_is_announced():
    """A pair of 64 minutes: none fits between 02:30 and 03:00, and the server is as it was found before and after."""
    found = book((NIGHT,), at(20), 4, period_s=1800, outage_s=60, first_s=0, quiet=(QUIET,))
    assert [(one.window, one.pairs) for one in found] == [
        (Occurrence(at(1, 11), at(2.5, 11)), 1), (Occurrence(at(3, 11), at(5, 11)), 1),
        (Occurrence(at(1, 12), at(2.5, 12)), 1), (Occurrence(at(3, 12), at(5, 12)), 1),
    ]  # fmt: skip
    plan = plan_of((NIGHT,), at(20), 2, period_s=1800, outage_s=60, outage="unknown", first_s=0, quiet=(QUIET,))
    assert plan.text.startswith(
        "4 restarts for 2 pairs, never more than 6, in 2 windows (01:00-05:00 without 02:30-03:00), the last of which "
        "closes at 2026-03-11 05:00 UTC"
    )


@pytest.mark.parametrize("quiet", ["00:30-05:00", "01:30-04:30", "22:00-12:00"])
def test_a_window_whose_rest_is_too_short_for_a_pair_is_refused(quiet):
    times = (NightWindow.parse(quiet, UTC),)
    with pytest.raises(UsageError, match=rf"no window of 01:00-05:00, without {quiet}, has room for"):
        book((NIGHT,), at(20), 4, period_s=1800, outage_s=60, first_s=0, quiet=times)


def test_a_quiet_time_ends_a_window_as_its_close_does():
    """The way back is a restart too: what is booked before such a time is begun, and nothing is left in it."""
    quiet = QuietTimes((QUIET,), only=(NIGHT,), switch_s=60)
    (first, *_) = book((NIGHT,), at(20), 4, period_s=1800, outage_s=60, first_s=0, quiet=(QUIET,))
    last = first.window.closes - pair_s(1800, 60)
    assert quiet.why_wait(last, 3600) == ""
    assert quiet.why_wait(last + 1, 3600) == "nothing is switched 02:30-03:00"
    assert quiet.why_wait(at(2.6), 3600) == "nothing is switched 02:30-03:00"
    assert [quiet.is_closing(at(2.5) + seconds) for seconds in (-61, -60, 0, 1799, 1800)] == [
        False, True, True, True, False,
    ]  # fmt: skip


def test_what_is_announced_says_restarts_windows_and_the_outage():
    plan = plan_of((NIGHT,), at(20), 4, period_s=1800, outage_s=60, outage="about 4 s each, measured", first_s=1800)
    assert (plan.planned, plan.most) == (6, 8)
    assert plan.text == (
        "6 restarts for 4 pairs, never more than 8, in 2 windows (01:00-05:00), the last of which closes at "
        "2026-03-12 05:00 UTC; outage about 4 s each, measured"
    )
    one = plan_of((NIGHT,), at(20), 1, period_s=1800, outage_s=60, outage="unknown: it is new", first_s=1800)
    assert "in 1 window (01:00-05:00), which closes at 2026-03-11 05:00 UTC; outage unknown: it is new" in one.text


def continued(made: int, approved: int | None, *, pairs: int = 4, drawn: int = 0):
    return plan_of(
        (NIGHT,), at(25), pairs, period_s=1800, outage_s=60, outage="about 4 s each", first_s=0, drawn=drawn, made=made,
        approved=approved,
    )  # fmt: skip


def test_what_was_approved_holds_for_all_of_the_study_however_often_it_is_ended():
    """A loop that resumes a study which is killed under B each time would else restart the server for ever."""
    first = continued(0, None)
    assert (first.planned, first.most, first.spent) == (6, 8, "")
    found, made = [], 0
    for _ in range(9):
        plan = continued(made, first.most)
        assert plan.most == first.most
        assert made + plan.planned <= first.most
        found.append(sum(one.pairs for one in plan.bookings))
        if plan.spent:
            break
        made += 2  # to B, and the way back of the watchdog
    assert found == [4, 4, 3, 2, 0]
    assert made == first.most
    assert plan.text == plan.spent == "8 restarts were approved, and after 8 there are too few left for a pair"


def test_a_plan_that_goes_on_tells_what_was_restarted_before():
    assert continued(2, 6, pairs=3, drawn=1).text.startswith(
        "4 restarts for 3 pairs, never more than 6 with the 2 before it was ended, in 1 window"
    )
    assert continued(2, None).most == 10, "nobody had approved it: the question says all of them"


@given(st.integers(1, 9), st.lists(st.sampled_from(["pair", "lost", "close", "killed"]), max_size=60))
def test_whatever_happens_the_server_is_never_restarted_more_often_than_announced(most, events):
    """Each event is a pair, one that is lost in its midst, a window's end, or an end that restores the server."""
    count, drawn, is_b = RestartCount(most), 0, False

    def switch(to_b: bool) -> bool:
        nonlocal is_b
        if to_b is is_b:
            return True
        if to_b and not count.has_room(to_b=True):
            return False
        count.count(1.0)
        is_b = to_b
        return True

    for event in events:
        if event in ("close", "killed"):
            assert switch(False), "the way back always has one left"
            continue
        for to_b in b_order(drawn)[: 1 if event == "lost" else 2]:
            if not switch(to_b):
                break
        drawn += 1
    assert switch(False)
    assert not is_b
    assert count.made <= most
    assert len(count.outages) == count.made


def test_a_pair_is_begun_only_where_it_and_the_way_back_end_before_the_window_closes():
    quiet = QuietTimes(only=(NIGHT,), switch_s=60)
    assert quiet.why_wait(at(2), 3600) == ""
    assert quiet.why_wait(at(4) - 240, 3600) == ""
    assert quiet.why_wait(at(4) - 239, 3600) == "the next window for restarts opens at 2026-03-11 01:00 UTC"
    assert "opens at 2026-03-10 01:00" in quiet.why_wait(at(0), 60)
    assert QuietTimes(only=(NIGHT, NOON)).why_wait(at(12.1), 3600) == ""


def test_what_is_announced_for_a_window_is_begun_in_it():
    """A window that just holds what was booked in it has room for each of those pairs when its turn has come."""
    for pairs in (1, 2, 3):
        period_s, outage_s = 1200.0, 30.0
        opens = at(5) - pair_s(period_s, outage_s) - (pairs - 1) * 2 * (period_s + outage_s)
        (booked_there, *_) = book((NIGHT,), opens, 9, period_s=period_s, outage_s=outage_s, first_s=0)
        assert booked_there.pairs == pairs
        last = opens + (pairs - 1) * 2 * (period_s + outage_s)
        assert QuietTimes(only=(NIGHT,), switch_s=outage_s).why_wait(last, 2 * period_s) == ""


def test_the_last_of_a_window_is_for_the_way_back():
    quiet = QuietTimes(only=(NIGHT, NightWindow.parse("04:00-05:30", UTC)), switch_s=60)
    assert not quiet.is_closing(at(3))
    assert not quiet.is_closing(at(5)), "the other one is open"
    assert not quiet.is_closing(at(5.5) - 61)
    assert quiet.is_closing(at(5.5) - 60)
    assert quiet.is_closing(at(6))
    assert not QuietTimes().is_closing(at(6)), "a study of reloads has none"
