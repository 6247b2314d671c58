import numpy as np
import pytest

from noise_models import normal, paired_log_ratios
from pgdyno.errors import UsageError
from pgdyno.stats.matrix import family_design
from pgdyno.stats.sequential import Design
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
