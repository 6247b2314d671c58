"""What a live study's options say of going on with it."""

from __future__ import annotations

from pgdyno.studies.live.options import DAY_S, MOST_DAYS, LiveOptions


def test_a_study_of_windows_goes_on_another_night_and_any_other_within_a_day():
    assert LiveOptions(reference_s=1800, budget_s=7200, seed=1).oldest_s == DAY_S
    in_windows = LiveOptions(reference_s=1800, budget_s=7200, seed=1, windows=("01:00-05:00",))
    assert in_windows.oldest_s == MOST_DAYS * DAY_S
