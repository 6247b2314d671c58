"""A study of two arms on a world that is made up: what is judged, what is dropped, and that the baseline comes back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from live_simulation import LiveSimulation, SimulatedLoad
from pgdyno.errors import ApplyError, ConnectError
from pgdyno.model.guard import Breach, GuardKind, GuardReading
from pgdyno.model.verdict import Interval, Metric, Word
from pgdyno.stats.body_index import PeriodCounts
from pgdyno.stats.sequential import Design
from pgdyno.stats.statement_deltas import VoidCause
from pgdyno.studies.live.switchback import BASELINE_ARM, GUARD_REST_S, NEW_STATEMENTS, UNMATCHED, A, B, Switchback
from pgdyno.trial.live_cycle import LiveEnding
from pgdyno.trial.sentry import GuardBreached


def breached(kind=GuardKind.CONFIGURATION):
    return GuardBreached(Breach("temp", kind, 1.0, 1.0, GuardReading("temp", 1.0, 9.0), 1.0, "too much"))


class World:
    """Applies arms to a simulated load; `happens` maps the number of a call to what comes of it instead."""

    def __init__(self, factors=1.0, *, seed=1, pairs=99, happens=None, crossed=()):
        self.simulation = LiveSimulation(SimulatedLoad(), seed)
        self.reference = self.simulation.reference(60, 10.0)
        self.factors, self.room, self.happens, self.crossed = factors, pairs, happens or {}, crossed
        self.arm, self.applied, self.rests, self.counted, self.back = BASELINE_ARM, [], [], 0, 0
        self.washes = 0

    def apply(self, arm):
        self.applied.append(arm)
        self._perhaps(("apply", len(self.applied)))
        self.arm = arm

    def wash(self, least_s, most_s):
        self.washes += 1
        return self.washes not in self.crossed

    def count(self, seconds):
        self.counted += 1
        found = self.simulation.period(seconds, self.factors if self.arm == B else 1.0)
        other = self._perhaps(("count", self.counted))
        return found if other is None else other(found) if callable(other) else other

    def has_room(self, seconds):
        self.room -= 1
        return self.room >= 0

    def rest(self, seconds):
        assert self.arm == BASELINE_ARM
        self.rests.append(seconds)

    def put_back(self):
        self.back += 1

    def _perhaps(self, key):
        what = self.happens.get(key)
        if isinstance(what, BaseException):
            raise what
        return what


def study(world, **design):
    return Switchback(world, world.reference, 30.0, Design(**design), seed=3)


def test_a_faster_configuration_is_better_and_the_baseline_is_back_before_anybody_is_asked():
    world = World(0.8)
    told = study(world).run()
    assert (told.ending, told.verdict.word) == (LiveEnding.DECIDED, Word.BETTER)
    assert told.verdict.metric is Metric.STATEMENT_TIME
    assert told.verdict.interval.lo <= 0.8 <= told.verdict.interval.hi
    assert len(told.pairs) == told.verdict.pairs
    assert world.applied[-1] == BASELINE_ARM
    assert world.back == 1
    assert {*zip(world.applied[:-1:2], world.applied[1:-1:2], strict=True)} <= {(A, B), (B, A)}
    assert told.tail is not None


def test_a_slower_one_is_worse_and_equal_ones_are_not_told_apart():
    assert study(World(1.25)).run().verdict.word is Word.WORSE
    assert study(World(1.0)).run().verdict.word in (Word.EQUIVALENT, Word.NOT_RESOLVED)


def test_when_the_time_is_over_the_pairs_that_there_are_are_judged():
    world = World(0.8, pairs=2)
    told = study(world).run()
    assert (told.ending, told.verdict.word, len(told.pairs)) == (LiveEnding.NOTHING_LEFT, Word.NOT_RESOLVED, 2)
    assert world.back == 1
    assert study(World(pairs=0)).run().verdict is None


@pytest.mark.parametrize(
    ("what", "cause"),
    [
        (VoidCause.RESET, VoidCause.RESET.value),
        (lambda found: PeriodCounts(found.calls, found.time_ms, found.time_ms.sum()), NEW_STATEMENTS),
        (lambda found: PeriodCounts(2 * found.calls, 2 * found.time_ms), UNMATCHED),
    ],
)
def test_a_pair_that_was_void_or_unequal_is_drawn_again_and_leaves_the_verdict_alone(what, cause):
    world = World(0.8, happens={("count", 2): what})
    told = study(world).run()
    assert told.lost[cause] == 1
    assert told.verdict.word is Word.BETTER
    assert told.verdict.interval.lo <= 0.8 <= told.verdict.interval.hi


def test_three_void_pairs_in_a_row_end_it():
    world = World(happens={("count", number): VoidCause.EVICTED for number in range(99)})
    assert study(world).run().ending is LiveEnding.TOO_MANY_VOID
    assert world.back == 1


def test_one_slow_statement_is_vetoed_though_the_rest_gains():
    world = World()
    often = [number for number in range(200) if world.simulation.rates[number] * 25 > 200]
    slow = min(often, key=lambda number: world.simulation.cvs[number])
    factors = np.full(200, 0.9)
    factors[slow] = 3.0
    world.factors = factors
    told = study(world, smallest_effect=0.0001, min_pairs=20).run()
    assert list(told.vetoed) == [slow]
    assert told.ending is LiveEnding.NOTHING_LEFT
    assert world.applied[-1] == BASELINE_ARM
    assert world.rests == []


def test_a_statement_that_is_cancelled_under_b_makes_no_winner():
    class Cancelling(World):
        def count(self, seconds):
            found = super().count(seconds)
            if self.arm == B:
                found.calls[0] = found.time_ms[0] = 0.0
            return found

    world = Cancelling(0.8)
    body = study(world)
    told = body.run()
    assert told.verdict.word is Word.BETTER
    assert told.vanished == (0,)
    assert not told.is_acceptable


def test_a_winner_is_acceptable_and_one_of_a_guard_or_a_worse_tail_is_not():
    told = study(World(0.8, seed=3)).run()
    assert told.is_acceptable
    assert not replace(told, body=replace(told.body, covered=0.4)).is_acceptable
    assert not replace(told, breaches=(breached().breach,)).is_acceptable
    assert not replace(told, vetoed={3: 2.0}).is_acceptable
    assert not replace(told, tail=Interval(2.0, 1.3, 3.0, 0.95)).is_acceptable
    assert replace(told, tail=Interval(2.0, 1.2, 3.0, 0.95)).is_acceptable
    assert not study(World(1.25)).run().is_acceptable


def test_a_guard_brings_the_baseline_back_and_the_third_stop_under_b_is_the_last():
    counts = {("count", number): breached() for number in range(1, 99)}
    world = World(happens=counts)
    told = study(world).run()
    assert told.pairs == ()
    assert world.rests == [GUARD_REST_S] * len(world.rests)
    assert all(world.applied[at + 1] == BASELINE_ARM for at, arm in enumerate(world.applied) if arm != BASELINE_ARM)
    assert told.ending in (LiveEnding.NOTHING_LEFT, LiveEnding.TOO_MANY_STOPS)
    assert 3 <= len(told.breaches) <= 5
    assert world.back == 1


def test_what_is_not_in_force_ends_it_and_what_cannot_be_put_back_is_the_watchdog_s():
    world = World(happens={("apply", 1): ApplyError("not in force")})
    assert study(world).run().ending is LiveEnding.NOT_IN_FORCE
    assert world.back == 1
    world = World(happens={("count", 1): breached(), ("apply", 2): ConnectError("gone")})
    assert study(world).run().ending is LiveEnding.LEFT_TO_WATCHDOG


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ConnectError("gone")])
@pytest.mark.parametrize("place", [("apply", 1), ("apply", 4), ("count", 1), ("count", 4)])
def test_whatever_is_raised_the_server_is_put_back_once(error, place):
    world = World(happens={place: error})
    with pytest.raises(type(error)):
        study(world).run()
    assert world.back == 1


def test_periods_that_are_crossed_again_and_again_are_lengthened_and_the_verdict_begins_anew():
    world = World(0.8, crossed=(5, 6, 7))
    told = study(world).run()
    assert told.period_s == 60.0
    assert told.verdict.word is Word.BETTER
    assert told.verdict.pairs < world.counted / 2


def test_the_same_seed_draws_the_same_orders():
    one, other = World(0.8), World(0.8)
    assert study(one).run().verdict == study(other).run().verdict
    assert one.applied == other.applied
