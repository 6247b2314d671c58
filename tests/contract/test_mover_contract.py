"""What every mover keeps to, whichever way it moves a database. No server is asked."""

from __future__ import annotations

import pytest

from pgdyno.errors import UsageError
from pgdyno.migration.mover import Mover
from pgdyno.migration.movers.registry import MOVERS, mover_of
from pgdyno.migration.plan import MigrationPlan, all_steps, waits_of
from pgdyno.model.results.migrate import MigrationPhase
from pgdyno.stats.precedence import ordered, ring_of

P = MigrationPhase
OF_EVERY_MIGRATION = {P.ASSESS, P.CONFIGURATION, P.RUN_TIME, P.VALIDATION}
PLAN = MigrationPlan(name="x", source="dbname=x", folder="/x", load={"max_wal_size": "2GB"})


@pytest.fixture(params=sorted(MOVERS))
def mover(request: pytest.FixtureRequest) -> Mover:
    return mover_of(request.param)


def test_it_is_called_as_plans_call_it(mover: Mover) -> None:
    assert mover_of(mover.name).name == mover.name
    assert MOVERS[mover.name]


def test_it_has_phases_of_its_own_each_once_and_waits_for_no_other_ones(mover: Mover) -> None:
    steps = mover.steps({})
    phases = [one.phase for one in steps]
    assert phases
    assert len(set(phases)) == len(phases)
    assert not OF_EVERY_MIGRATION & {*phases}
    assert {other for one in steps for other in one.after} <= {*phases}


def test_its_phases_can_be_brought_into_an_order_that_ends_with_the_validation(mover: Mover) -> None:
    waits = waits_of(all_steps(PLAN, mover.steps({})))
    assert ring_of(waits) == ()
    names = ordered(waits)
    assert names[0] == P.ASSESS
    assert names.index(P.RUN_TIME) < names.index(P.VALIDATION)
    late = {P.VALIDATION.value, P.WAY_BACK.value}
    assert {*names[names.index(P.VALIDATION) :]} <= late


def test_something_is_validated_after_all_that_is_moved(mover: Mover) -> None:
    steps = {one.phase: one for one in all_steps(PLAN, mover.steps({}))}
    moved = {one.phase for one in mover.steps({}) if not one.left_out} - {P.WAY_BACK}
    assert moved <= {*steps[P.VALIDATION].after}


def test_it_refuses_an_option_that_it_does_not_know(mover: Mover) -> None:
    with pytest.raises(UsageError) as caught:
        mover.check({"no_such_option": "1"})
    assert "no_such_option" in caught.value.message
    mover.check({})


def test_a_word_that_is_no_mover_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        mover_of("dmp")
    assert "dump" in str(caught.value.hint)
