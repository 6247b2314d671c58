"""How a study is marked that an error ended: with what state, and with which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdyno.errors import EnvironmentUnsuitable, OutOfTime, ScriptError, ended_by
from pgdyno.model.study import StudyState
from pgdyno.store.catalogue import Store
from pgdyno.studies.session.marked_end import MarkedEnd
from pgdyno.trial.stopwatch import BudgetSpent
from simulated_laboratory import simulated_study

FAILED, INTERRUPTED = StudyState.FAILED, StudyState.INTERRUPTED


@pytest.mark.parametrize(
    ("error", "state", "why"),
    [
        (OutOfTime("the budget of 40 s ran out", detail="It is all of it."), FAILED,
         "the budget of 40 s ran out: It is all of it."),
        (BudgetSpent("the time budget of 40 s was over"), FAILED, "the time budget of 40 s was over"),
        (ScriptError("line 4"), FAILED, "line 4"),
        (EnvironmentUnsuitable("too busy"), INTERRUPTED, "too busy"),
        (KeyboardInterrupt(), INTERRUPTED, ""),
        (OSError(28, "No space left on device", "/srv/secret"), FAILED, "no space left on device"),
        (KeyError("password=geheim"), FAILED, "defect of pgdyno: KeyError"),
    ],
)  # fmt: skip
def test_an_error_is_kept_with_the_state_that_it_leaves(
    tmp_path: Path, error: BaseException, state: StudyState, why: str
) -> None:
    with Store.open(tmp_path / "s.db") as store:
        store.add_study(simulated_study())
        with pytest.raises(type(error)), MarkedEnd(store, simulated_study(), print):
            raise error
        kept = store.study("s1")
    assert (kept.state, kept.ended, ended_by(error)) == (state, why, why)
