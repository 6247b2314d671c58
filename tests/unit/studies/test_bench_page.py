"""What the page of one measurement says of its run."""

from __future__ import annotations

import pytest

from pgdyno.model.configuration import BASELINE
from pgdyno.model.trial import Outcome, Role, Trial, TrialSpec, TrialState
from pgdyno.studies.bench.page import run_facts


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Outcome(TrialState.FAILED, "the load ended early: 2 of 2 clients aborted"), "not counted"),
        (Outcome(TrialState.COMPLETE, transactions=1200, retried=3), "1,200 done, 0 failed, 3 retried"),
        (Outcome(TrialState.FAILED, "it fails", failed=7), "0 done, 7 failed, 0 retried"),
    ],
)
def test_transactions_that_were_not_counted_are_not_none(outcome: Outcome, told: str) -> None:
    trial = Trial(4, "s", TrialSpec(BASELINE, Role.ARM, "bench", 1, 0), outcome.state, outcome)
    assert dict(run_facts(trial).rows)["transactions"] == told
