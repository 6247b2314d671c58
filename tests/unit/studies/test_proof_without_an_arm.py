"""A proof whose comparison can do without one of its arms, because that one cannot be measured."""

from pgdyno.model.shapes import plain
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.result import tune_result
from pgdyno.studies.tune.run import tune
from simulated_laboratory import SimulatedLaboratory, work_mem_and_buffers


def test_a_setting_without_which_the_load_fails_stays_and_is_said_to():
    laboratory = SimulatedLaboratory(work_mem_and_buffers, seed=1, fails=lambda s: set(s) == {"shared_buffers"})
    options = TuneOptions(seed=1, rivals={"larger": {"shared_buffers": "4GB"}})
    laboratory.budget(options.budget_s)
    tuned = tune(laboratory, options, lambda _: None)
    assert tuned.is_offered
    assert set(tuned.winner) == {"shared_buffers", "work_mem"}
    assert set(tuned.proof.effects) == {"shared_buffers"}
    result = plain(tune_result(laboratory, tuned, options))
    assert [one["knob"] for one in result["unmeasured"]] == ["work_mem"]
    for arm in ("without work_mem", "rival larger"):
        assert any(note.startswith(f"{arm} could not be measured") for note in result["notes"])
