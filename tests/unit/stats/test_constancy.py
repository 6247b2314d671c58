"""Constant is an equivalence test: not to find a difference is none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.model.results.scale import Constancy
from pgdyno.stats.constancy import FEWEST_PAIRS, constancy


def pairs(ratio: float, scatter: float, count: int, seed: int) -> tuple[list[float], list[float]]:
    random = np.random.default_rng(seed)
    a = 8 * np.exp(random.normal(0, scatter, count))
    return list(a), list(a * ratio * np.exp(random.normal(0, scatter, count)))


@pytest.mark.requirement("R-SCA-02")
def test_alike_runs_are_constant_noisy_ones_not_resolved_and_others_not_constant() -> None:
    assert constancy(*pairs(1.0, 0.01, 6, 1), 0.1)[0] is Constancy.CONSTANT
    assert constancy(*pairs(1.0, 0.4, 6, 1), 0.1)[0] is Constancy.NOT_RESOLVED  # no difference is found there, too
    assert constancy(*pairs(1.5, 0.01, 6, 1), 0.1)[0] is Constancy.NOT_CONSTANT
    assert constancy(*pairs(0.6, 0.01, 6, 1), 0.1)[0] is Constancy.NOT_CONSTANT
    assert constancy(*pairs(1.04, 0.001, 6, 1), 0.1)[0] is Constancy.CONSTANT  # a difference that nobody cares for
    word, found = constancy(*pairs(1.1, 0.01, 6, 1), 0.1)
    assert word is Constancy.NOT_RESOLVED
    assert found is not None
    assert found.lo < 1.1 < found.hi


def test_fewer_pairs_than_the_least_never_decide() -> None:
    same = [8.0] * (FEWEST_PAIRS - 1)
    assert constancy(same, same, 0.1) == (Constancy.NOT_RESOLVED, None)
    assert constancy([8.0] * FEWEST_PAIRS, [8.0] * FEWEST_PAIRS, 0.001)[0] is Constancy.CONSTANT


@pytest.mark.parametrize("count", [4, 6, 10])
def test_a_figure_that_is_off_by_the_tolerance_is_seldom_called_constant_or_proved_otherwise(count: int) -> None:
    words = [constancy(*pairs(1.1, 0.03, count, seed), 0.1)[0] for seed in range(300)]
    assert words.count(Constancy.CONSTANT) <= 0.05 * 300
    assert words.count(Constancy.NOT_CONSTANT) <= 0.05 * 300


@given(st.lists(st.floats(0.5, 2), min_size=4, max_size=12), st.floats(0.01, 0.5))
def test_the_word_is_read_off_the_interval(ratios: list[float], tolerance: float) -> None:
    word, found = constancy([1.0] * len(ratios), ratios, tolerance)
    assert found is not None
    inside = found.lo >= 1 / (1 + tolerance) * (1 - 1e-9) and found.hi <= (1 + tolerance) * (1 + 1e-9)
    outside = found.lo > 1 + tolerance or found.hi < 1 / (1 + tolerance)
    assert word in (
        {Constancy.CONSTANT} if inside else {Constancy.NOT_CONSTANT} if outside else {Constancy.NOT_RESOLVED}
    )


def test_four_pairs_are_the_fewest_and_both_sides_have_as_many() -> None:
    assert FEWEST_PAIRS == 4
    assert constancy([8.0] * 5, [8.0] * 4, 0.1) == (Constancy.NOT_RESOLVED, None)
    assert constancy([8.0] * 4, [8.0] * 5, 0.1) == (Constancy.NOT_RESOLVED, None)
