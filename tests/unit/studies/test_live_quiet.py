"""When a live study leaves the server alone: by the clock on the wall, and by a file."""

from __future__ import annotations

from datetime import datetime

import pytest

from pgdyno.errors import UsageError
from pgdyno.studies.live.quiet import QuietTimes


def at(text: str) -> float:
    return datetime.fromisoformat(f"2026-03-10 {text}").timestamp()


@pytest.mark.parametrize(
    ("moment", "waits"),
    [("17:58:39", False), ("17:58:41", True), ("18:00", True), ("19:59:59", True), ("20:00", False)],
)
def test_a_pair_is_begun_only_where_it_is_over_before_the_window(moment, waits):
    quiet = QuietTimes.of(["18:00-20:00"])
    assert bool(quiet.why_wait(at(moment), 60.0)) is waits
    assert quiet.words == ("18:00-20:00",)


def test_several_windows_and_one_over_midnight_hold():
    quiet = QuietTimes.of(["23:30-00:30", "12:00-12:01"])
    assert [bool(quiet.why_wait(at(one), 1.0)) for one in ("23:45", "00:15", "12:00:30", "13:00")] == [
        True, True, True, False,
    ]  # fmt: skip


def test_the_pause_file_holds_while_it_is_there(tmp_path):
    quiet = QuietTimes.of([], tmp_path / "pause")
    assert quiet.why_wait(at("12:00"), 60.0) == ""
    (tmp_path / "pause").touch()
    assert "pause" in quiet.why_wait(at("12:00"), 60.0)


@pytest.mark.parametrize(
    ("words", "seconds", "has_room"),
    [
        (("12:00-00:00", "00:00-12:00"), 30.0, False),
        (("12:00-00:00", "00:00-11:59"), 45.0, True),
        (("12:00-00:00", "00:00-11:59"), 46.0, False),
        ((), 30.0, True),
    ],
)
def test_quiet_times_that_leave_no_time_for_a_pair_are_refused(words, seconds, has_room):
    """The study would wait in its baseline for ever."""
    quiet = QuietTimes.of(words)
    if has_room:
        quiet.require_room(at("10:00"), seconds)
        return
    with pytest.raises(UsageError, match="leaves no time of the day for a pair"):
        quiet.require_room(at("10:00"), seconds)


@pytest.mark.parametrize("word", ["18-20", "18:00", "25:00-26:00", "3@18:00-20:00", ""])
def test_what_is_no_window_is_refused(word):
    with pytest.raises(UsageError, match="window"):
        QuietTimes.of([word])
