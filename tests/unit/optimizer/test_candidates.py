"""The points among which the acquisition chooses: how many knobs move, how far, and which rows may be tried."""

from __future__ import annotations

import numpy as np
import pytest

from pgdyno.knobs.dimension import Dimension
from pgdyno.optimizer.ask import local, spread
from pgdyno.optimizer.candidates import Allowed, anything, perturbed, search
from pgdyno.optimizer.encoding import Encoding, Point, Rows

ROWS = 20_000


def numbers(count: int) -> Encoding:
    return Encoding([Dimension(f"k{place}", "integer", 0, 1000, default=500) for place in range(count)], [])


def words(count: int) -> Encoding:
    choices = ("a", "b", "c")
    return Encoding([Dimension(f"k{place}", "choice", choices=choices, default="a") for place in range(count)], [])


def moved_of(encoding: Encoding, seed: int = 1) -> np.ndarray:
    """Return how many knobs of each row take another value."""
    around = np.tile(encoding.default, (ROWS, 1))
    return np.asarray((perturbed(encoding, around, np.random.default_rng(seed)) != around).sum(axis=1))


def test_mostly_one_or_two_knobs_move_and_never_more_than_six() -> None:
    """Trials until a success of 0.45: one knob in 45 of 100 rows, two in 24.75, and what is beyond six is six."""
    moved = moved_of(words(9))
    shares = np.bincount(moved, minlength=7) / ROWS
    assert (moved.min(), moved.max()) == (1, 6)
    assert shares[1:4] == pytest.approx([0.45, 0.45 * 0.55, 0.45 * 0.55**2], abs=0.015)
    assert shares[6] == pytest.approx(0.55**5, abs=0.01)
    assert moved_of(words(2)).max() == 2


def test_seven_of_ten_rows_move_a_little_and_three_far() -> None:
    """By normal steps of 0.12 and of 0.5 of the range, folded at its bounds.

    Between a quarter and three quarters of the range go 3.7 % of the short steps and 48.3 % of the long ones, and 1.2 %
    of the long ones come to lie there by their second fold.
    """
    encoding = numbers(1)
    around = np.tile(encoding.default, (ROWS, 1))
    found = perturbed(encoding, around, np.random.default_rng(2))
    places = [abs(float(encoding.point(row)["k0"]) - 500) / 1000 for row in found[:4000]]
    assert np.mean([place > 0.25 for place in places]) == pytest.approx(0.7 * 0.037 + 0.3 * 0.495, abs=0.02)
    assert np.median(places) == pytest.approx(0.11, abs=0.02)


class Asked:
    """Constraints that count how often they are asked."""

    def __init__(self, *odd: str) -> None:
        self.count, self.odd = 0, odd

    def __call__(self, point: Point) -> bool:
        self.count += 1
        return point["k0"] not in self.odd


def test_a_row_is_allowed_where_it_is_new_and_feasible_and_is_asked_for_once() -> None:
    encoding, feasible = words(1), Asked("b")
    tried: Rows = encoding.rows([{"k0": "a"}])
    allowed = Allowed(encoding, np.vstack([tried, tried]), feasible)
    every = encoding.rows([{"k0": "a"}, {"k0": "b"}, {"k0": "c"}, {"k0": "c"}])
    assert [allowed(row) for row in every] == [False, False, True, True]
    assert (allowed.tried, feasible.count) == (1, 2)
    assert [encoding.point(row)["k0"] for row in allowed.first(every, 5)] == ["c", "c"]
    assert allowed.first(every, 1).shape == (1, 1)
    assert allowed.first(every[:2]).shape == (0, 1)


def test_the_search_finds_the_best_row_that_is_allowed() -> None:
    """In a space of nine words the score says how many knobs are what it wants; the very best is not allowed."""
    encoding = words(9)
    best = encoding.rows([{f"k{place}": "c" for place in range(9)}])
    allowed = Allowed(encoding, np.vstack([best, encoding.default]), lambda _: True)

    def score(rows: Rows) -> np.ndarray:
        return np.asarray((rows == best[0]).sum(axis=1), dtype=np.float64)

    (found,) = search(encoding, encoding.default[None, :], score, allowed, np.random.default_rng(3))
    assert score(found[None, :])[0] == 8


def test_where_nothing_is_allowed_nothing_is_found() -> None:
    encoding = words(2)
    allowed = Allowed(encoding, encoding.default[None, :], lambda _: False)
    rng = np.random.default_rng(4)
    none = search(encoding, encoding.default[None, :], lambda rows: np.zeros(len(rows)), allowed, rng)
    assert none.shape == anything(encoding, encoding.default, allowed, rng).shape == (0, 2)


def test_each_knob_takes_a_value_from_each_part_of_its_range_once() -> None:
    encoding = words(4)
    found = spread(encoding, 9, 5)
    for place in range(4):
        told = [encoding.point(row)[f"k{place}"] for row in found]
        assert sorted(map(str, told)) == [*"aaabbbccc"]
    assert len({tuple(row) for row in found.tolist()}) > 3


def test_near_the_best_four_of_ten_knobs_move_and_one_at_least() -> None:
    encoding = words(5)
    moved = (local(encoding, encoding.default, ROWS, np.random.default_rng(6)) != encoding.default).sum(axis=1)
    assert moved.min() == 1
    # Of five knobs each moves by itself in two of five rows, and one of them is moved anyhow.
    assert moved.mean() == pytest.approx(5 * (0.2 + 0.8 * 0.4), abs=0.03)
