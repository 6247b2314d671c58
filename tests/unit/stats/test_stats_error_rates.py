"""What the verdict rule does over thousands of simulated studies. Seeds are fixed; margins are 4 standard errors."""

import math

import numpy as np
import pytest
from scipy.special import nctdtr, stdtrit

from noise_models import NOISE_MODELS, normal, paired_log_ratios
from pgdyno.errors import UsageError
from pgdyno.stats.sequential import STRICT, Design
from simulation import run_studies

STUDIES = 6000


def simulate(design, model=normal, *, cv, effect=0.0, studies=STUDIES, seed=1, give_up=True):
    rng = np.random.default_rng(seed)
    ratios = paired_log_ratios(model, rng=rng, studies=studies, pairs=design.max_pairs, cv=cv, effect=effect)
    return run_studies(ratios, design, give_up=give_up)


def margin(rate, studies=STUDIES):
    return 4 * math.sqrt(rate * (1 - rate) / studies)


@pytest.mark.parametrize("cv", [0.02, 0.05, 0.12])
@pytest.mark.parametrize("name", NOISE_MODELS)
def test_equal_arms_are_called_different_in_at_most_five_percent(name, cv):
    studies = simulate(Design(), NOISE_MODELS[name], cv=cv)
    assert studies.claims <= 0.05
    assert studies.coverage(0.0) >= 0.95


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("max_pairs", [6, 8, 12, 24, 40])
@pytest.mark.parametrize("name", NOISE_MODELS)
def test_every_design_keeps_its_error(name, max_pairs, confidence):
    design = Design(confidence=confidence, max_pairs=max_pairs)
    error = 1 - confidence
    assert simulate(design, NOISE_MODELS[name], cv=0.05, studies=3000).claims <= error + margin(error, 3000) / 2


@pytest.mark.parametrize("name", NOISE_MODELS)
def test_strict_comparisons_of_equal_arms_stay_silent(name):
    claims = [simulate(STRICT, NOISE_MODELS[name], cv=cv).claims for cv in (0.03, 0.06, 0.12)]
    assert np.mean(claims) <= 0.0025 + margin(0.0025, 3 * STUDIES)


def test_the_bound_on_the_error_is_reached_where_nothing_protects():
    """Without doubt and without giving up the claim rate is the nominal one: the interval is not merely wide."""
    design = Design(doubt=0.0, smallest_effect=0.0)
    assert simulate(design, cv=0.05, give_up=False).claims == pytest.approx(0.05, abs=margin(0.05))


@pytest.mark.parametrize("confidence", [0.9, 0.95])
@pytest.mark.parametrize("effect", [0.0, 0.05, 0.3])
def test_intervals_of_all_looks_together_cover_at_the_nominal_rate(confidence, effect):
    """A study that stops at the first interval that misses the truth misses it at exactly 1 - confidence."""
    design = Design(doubt=0.0, smallest_effect=0.0, confidence=confidence, max_pairs=24)
    rng = np.random.default_rng(7)
    ratios = paired_log_ratios(normal, rng=rng, studies=STUDIES, pairs=24, cv=0.05, effect=effect)
    missed = run_studies(ratios - math.log1p(effect), design, give_up=False).claims
    assert 1 - missed == pytest.approx(confidence, abs=margin(confidence))


@pytest.mark.parametrize("name", NOISE_MODELS)
@pytest.mark.parametrize("effect", [0.02, 0.05, 0.2, 2.0])
def test_the_interval_at_the_stop_covers_the_true_effect(name, effect):
    studies = simulate(Design(), NOISE_MODELS[name], cv=0.05, effect=effect)
    assert studies.coverage(math.log1p(effect)) >= 0.95


def fixed_pairs(effect, pair_sd, power, confidence):
    """Return the pairs (interpolated) of the paired t test of the same error and power, looked at once."""

    def power_of(n):
        critical, centre = -stdtrit(n - 1, (1 - confidence) / 2), effect / pair_sd * math.sqrt(n)
        return 1 - nctdtr(n - 1, centre, critical) + nctdtr(n - 1, centre, -critical)

    n = 3
    while power_of(n) < power:
        n += 1
    below, above = power_of(n - 1), power_of(n)
    return n - 1 + (power - below) / (above - below)


def test_a_five_percent_effect_needs_at_most_sixty_percent_of_the_pairs_of_the_fixed_design():
    studies = simulate(Design(), cv=0.05, effect=0.05, studies=20_000)
    assert studies.claims > 0.97
    fixed = fixed_pairs(math.log(1.05), 0.05 * math.sqrt(2), studies.claims, 0.95)
    assert studies.mean_pairs <= 0.6 * fixed


@pytest.mark.parametrize(("pair_sd", "share"), [(0.05, 0.99), (0.1, 0.93)])
def test_a_tripled_throughput_resolves_at_three_pairs(pair_sd, share):
    studies = simulate(Design(), cv=pair_sd / math.sqrt(2), effect=2.0)
    assert (studies.pairs == 3).mean() >= share
    assert studies.higher.all()


def test_a_true_difference_of_three_percent_is_rarely_called_equivalent():
    for cv in (0.01, 0.02, 0.04):
        assert simulate(Design(), cv=cv, effect=0.03).equivalent.mean() <= 0.025


def test_claims_in_the_wrong_direction_are_rare():
    studies = simulate(Design(), cv=0.08, effect=0.03)
    assert studies.lower.mean() < 0.005


def test_giving_up_saves_pairs_and_loses_little_power():
    patient_null, null = (simulate(Design(), cv=0.05, give_up=give_up) for give_up in (False, True))
    patient_effect, effect = (simulate(Design(), cv=0.05, effect=0.05, give_up=give_up) for give_up in (False, True))
    assert null.mean_pairs < 0.75 * patient_null.mean_pairs
    assert effect.claims > patient_effect.claims - 0.01


def test_the_order_inside_a_pair_is_what_makes_drift_harmless():
    """With a always first, drift is an effect: the models do put the rule to a test."""
    series = NOISE_MODELS["drift"](np.random.default_rng(1), 500, 96, 0.05)
    assert run_studies(series[:, 1::2] - series[:, ::2], Design()).claims > 0.5


def test_studies_of_another_length_are_refused():
    with pytest.raises(UsageError):
        run_studies(np.zeros((3, 5)), Design())
