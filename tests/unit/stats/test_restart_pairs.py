"""The arithmetic of a restart bundle: never more restarts than are printed, and no word from fewer than three pairs."""

import itertools

import pytest

from pgdyno.stats.restart_pairs import COLD_S, PAIRS, PERIOD_S, USUAL_SD, restart_pairs, restarts_of
from pgdyno.stats.sequential import Design


@pytest.mark.parametrize("pairs", range(1, 13))
def test_the_restarts_are_those_of_the_order_and_the_server_ends_as_it_was(pairs):
    order = "".join("AB" if number % 2 == 0 else "BA" for number in range(pairs))
    arms = f"A{order}A"
    assert restarts_of(pairs) == sum(one != other for one, other in itertools.pairwise(arms))


def test_few_pairs_show_large_effects_alone_and_more_scatter_shows_less():
    found = restart_pairs([0.3, 0.02, None], Design())
    assert [one.pairs for one in found] == list(PAIRS)
    assert min(PAIRS) == Design().min_pairs == 3
    effects = [one.effect for one in found if one.effect is not None]
    assert effects == sorted(effects, reverse=True)
    assert (effects[0], effects[-1]) == (pytest.approx(0.33, abs=0.01), pytest.approx(0.09, abs=0.01))
    assert found == restart_pairs([USUAL_SD], Design()), "a short period promises nothing"
    noisy = restart_pairs([0.02, 0.3], Design())
    assert all(two.effect is None or (one.effect or 0) < two.effect for one, two in zip(found, noisy, strict=True))
    assert found == restart_pairs([], Design())


def test_windows_hold_whole_pairs():
    one = restart_pairs([], Design())[1]
    assert (one.pairs, one.seconds) == (4, 8 * PERIOD_S)
    assert [one.windows(hours * 3600.0) for hours in (0.5, 1.0, 2.5, 24.0)] == [0, 4, 2, 1]


def test_the_numbers_are_those_that_are_told():
    assert PAIRS == (3, 4, 5, 6, 8, 12)
    assert (PERIOD_S, COLD_S, USUAL_SD) == (1800.0, 600.0, 0.08)
    assert [one.restarts for one in restart_pairs([], Design())] == [4, 4, 6, 6, 8, 12]
    assert [one.windows(3600.0) for one in restart_pairs([], Design())] == list(PAIRS)
