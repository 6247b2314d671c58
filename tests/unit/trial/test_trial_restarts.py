"""The restart budget of a study: what counts, what waits, and what ends it."""

from datetime import datetime, timedelta
from itertools import permutations

import pytest

from facts_from_params import make_facts
from pgdyno.control.restart_budget import RestartBudget
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.trial.restarts import LOOK_S, Restarts

BIG, BIGGER = Configuration.of({"shared_buffers": "1GB"}), Configuration.of({"shared_buffers": "2GB"})
LIGHT = Configuration.of({"work_mem": "8MB"})


class Clock:
    def __init__(self, text="12:00"):
        self.now = datetime.fromisoformat(f"2026-03-01 {text}")

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += timedelta(seconds=seconds)


def restarts(budget=None, clock=None, **more):
    clock = clock or Clock()
    more.setdefault("always", False)
    return Restarts(
        make_facts(18), RestartBudget.parse(budget) if budget else None, now=clock, sleep=clock.sleep, **more
    )


def never(permission):
    raise AssertionError(permission.reason)


@pytest.mark.requirement("R-TUN-06")
def test_only_what_needs_a_restart_counts():
    budget = restarts("3")
    for configuration, used in [(LIGHT, 0), (BIG, 1), (BIG, 1), (BIGGER, 2), (LIGHT, 3), (BASELINE, 3)]:
        budget.allow(configuration, never)
        assert budget.used == used
    with pytest.raises(EnvironmentUnsuitable, match="budget of 3 restarts is used up"):
        budget.allow(BIG, never)
    budget.allow(LIGHT, never)


@pytest.mark.requirement("R-TUN-06")
def test_a_pool_of_huge_pages_counts_because_postgresql_sees_it_only_when_it_starts():
    budget, pool = restarts("1"), Configuration.of({"vm.nr_hugepages": "200", "vm.swappiness": "1"})
    budget.allow(pool, never)
    budget.allow(Configuration.of({**pool, "vm.swappiness": "2"}), never)
    assert budget.used == 1
    with pytest.raises(EnvironmentUnsuitable, match="budget of 1 restarts is used up"):
        budget.allow(LIGHT, never)


def test_a_restart_before_every_trial_counts_every_trial():
    budget = restarts("2", always=True)
    budget.allow(BASELINE, never)
    budget.allow(LIGHT, never)
    assert budget.used == 2


def test_without_a_bound_any_number_is_allowed():
    budget = restarts(None, always=True)
    for _ in range(50):
        budget.allow(BIG, never)
    assert budget.used == 50


def test_a_resumed_study_counts_the_same():
    one, other = restarts("5"), restarts("5")
    for configuration in (BIG, LIGHT, BIGGER):
        one.allow(configuration, never)
        other.replay(configuration)
    assert one.used == other.used == 3


@pytest.mark.requirement("R-TUN-06")
def test_a_window_is_waited_for_and_told():
    clock, waits = Clock("21:58"), []
    budget = restarts("22:00-05:00", clock)
    budget.allow(LIGHT, never)
    budget.allow(BIG, waits.append)
    assert clock.now >= datetime.fromisoformat("2026-03-01 22:00")
    assert len(waits) == 120 / LOOK_S
    assert waits[0].reason == "restarts are allowed 22:00-05:00 only, and it is 21:58"


@pytest.mark.parametrize("before", [BASELINE, BIG, LIGHT])
@pytest.mark.parametrize(
    ("arms", "most"),
    [((), 0), ((BASELINE, LIGHT), 0), ((BIG, BIGGER), 2), ((BASELINE, BIG, LIGHT), 3), ((BIG, BIG), 1), ((BIG,), 1)],
)
def test_the_most_restarts_of_some_trials_hold_in_every_order(before, arms, most):
    for order in permutations(arms):
        budget = restarts()
        budget.replay(before)
        began, bound = budget.used, budget.most(arms)
        for configuration in order:
            budget.replay(configuration)
        assert budget.used - began <= bound <= most + (before is BIG)
    assert restarts(always=True).most(arms) == len(arms)
