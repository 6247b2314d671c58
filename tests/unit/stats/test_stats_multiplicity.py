import numpy as np
import pytest

from noise_models import normal, paired_log_ratios
from pgdyno.errors import UsageError
from pgdyno.stats.matrix import family_design
from pgdyno.stats.sequential import Design
from pgdyno.studies.tune.options import TuneOptions
from simulation import run_studies


def test_a_family_of_nulls_makes_a_false_claim_in_at_most_five_percent():
    knobs, studies = 6, 3000
    design = family_design(Design(doubt=0.0, max_pairs=12), knobs)
    rng = np.random.default_rng(1)
    false = np.zeros(studies, dtype=bool)
    for _ in range(knobs):
        found = run_studies(paired_log_ratios(normal, rng=rng, studies=studies, pairs=12, cv=0.05), design)
        false |= found.higher | found.lower
    assert 0.02 < false.mean() < 0.05 + 0.008


def test_a_family_of_one_is_the_design_itself():
    assert family_design(Design(), 1).confidence == pytest.approx(0.95)
    with pytest.raises(UsageError):
        family_design(Design(), 0)


def test_all_proofs_of_a_tune_whose_winners_do_nothing_call_one_better_in_at_most_five_percent():
    options, studies = TuneOptions(), 3000
    rng = np.random.default_rng(1)
    first, false = np.zeros(studies, dtype=bool), np.zeros(studies, dtype=bool)
    for before in range(options.MOST_PROOFS):
        design = options.of_proof(before).design(min_pairs=options.confirm_min)
        ratios = paired_log_ratios(normal, rng=rng, studies=studies, pairs=design.max_pairs, cv=0.12)
        false |= run_studies(ratios, design).higher
        first = false.copy() if before == 0 else first
    assert 0.01 < first.mean() < 0.025 + 0.006
    assert first.mean() < false.mean() < 0.05 + 0.008


def test_the_later_proofs_of_a_tune_share_the_error_of_the_first_whatever_its_confidence():
    options = TuneOptions(confidence=0.9)
    assert options.of_proof(0).confidence == 0.9
    assert [options.of_proof(before).confidence for before in (1, 2)] == [pytest.approx(0.95)] * 2
