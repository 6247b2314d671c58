"""What a live study's options say of going on with it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from pgdyno.errors import UsageError
from pgdyno.studies.live.options import DAY_S, MOST_DAYS, LiveOptions
from pgdyno.studies.live.run import AskedArms, asked_by


def test_a_study_of_windows_goes_on_another_night_and_any_other_within_a_day():
    assert LiveOptions(reference_s=1800, budget_s=7200, seed=1).oldest_s == DAY_S
    in_windows = LiveOptions(reference_s=1800, budget_s=7200, seed=1, windows=("01:00-05:00",))
    assert in_windows.oldest_s == MOST_DAYS * DAY_S


@pytest.mark.parametrize("rule", [None, {"ids": ["work-mem"], "settings": {"work_mem": "64MB"}}])
@pytest.mark.parametrize("critical", [(), (42, -(1 << 63))])
def test_a_study_that_goes_on_was_asked_the_same(rule: object, critical: tuple[int, ...]) -> None:
    """Its closer bounds among it: a statement that was named as critical is watched as one after a kill, too."""
    asked = AskedArms({"work_mem": "4MB"}, {"work_mem": "64MB"}, rule, critical)
    study: Any = SimpleNamespace(id="live-1", asked=json.loads(json.dumps(asked.kept())))
    assert asked_by(study) == asked
    del study.asked["critical"]  # one of an earlier version
    assert asked_by(study).critical == ()
    with pytest.raises(UsageError, match="cannot be resumed"):
        asked_by(SimpleNamespace(id="live-1", asked={"a": {}, "b": {}}))  # type: ignore[arg-type]
