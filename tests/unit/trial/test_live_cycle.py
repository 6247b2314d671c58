"""The order of a live study: every path ends with the server as it was found, whatever happens on it."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgdyno.trial.live_cycle import (
    CANDIDATE_STOPS,
    CROSSINGS,
    LOST_PAIRS,
    STUDY_STOPS,
    LiveCycle,
    LiveEnding,
    LiveEvent,
    LiveOrder,
    LivePhase,
    begin,
    is_candidate_dead,
    step,
)

GOOD_PERIOD = (LiveEvent.IN_FORCE, LiveEvent.CLEAN, LiveEvent.COUNTED)
GOOD_PAIR = (LiveEvent.PLANNED_PAIR, *GOOD_PERIOD, *GOOD_PERIOD)
START = (LiveEvent.CHECKS_HOLD, LiveEvent.LENGTH_FOUND)


def walked(*events):
    """Return the last step, and all orders on the way."""
    at = begin()
    orders = list(at.orders)
    for event in events:
        at = step(at.cycle, event)
        orders += at.orders
    return at.cycle, orders


def allowed(cycle):
    found = []
    for event in LiveEvent:
        try:
            step(cycle, event)
        except ValueError:
            continue
        found.append(event)
    return found


def reachable():
    seen, waiting = set(), [begin().cycle]
    while waiting:
        cycle = waiting.pop()
        if cycle not in seen:
            seen.add(cycle)
            waiting += [step(cycle, event).cycle for event in allowed(cycle)]
    return seen


REACHABLE = sorted(reachable(), key=repr)
RUNNING = [cycle for cycle in REACHABLE if cycle.phase is not LivePhase.OVER]


def test_a_pair_is_two_periods_and_then_it_is_judged():
    assert begin().cycle.period == 0, "none of a pair is over"
    cycle, orders = walked(*START, *GOOD_PAIR)
    assert cycle.phase is LivePhase.JUDGING
    assert orders == [
        LiveOrder.CHECK, LiveOrder.WATCH_REFERENCE, LiveOrder.PLAN,
        *[LiveOrder.APPLY_ARM, LiveOrder.WASH, LiveOrder.COUNT] * 2, LiveOrder.JUDGE,
    ]  # fmt: skip


def test_a_verdict_waits_for_a_person_in_the_baseline():
    cycle, orders = walked(*START, *GOOD_PAIR, LiveEvent.MORE_PAIRS, *GOOD_PAIR, LiveEvent.FINAL)
    assert cycle.phase is LivePhase.DECIDED
    assert orders[-2:] == [LiveOrder.APPLY_BASELINE, LiveOrder.ASK_PERSON]
    end = step(cycle, LiveEvent.ANSWERED)
    assert (end.cycle.ending, end.orders) == (LiveEnding.DECIDED, (LiveOrder.PUT_BACK, LiveOrder.CONCLUDE))


@pytest.mark.parametrize(
    ("event", "ending"),
    [(LiveEvent.STOPPED, LiveEnding.STOPPED), (LiveEvent.INTERRUPTED, LiveEnding.INTERRUPTED)],
)
def test_a_stop_file_and_a_signal_end_it_from_everywhere(event, ending):
    for cycle in RUNNING:
        end = step(cycle, event)
        assert end.cycle == replace(cycle, phase=LivePhase.OVER, ending=ending)
        assert end.orders == ((LiveOrder.PUT_BACK,) if cycle.changed else ()) + (LiveOrder.CONCLUDE,)


def test_every_phase_is_reached_and_only_the_end_has_no_way_on():
    assert {cycle.phase for cycle in REACHABLE} == set(LivePhase)
    assert {cycle.ending for cycle in REACHABLE} == {None, *LiveEnding}
    for cycle in REACHABLE:
        assert (cycle.phase is LivePhase.OVER) == (allowed(cycle) == []) == (cycle.ending is not None)


@settings(max_examples=300)
@given(st.randoms(use_true_random=False), st.integers(0, 400))
def test_whatever_happens_it_ends_once_and_with_the_server_put_back(chance: random.Random, patience):
    at, orders = begin(), list(begin().orders)
    while at.cycle.phase is not LivePhase.OVER:
        patience -= 1
        happens = LiveEvent.STOPPED if patience < 0 else chance.choice(allowed(at.cycle))
        at = step(at.cycle, happens)
        orders += at.orders
    assert orders.count(LiveOrder.CONCLUDE) == 1
    assert orders[-1] is LiveOrder.CONCLUDE
    assert orders.count(LiveOrder.PUT_BACK) == int(LiveOrder.APPLY_ARM in orders)
    assert LiveOrder.APPLY_ARM not in orders or orders[-2] is LiveOrder.PUT_BACK
    for before, after in itertools.pairwise(orders):
        assert after is not LiveOrder.COUNT or before is LiveOrder.WASH
        assert after is not LiveOrder.WASH or before is LiveOrder.APPLY_ARM
        assert after is not LiveOrder.REST or before is LiveOrder.KEEP_EVIDENCE
        assert before is not LiveOrder.APPLY_BASELINE or after is not LiveOrder.COUNT


@pytest.mark.parametrize("event", [LiveEvent.VOID, LiveEvent.BREACH, LiveEvent.BREACH_OUTSIDE])
def test_nothing_of_a_pair_that_was_broken_off_is_kept(event):
    ways = [step(cycle, event).orders for cycle in RUNNING if event in allowed(cycle)]
    assert ways
    assert all(LiveOrder.DROP_PAIR in orders for orders in ways)


def test_a_guard_brings_the_baseline_back_before_anything_else():
    for events in (GOOD_PAIR[:1], GOOD_PAIR[:2], GOOD_PAIR[:3], GOOD_PAIR):
        cycle, _ = walked(*START, *events)
        assert step(cycle, LiveEvent.BREACH).orders[0] is LiveOrder.APPLY_BASELINE


REST = (LiveEvent.BASELINE_IN_FORCE, LiveEvent.RESTED)


def test_the_third_guard_stop_ends_the_candidate_and_the_fifth_the_study():
    broken = (LiveEvent.PLANNED_PAIR, LiveEvent.IN_FORCE, LiveEvent.BREACH)
    cycle, _ = walked(*START, *(broken + REST) * (CANDIDATE_STOPS - 1), *broken, REST[0])
    assert is_candidate_dead(cycle)
    assert step(cycle, LiveEvent.RESTED).cycle.candidate_stops == 0
    cycle, orders = walked(*START, *(broken + REST) * STUDY_STOPS)
    assert cycle.ending is LiveEnding.TOO_MANY_STOPS
    assert orders[-2:] == [LiveOrder.PUT_BACK, LiveOrder.CONCLUDE]


@pytest.mark.parametrize(
    ("broken", "phases"),
    [
        ((LiveEvent.PLANNED_PAIR, LiveEvent.IN_FORCE, LiveEvent.BREACH, *REST), "planned planned planned planned over"),
        ((LiveEvent.PLANNED_PAIR, LiveEvent.IN_FORCE, LiveEvent.CLEAN, LiveEvent.VOID), "planned planned over"),
    ],
)
def test_five_guard_stops_and_three_void_pairs_are_enough(broken, phases):
    numbers = range(1, len(phases.split()) + 1)
    assert " ".join(walked(*START, *broken * number)[0].phase for number in numbers) == phases


def test_two_guard_stops_leave_a_candidate_alive_and_three_do_not():
    broken = (LiveEvent.PLANNED_PAIR, LiveEvent.IN_FORCE, LiveEvent.BREACH)
    resting = [walked(*START, *(broken + REST) * number, *broken, REST[0])[0] for number in (1, 2)]
    assert [is_candidate_dead(cycle) for cycle in resting] == [False, True]


def test_a_period_has_its_place_in_the_pair_and_a_clean_one_ends_a_row_of_crossings():
    cycle, _ = walked(*START, LiveEvent.PLANNED_PAIR, LiveEvent.IN_FORCE, LiveEvent.CROSSED)
    assert (cycle.period, cycle.crossings) == (0, 1)
    for event in (LiveEvent.COUNTED, LiveEvent.IN_FORCE, LiveEvent.CLEAN):
        cycle = step(cycle, event).cycle
    assert (cycle.period, cycle.crossings) == (1, 0)


def test_what_is_no_arm_s_doing_costs_no_candidate():
    broken = (LiveEvent.PLANNED_PAIR, LiveEvent.IN_FORCE, LiveEvent.BREACH_OUTSIDE)
    cycle, _ = walked(*START, *(broken + REST) * CANDIDATE_STOPS, *broken, REST[0])
    assert not is_candidate_dead(cycle)


def test_a_vetoed_candidate_is_dead_at_once():
    cycle, _ = walked(*START, *GOOD_PAIR, LiveEvent.VETO, LiveEvent.BASELINE_IN_FORCE)
    assert is_candidate_dead(cycle)
    assert not is_candidate_dead(step(step(cycle, LiveEvent.RESTED).cycle, LiveEvent.PLANNED_PAIR).cycle)


def test_a_breach_after_a_veto_is_no_veto_of_the_next_candidate():
    """A guard may trip after the rest, before the next pair is drawn: what rests then has had one stop, and lives."""
    rested, _ = walked(*START, *GOOD_PAIR, LiveEvent.VETO, *REST)
    cycle = step(step(rested, LiveEvent.BREACH).cycle, LiveEvent.BASELINE_IN_FORCE).cycle
    assert (cycle.phase, cycle.candidate_stops) == (LivePhase.RESTING, 1)
    assert not is_candidate_dead(cycle)


def test_void_pairs_are_drawn_again_until_three_in_a_row():
    void = (LiveEvent.PLANNED_PAIR, LiveEvent.IN_FORCE, LiveEvent.CLEAN, LiveEvent.VOID)
    cycle, _ = walked(*START, *void * (LOST_PAIRS - 1), *GOOD_PAIR, LiveEvent.MORE_PAIRS, *void)
    assert (cycle.phase, cycle.lost) == (LivePhase.PLANNED, 1)
    assert walked(*START, *void * LOST_PAIRS)[0].ending is LiveEnding.TOO_MANY_VOID


def test_periods_that_are_crossed_again_and_again_become_longer():
    crossed = (LiveEvent.IN_FORCE, LiveEvent.CROSSED)
    cycle, orders = walked(
        *START, LiveEvent.PLANNED_PAIR, *crossed, LiveEvent.COUNTED, *crossed, LiveEvent.COUNTED, LiveEvent.MORE_PAIRS,
        LiveEvent.PLANNED_PAIR, *crossed,
    )  # fmt: skip
    assert CROSSINGS == 3
    assert orders[-3:] == [LiveOrder.DROP_PAIR, LiveOrder.LENGTHEN, LiveOrder.PLAN]
    assert (cycle.phase, cycle.crossings) == (LivePhase.PLANNED, 0)


def test_a_server_that_cannot_be_put_back_by_us_is_left_to_the_watchdog():
    cycle, _ = walked(*START, *GOOD_PAIR[:2], LiveEvent.BREACH)
    assert step(cycle, LiveEvent.BASELINE_LOST).cycle.ending is LiveEnding.LEFT_TO_WATCHDOG


def test_what_the_order_does_not_allow_is_refused():
    for event in (LiveEvent.COUNTED, LiveEvent.FINAL, LiveEvent.BREACH):
        with pytest.raises(ValueError, match="cannot be told"):
            step(LiveCycle(), event)
