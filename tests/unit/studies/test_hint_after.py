"""What is advised where runs could not be used: it depends on how they ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.trial import Outcome, Trial, TrialSpec, TrialState
from pgdyno.studies.noise.run import run_noise
from pgdyno.studies.pairs.blocks import hint_after
from pgdyno.trial.company import Company

if TYPE_CHECKING:
    from pgdyno.trial.laboratory import Laboratory

F, D, U, V = TrialState.FAILED, TrialState.DISTURBED, TrialState.UNSTEADY, TrialState.VOID


@pytest.mark.parametrize(
    ("states", "word"), [({F}, "failed"), ({F, V}, "failed"), ({F, D}, "Quieten"), ({U}, "Quieten"), (set(), "Quieten")]
)
def test_a_load_that_failed_is_no_matter_of_a_quiet_machine(states: set[TrialState], word: str) -> None:
    assert word in hint_after(states)


@pytest.mark.parametrize(("state", "word"), [(F, "why the load failed"), (D, "Quieten")])
def test_a_noise_study_whose_runs_fail_says_so(state: TrialState, word: str) -> None:
    """Its advice was to quieten the machine, whatever had happened."""

    def run(spec: TrialSpec) -> Trial:
        return Trial(1, "s", spec, state, Outcome(state, "pgbench was ended by SIGKILL"))

    laboratory = cast("Laboratory", SimpleNamespace(run=run, spent_s=1.0, company=Company()))
    with pytest.raises(EnvironmentUnsuitable, match="3 runs in a row") as raised:
        run_noise(laboratory, budget_s=60.0, announce=lambda _: None)
    assert word in str(raised.value.hint)
