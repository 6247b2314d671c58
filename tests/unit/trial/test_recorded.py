"""What a resumed study is given back: all that was used, and nothing that a disturbed machine spoilt last."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import EnvironmentUnsuitable, StoreError
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.trial import Role, Trial, TrialSpec, TrialState
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.run import tune
from pgdyno.trial.recorded import SPOILT, given_back, require_planned
from simulated_laboratory import SimulatedLaboratory, shared_buffers_cliff

OPTIONS = TuneOptions(trials=14, noise_runs=4, confirm_max=8)


def trials(text):
    """Return trials from words such as 1C 2D 2D: the place, and complete, disturbed, failed or abandoned."""
    states = {"C": TrialState.COMPLETE, "D": TrialState.DISTURBED, "U": TrialState.UNSTEADY, "P": TrialState.PARTIAL}
    states |= {"F": TrialState.FAILED, "A": TrialState.ABANDONED}
    made, last = [], {}
    for number, word in enumerate(text.split(), 1):
        place, fresh = int(word[0]), word.endswith("!")
        repeats = None if fresh else last.get(place)
        made.append(Trial(number, "s1", TrialSpec(BASELINE, Role.ARM, "A", place, 0, repeats), states[word[1]]))
        last[place] = number
    return made


@pytest.mark.parametrize(
    ("recorded", "numbers"),
    [
        ("", []),
        ("1C 2C 3C", [1, 2, 3]),
        ("1C 2D 2D 2C 3C", [1, 2, 3, 4, 5]),
        ("1C 2D 2U 2P", [1]),
        ("1C 2D 2D 2D 3D 3D 3D", [1]),
        ("1C 2D 2D 2D 3C", [1, 2, 3, 4, 5]),
        ("1C 2F 2F", [1, 2, 3]),
        ("1C 2A 2C!", [1, 3]),
        ("1C 2D 2D 2D 3D 3D 2C! 3C!", [1, 7, 8]),
        ("1C 2D 2D 2D 3D 3D 2D! 2D 2C 3C!", [1, 7, 8, 9, 10]),
        ("1C 2D 2D 2D 3D 2D! 2D 2D 3D 2C! 3C!", [1, 10, 11]),
        ("1C 2D 2D 3C 2C!", [1, 2, 3, 4, 5]),
    ],
)
def test_what_was_spoilt_last_is_measured_anew_and_stays_replaced(recorded, numbers):
    assert [trial.id for trial in given_back(trials(recorded))] == numbers


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from("CDUPFA"), st.booleans()), max_size=30))
def test_no_trial_that_was_used_is_left_out(drawn):
    recorded = trials(" ".join(f"{place}{state}{'!' * fresh}" for place, state, fresh in drawn))
    kept = given_back(recorded)
    used = [trial for trial in recorded if trial.state not in SPOILT | {TrialState.ABANDONED}]
    assert [trial for trial in kept if trial.state not in SPOILT] == used
    assert not kept or kept[-1].state not in SPOILT
    assert given_back(kept) == kept


def test_a_tune_that_a_disturbed_machine_ended_goes_on_when_it_is_quiet():
    """Twice: what the first resume measured anew is given back by the second."""
    whole = SimulatedLaboratory(shared_buffers_cliff)
    tune(whole, OPTIONS, lambda text: None)
    proof = next(trial.id for trial in whole.store.kept if trial.spec.role is Role.CONFIRM)
    recorded = None
    for loud_from in (proof + 1, proof + 6):
        laboratory = SimulatedLaboratory(
            shared_buffers_cliff, disturbed=lambda number, _, least=loud_from: number >= least, recorded=recorded
        )
        with pytest.raises(EnvironmentUnsuitable, match="blocks could not be completed"):
            tune(laboratory, OPTIONS, lambda text: None)
        recorded = laboratory.store.kept
    quiet = SimulatedLaboratory(shared_buffers_cliff, recorded=recorded)
    tuned = tune(quiet, OPTIONS, lambda text: None)
    assert tuned.proof is not None
    assert set(tuned.winner) == {"shared_buffers"}
    proved = [trial for block in tuned.proof.blocks.complete for trial in block.values()]
    assert all(trial.state is TrialState.COMPLETE for trial in proved)
    assert given_back(quiet.store.kept)[: proof - 1] == given_back(recorded)[: proof - 1]


def test_a_trial_that_the_plan_does_not_have_here_is_told_by_what_differs():
    def spec(role, arm, **settings):
        return TrialSpec(Configuration.of(settings), role, arm, 1, 0)

    recorded = spec(Role.SEARCH, "model", work_mem="8MB", max_wal_size="2GB", jit="off")
    trial = Trial(7, "s1", recorded, TrialState.COMPLETE)
    require_planned(trial, recorded, "s1")
    with pytest.raises(StoreError, match="trial 7 of study s1 is not the one") as caught:
        require_planned(trial, spec(Role.ARM, "B", work_mem="16MB", jit="off", autovacuum="off"), "s1")
    assert caught.value.detail == (
        "recorded search model, planned arm B; autovacuum was as found, is off; max_wal_size was 2GB, is as found; "
        "work_mem was 8MB, is 16MB"
    )
