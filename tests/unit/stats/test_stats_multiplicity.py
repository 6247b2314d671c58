import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.stats.multiplicity import family_design, holm
from pgdyno.stats.noise_models import normal, paired_log_ratios
from pgdyno.stats.sequential import Design
from pgdyno.stats.simulation import run_studies


def test_holm_on_a_worked_example():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_of_nothing():
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_never_helps_a_claim_and_keeps_the_order(p):
    adjusted = holm(p)
    assert all(a >= b and a <= 1 for a, b in zip(adjusted, p, strict=True))
    assert max(adjusted) >= max(p)
    order = np.argsort(p, kind="stable")
    assert np.all(np.diff(np.array(adjusted)[order]) >= 0)


@pytest.mark.parametrize("p", [[-0.1], [1.1], [float("nan")]])
def test_holm_refuses_what_is_no_probability(p):
    with pytest.raises(UsageError):
        holm(p)


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
