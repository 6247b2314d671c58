"""Levels of production's rate as speeds, and a limit that nobody moves afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgdyno.cli.compare import command
from pgdyno.cli.comparing import replays
from pgdyno.cli.comparing.flags import CompareFlags
from pgdyno.errors import UsageError
from pgdyno.model.shapes import plain
from pgdyno.studies.replay.options import level_speed
from pgdyno.trace.comparing import Rules
from pgdyno.trace.outcome_file import OUTCOME_VERSION, OutcomeFacts


@pytest.mark.requirement("R-RPL-11")
@pytest.mark.parametrize(("level", "minutes"), [(60, 120), (100, 72), (125, 57.6), (150, 48)])
def test_two_hours_of_the_60_per_cent_level_are_compressed(level: float, minutes: float) -> None:
    assert 120 / level_speed(level, captured_level=60) == pytest.approx(minutes)


@pytest.mark.requirement("R-RPL-15")
def test_the_limit_of_errors_is_that_of_the_start(tmp_path: Path) -> None:
    facts = OutcomeFacts(
        version=OUTCOME_VERSION, trace="t", trace_digest="", target="x", server_version="18", system_identifier="1",
        engine="e", speed=1.0, clock="schedule", order="session", processes=1, began_at=0.0, error_limit_percent=2.0,
    )  # fmt: skip
    (tmp_path / "outcome.json").write_text(json.dumps(plain(facts)))

    def rules(*words: str) -> Rules:
        return replays._rules(CompareFlags.of(command.make_context("compare", list(words)).params), tmp_path)

    assert rules().limits.error_percent == 2.0
    assert rules("--error-limit", "2").limits.error_percent == 2.0
    with pytest.raises(UsageError, match="it was fixed before it"):
        rules("--error-limit", "50")
