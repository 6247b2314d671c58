"""Levels of production's rate as speeds, and a limit that nobody moves afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pgdyno.cli.compare import command
from pgdyno.cli.comparing import replays
from pgdyno.cli.comparing.flags import CompareFlags
from pgdyno.errors import UsageError
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LoadPlan, WorkloadSpec
from pgdyno.store.catalogue import Store
from pgdyno.studies.replay.amendments import FixedBefore, fixed_before
from pgdyno.studies.replay.options import level_speed
from pgdyno.trace.comparing import Rules
from pgdyno.trace.outcome_file import OUTCOME_VERSION, OutcomeFacts


@pytest.mark.requirement("R-RPL-11")
@pytest.mark.parametrize(("level", "minutes"), [(60, 120), (100, 72), (125, 57.6), (150, 48)])
def test_two_hours_of_the_60_per_cent_level_are_compressed(level: float, minutes: float) -> None:
    assert 120 / level_speed(level, captured_level=60) == pytest.approx(minutes)


@pytest.mark.parametrize(("level", "captured"), [(1e-320, 60), (1e9, 60), (100, 0), (100, 1e-320), (1e300, 1e-300)])
def test_a_level_that_no_load_can_be_sent_at_is_refused(level: float, captured: float) -> None:
    with pytest.raises(UsageError, match=r"of a trace of level .* is not from 0.001 to 1000 times the captured speed"):
        level_speed(level, captured)


FACTS = OutcomeFacts(
    version=OUTCOME_VERSION, trace="t", trace_digest="d", target="x", server_version="18", system_identifier="1",
    engine="e", speed=1.0, clock="schedule", order="session", processes=1, began_at=1_790_000_000.25,
    error_limit_percent=2.0, study="replay-1",
)  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    asked = {"trace_digest": "d", "speed": 1.0, "clock": "schedule", "order": "session", "error_limit_percent": 2.0}
    study = Study(
        FACTS.study, StudyKind.REPLAY, "t", StudyState.COMPLETE, FACTS.began_at, "x", "", {},
        WorkloadSpec("replay", {}, "d", "t", read_only=False, unit="statements"), LoadPlan(1, 1, 0.0, 1.0),
        options={"replay": asked},
    )  # fmt: skip
    with Store.open(tmp_path / "s.db") as opened:
        opened.add_study(study)
        yield opened


@pytest.mark.requirement("R-RPL-15")
def test_the_limit_of_errors_is_that_of_the_start(store: Store) -> None:
    def rules(*words: str) -> Rules:
        flags = CompareFlags.of(command.make_context("compare", list(words)).params)
        return replays._rules(flags, fixed_before("o", FACTS, store))

    assert rules().limits.error_percent == 2.0
    assert rules("--error-limit", "2").limits.error_percent == 2.0
    with pytest.raises(UsageError, match="before it began"):
        rules("--error-limit", "50")


@pytest.mark.requirement("R-RPL-15")
def test_an_outcome_that_was_edited_is_an_amendment_and_the_record_holds(store: Store) -> None:
    assert fixed_before("o", FACTS, store) == FixedBefore(2.0)
    lenient = fixed_before("o", replace(FACTS, error_limit_percent=50.0, order="row"), store)
    assert lenient == FixedBefore(
        2.0,
        (
            "outcome o says a limit of errors in per cent of 50.0, and 2.0 was fixed before its run",
            "outcome o says the order row, and session was fixed before its run",
        ),
    )
    assert fixed_before("o", replace(FACTS, began_at=1.0), store).amendments
    slow = fixed_before("o", replace(FACTS, speed=0.01), store)
    assert (slow.speed, slow.amendments) == (1.0, ("outcome o says a speed of 0.01, and 1.0 was fixed before its run",))


@pytest.mark.parametrize("study", ["", "replay-", "last", "another"])
def test_an_outcome_without_its_record_says_so(store: Store, study: str) -> None:
    found = fixed_before("o", replace(FACTS, study=study, error_limit_percent=50.0), store)
    assert (found.error_limit_percent, found.amendments) == (50.0, ())
    assert "nobody can tell" in found.unknown
