"""An A/B within a restart budget: counted before the first pair, refused where it does not reach."""

from __future__ import annotations

from itertools import pairwise

import pytest

from facts_from_params import make_facts
from pgdyno.control.restart_budget import RestartBudget
from pgdyno.errors import ExitCode, UsageError
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.stats.sequential import Design
from pgdyno.studies.ab.run import FIRST_BLOCK, A, B, within_budget
from pgdyno.studies.pairs.blocks import block_order

FACTS = make_facts(18)
BIG, BIGGER = Configuration.of({"shared_buffers": "1GB"}), Configuration.of({"shared_buffers": "2GB"})
LIGHT = Configuration.of({"work_mem": "8MB"})
DESIGN = Design(min_pairs=4, max_pairs=20)


def within(budget: str | None, a: Configuration, b: Configuration, seed: int = 1) -> Design:
    parsed = None if budget is None else RestartBudget.parse(budget)
    return within_budget(DESIGN, parsed, a, b, facts=FACTS, seed=seed)


@pytest.mark.parametrize("budget", [None, "none", "0", "22:00-05:00"])
def test_knobs_that_need_no_restart_fit_into_any_budget(budget):
    assert within(budget, BASELINE, LIGHT) == DESIGN


def test_without_a_number_any_restarts_are_allowed():
    assert within(None, BASELINE, BIG) == within("22:00-05:00", BASELINE, BIG) == DESIGN


@pytest.mark.parametrize("budget", ["none", "3", "none@22:00-05:00"])
def test_a_budget_that_does_not_reach_for_the_fewest_pairs_is_refused(budget):
    with pytest.raises(UsageError, match=r"is too small: 4 pairs need [4-8] restarts") as caught:
        within(budget, LIGHT, BIG)
    assert caught.value.exit_code is ExitCode.USAGE
    assert caught.value.detail == "shared_buffers needs a restart, and A and B differ in it."
    assert "--restarts" in caught.value.hint


def test_a_knob_that_both_set_takes_one_restart():
    both = Configuration.of({**BIG, **LIGHT})
    assert within("1", BIG, both) == DESIGN
    with pytest.raises(UsageError, match=r"need 1 restart$") as caught:
        within("none", BIG, both)
    assert caught.value.detail == "shared_buffers needs a restart, and both A and B set it."


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("limit", [9, 12, 20, 30, 40])
def test_the_pairs_that_fit_are_those_that_the_order_of_the_pairs_allows(seed, limit):
    pairs = within(str(limit), BIG, BIGGER, seed).max_pairs
    order = [arm for block in range(FIRST_BLOCK, FIRST_BLOCK + 20) for arm in block_order((A, B), block, seed)]
    switches = [1, *(before != after for before, after in pairwise(order))]
    assert sum(switches[: 2 * pairs]) <= limit
    assert pairs == 20 or sum(switches[: 2 * pairs + 2]) > limit
