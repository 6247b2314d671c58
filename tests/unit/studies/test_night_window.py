"""When a window of the night is open: over midnight, over changes of the clocks, in any zone."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.studies.night.window import NightWindow

BERLIN = ZoneInfo("Europe/Berlin")
pytestmark = pytest.mark.requirement("R-EXP-09")
MINUTES = st.integers(0, 24 * 60 - 1).map(lambda m: f"{m // 60:02d}:{m % 60:02d}")


def at(text, fold=0):
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).timestamp()


def window(text):
    return NightWindow.parse(text, "Europe/Berlin")


@pytest.mark.parametrize(
    ("moment", "is_open"),
    [
        ("2026-01-10T21:59:59", False),
        ("2026-01-10T22:00:00", True),
        ("2026-01-11T00:00:00", True),
        ("2026-01-11T05:59:59", True),
        ("2026-01-11T06:00:00", False),
        ("2026-01-11T12:00:00", False),
    ],
)
def test_a_window_over_midnight(moment, is_open):
    assert (window("22:00-06:00").now(at(moment)) is not None) is is_open


def test_the_night_of_the_change_to_summer_is_an_hour_shorter():
    night = window("22:00-06:00").now(at("2026-03-28T23:00:00"))
    assert (night.closes - night.opens) / 3600 == 7


def test_the_night_of_the_change_to_winter_is_an_hour_longer():
    night = window("22:00-06:00").now(at("2026-10-24T23:00:00"))
    assert (night.closes - night.opens) / 3600 == 9


def test_a_window_that_ends_in_the_doubled_hour_closes_the_first_time():
    doubled = window("22:00-02:30")
    assert doubled.now(at("2026-10-25T02:29:00")) is not None
    assert doubled.now(at("2026-10-25T02:29:00", fold=1)) is None


def test_a_window_that_the_clocks_skip_does_not_happen():
    skipped = window("02:50-03:10")
    assert skipped.following(at("2026-03-29T00:00:00")).opens == at("2026-03-30T02:50:00")


@given(MINUTES, MINUTES, st.datetimes(datetime(2024, 1, 1), datetime(2028, 1, 1)))
def test_open_now_means_that_it_closes_later_and_the_next_opens_after_now(begin, end, naive):
    if begin == end:
        return
    moment, one = naive.replace(tzinfo=BERLIN).timestamp(), window(f"{begin}-{end}")
    now = one.now(moment)
    assert now is None or now.opens <= moment < now.closes
    following = one.following(moment)
    assert following.opens > moment
    assert following.closes - following.opens <= 25 * 3600
    assert one.now(following.opens) == following
    assert one.now(following.closes - 1) == following


@given(MINUTES, MINUTES)
def test_a_window_is_written_as_it_is_read(begin, end):
    if begin != end:
        assert str(window(f"{begin}-{end}")) == f"{begin}-{end}"


@pytest.mark.parametrize("text", ["", "22:00", "22:00-22:00", "3@22:00-06:00", "none", "24:00-06:00", "10pm-6am"])
def test_what_is_no_window_is_refused_with_the_form(text):
    with pytest.raises(UsageError) as caught:
        NightWindow.parse(text)
    assert "HH:MM" in caught.value.hint


def test_an_unknown_zone_is_refused():
    with pytest.raises(UsageError, match="Mars/Olympus"):
        NightWindow.parse("22:00-06:00", "Mars/Olympus")
