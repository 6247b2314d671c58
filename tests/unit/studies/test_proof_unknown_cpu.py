"""A proof beside others, judged by server CPU, of which some runs do not know the figure."""

import pytest

from pgdyno.model.trial import Role
from pgdyno.model.verdict import Metric
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.run import tune
from simulated_laboratory import SimulatedLaboratory, work_mem_and_buffers

pytestmark = pytest.mark.usefixtures("kept_asks")
RIVAL = {"shared_buffers": "4GB", "work_mem": "64MB", "wal_buffers": "32MB"}


def beside_others(unknown):
    options = TuneOptions(seed=1, rivals={"dba": RIVAL})
    laboratory = SimulatedLaboratory(
        work_mem_and_buffers, seed=1, disturbed=1.0, shared=True, drowned=0.3, unknown_cpu=unknown
    )
    laboratory.budget(options.budget_s)
    return laboratory, lambda: tune(laboratory, options, lambda _: None)


def test_a_rival_of_unknown_cpu_is_left_out_and_the_winner_still_offered():
    _, run = beside_others(lambda number, settings: dict(settings) == RIVAL)
    tuned = run()
    assert tuned.proof.headline.verdict.metric is Metric.SERVER_CPU
    assert tuned.is_offered
    assert tuned.proof.rivals == tuned.proof.rival_shares == {}
    assert "rivals whose runs have too few figures to compare them: dba" in tuned.notes
    assert not any("rivals" in one for one in tuned.search.left_out)


def test_runs_of_unknown_cpu_cost_their_own_pairs_alone():
    laboratory, run = beside_others(lambda number, settings: len(settings) > 0 and number % 4 == 0)
    tuned = run()
    assert tuned.is_offered
    lacking = [t for t in laboratory.store.kept if t.spec.role is Role.CONFIRM and not t.outcome.server_cpu_ms_per_tx]
    assert lacking
    assert tuned.proof.headline.verdict.pairs < len(tuned.proof.blocks.complete)


def test_a_winner_of_unknown_cpu_is_no_load_of_few_transactions():
    _, run = beside_others(lambda number, settings: number > 20 and len(settings) > 0)
    tuned = run()
    assert not tuned.is_offered
    assert any("server CPU" in note and "cannot be judged: it is unknown in" in note for note in tuned.notes)
