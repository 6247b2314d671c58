"""Levels of production's rate as speeds, and a limit that nobody moves afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgdyno.cli.arguments.flags import Flags
from pgdyno.cli.comparing import replays
from pgdyno.errors import UsageError
from pgdyno.studies.replay.options import level_speed


@pytest.mark.requirement("R-RPL-11")
@pytest.mark.parametrize(("level", "minutes"), [(60, 120), (100, 72), (125, 57.6), (150, 48)])
def test_two_hours_of_the_60_per_cent_level_are_compressed(level: float, minutes: float) -> None:
    assert 120 / level_speed(level, captured_level=60) == pytest.approx(minutes)


@pytest.mark.requirement("R-RPL-15")
def test_the_limit_of_errors_is_that_of_the_start(tmp_path: Path) -> None:
    (tmp_path / "outcome.json").write_text(json.dumps({"error_limit_percent": 2.0}))
    values = {
        "error_limit": None, "duration_classes": None, "effect_percent": 5.0, "effect_ms": 1.0, "required": 95.0,
    }  # fmt: skip
    assert replays._rules(Flags(values), tmp_path).limits.error_percent == 2.0
    assert replays._rules(Flags({**values, "error_limit": 2.0}), tmp_path).limits.error_percent == 2.0
    with pytest.raises(UsageError, match="it was fixed before it"):
        replays._rules(Flags({**values, "error_limit": 50.0}), tmp_path)
