"""Sweeps: the region of the best, where the plateau begins, and what is not claimed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.model.verdict import Interval
from pgdyno.stats.plateau import Plateau, find_plateau

NAMES = ("32MB", "64MB", "128MB", "512MB")


def levels(*means, cv=0.005, blocks=8, seed=1, drift=0.3):
    """Draw figures of levels that share the drift of their blocks."""
    chance = np.random.default_rng(seed)
    common = np.exp(chance.normal(0, drift, blocks))
    return [list(mean * common * np.exp(chance.normal(0, cv, blocks))) for mean in means]


@pytest.mark.requirement("R-EXP-14")
def test_the_plateau_begins_where_going_further_gains_nothing():
    found = find_plateau(levels(100, 130, 160, 160.3))
    assert (found.start, found.proven, found.region) == (2, True, (2, 3))
    assert found.at_most <= 0.02
    assert found.sentence(NAMES) == (
        "the best lies among 128MB, 512MB; from 128MB on going further gains less than 2 %"
    )


@pytest.mark.parametrize(("count", "pairs"), [(2, 1), (3, 3), (4, 6), (6, 15)])
def test_all_pairs_of_levels_share_the_error(count, pairs):
    """A gain may be claimed of any two of them, so that their intervals have to hold together."""
    found = find_plateau(levels(*[100] * count), confidence=0.95)
    assert [one.confidence for one in found.over_first] == pytest.approx([1 - 0.05 / pairs] * count)


def test_noise_leaves_the_plateau_unproven_and_says_what_is_not_excluded():
    found = find_plateau(levels(100, 130, 160, 161, cv=0.05))
    assert found.start == 2
    assert not found.proven
    assert "is not excluded" in found.sentence(NAMES)


def test_a_curve_that_still_rises_has_no_plateau():
    found = find_plateau(levels(100, 110, 120, 130))
    assert found.region == (3,)
    assert "before any plateau" in found.sentence(NAMES)


def test_a_fall_after_the_best_is_told():
    found = find_plateau(levels(100, 130, 160, 120))
    assert (found.best, found.falls, found.start, found.region) == (2, True, 2, (2,))
    assert "worse again" in found.sentence(NAMES)


def test_of_equal_levels_nothing_is_claimed():
    found = find_plateau(levels(100, 100, 100, 100))
    assert found.is_flat
    assert found.start == 0
    assert found.sentence(NAMES).startswith("no level is shown to differ")


def test_less_is_better_for_latency():
    found = find_plateau(levels(10, 5, 5.01, 8), higher_is_better=False)
    assert found.start == 1
    assert 3 not in found.region
    assert found.over_first[1].ratio == pytest.approx(2, rel=0.02)


def test_equal_levels_are_rarely_told_apart():
    wrong = sum(not find_plateau(levels(100, 100, 100, cv=0.05, seed=seed)).is_flat for seed in range(300))
    assert wrong <= 26, "at most one in twenty, and three standard deviations of that count"


@given(st.lists(st.lists(st.floats(1, 1e6), min_size=3, max_size=3), min_size=2, max_size=5))
def test_any_figures_give_a_region_and_a_start(figures):
    found = find_plateau(figures)
    assert found.region
    assert 0 <= found.start < len(figures)
    assert found.at_most >= 0
    assert found.sentence([str(place) for place in range(len(figures))])


def test_one_level_is_no_sweep():
    with pytest.raises(UsageError, match="at least two levels"):
        find_plateau([[1.0, 2.0]])


@pytest.mark.parametrize(("at_most", "words"), [(8.99, "one of up to 899 %"), (9.0, "even a tenfold one")])
def test_a_gain_is_told_in_percent_up_to_the_tenfold(at_most, words):
    steps = tuple(Interval(ratio, ratio, ratio, 0.95) for ratio in (1.0, 1.3, 1.3))
    found = Plateau(1, (1, 2), 1, False, at_most, steps, False, 0.02)
    assert found.sentence(["a", "b", "c"]).endswith(f"no further gain is shown, {words}" + (
        " is not excluded" if at_most < 9 else " (more blocks would tell) is not excluded"))  # fmt: skip


def test_what_a_flat_curve_leaves_open_goes_to_both_sides():
    steps = (Interval(1.0, 1.0, 1.0, 0.95), Interval(0.9, 0.5, 1.2, 0.95))
    assert "one of up to 100 % is not excluded" in Plateau(0, (0, 1), 0, False, 0.2, steps, False, 0.02).sentence("ab")


@pytest.mark.parametrize(
    ("means", "said"), [((100, 130, 200), "128MB is the best"), ((100, 200, 200.3), "the best lies among 64MB, 128MB")]
)
def test_one_level_is_the_best_and_several_are_where_it_lies(means, said):
    assert find_plateau(levels(*means)).sentence(NAMES[:3]).startswith(said)


def test_levels_without_any_scatter_differ_by_nothing_or_for_certain():
    flat = find_plateau([[5.0, 5.0]] * 3)
    assert (flat.region, flat.start, flat.best, flat.at_most, flat.proven, flat.falls) == (
        (0, 1, 2),
        0,
        0,
        0.0,
        True,
        False,
    )
    assert flat.over_first == (Interval(1.0, 1.0, 1.0, flat.over_first[1].confidence),) * 3
    risen = find_plateau([[100.0, 101.0], [150.0, 151.5]])
    assert (risen.start, risen.at_most, risen.proven) == (1, 0.0, True)
    fallen = find_plateau([[100.0, 101.0], [160.0, 161.6], [120.0, 121.2]])
    assert (fallen.best, fallen.start, fallen.falls, fallen.at_most) == (1, 1, True, 0.0)


def test_what_a_later_level_may_gain_is_the_most_of_any_and_proven_small_where_it_is_no_more_than_asked():
    figures = levels(100, 101, 99, cv=0.05)
    found = find_plateau(figures)
    ends = [one.hi - 1 for one in found.over_first[1:]]
    assert found.start == 0
    assert (found.at_most, found.proven) == (max(ends), False)
    assert found.at_most > min(ends) > 0
    assert find_plateau(figures, smallest_effect=found.at_most).proven
    assert not find_plateau(figures, smallest_effect=np.nextafter(found.at_most, 0)).proven


def test_an_interval_down_to_nothing_excludes_no_gain():
    steps = (Interval(1.0, 1.0, 1.0, 0.95), Interval(1.0, 0.0, 1.2, 0.95))
    assert "even a tenfold one" in Plateau(0, (0, 1), 0, False, 0.2, steps, False, 0.02).sentence("ab")
