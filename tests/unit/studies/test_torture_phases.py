"""The torture suite says in which phase of a tune a kill fell: by the newest trial alone."""

from __future__ import annotations

from itertools import groupby

from steered import PHASES, phase_of

from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.run import tune
from simulated_laboratory import SimulatedLaboratory, shared_buffers_cliff


def test_the_phases_of_a_tune_are_told_by_its_newest_trial():
    laboratory = SimulatedLaboratory(shared_buffers_cliff)
    tune(laboratory, TuneOptions(trials=12, noise_runs=4, confirm_max=4), lambda _: None)
    seen = [phase for phase, _ in groupby(phase_of(trial) for trial in laboratory.store.kept)]
    assert [phase_of(None), *seen] == list(PHASES)
