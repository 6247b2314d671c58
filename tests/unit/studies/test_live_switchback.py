"""A study of two arms on a world that is made up: what is judged, what is dropped, and that the baseline comes back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pgdyno.errors import ApplyError, ConnectError, ServerStopped
from pgdyno.model.verdict import Interval, Metric, Word
from pgdyno.stats.body_index import PeriodCounts
from pgdyno.stats.sequential import Design
from pgdyno.stats.statement_deltas import VoidCause
from pgdyno.stats.veto import Slower
from pgdyno.studies.live.switchback import (
    GUARD_REST_S,
    LATE_EFFECT,
    MOST_UNMATCHED,
    NEW_STATEMENTS,
    UNMATCHED,
    Switchback,
)
from pgdyno.studies.live.world import BASELINE_ARM, A, B, LiveStopped, StopAsked
from pgdyno.trial.live_cycle import LiveEnding
from simulated_live_world import World, breached


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


def test_a_cancelled_statement_of_much_of_the_work_is_named_though_no_pair_can_be_judged():
    class Cancelling(World):
        def count(self, seconds):
            found = super().count(seconds)
            if self.arm == B:
                found.calls[:40] = found.time_ms[:40] = 0.0
            return found

    told = study(Cancelling(0.8)).run()
    assert told.pairs == ()
    assert set(told.vanished) <= set(range(40))
    assert 0 in told.vanished
    assert "hardly ended under B" in told.stopped
    assert not told.is_acceptable


def test_a_winner_is_acceptable_and_one_of_a_guard_or_a_worse_tail_is_not():
    told = study(World(0.8, seed=3)).run()
    assert told.is_acceptable
    assert not replace(told, body=replace(told.body, covered=0.4)).is_acceptable
    assert not replace(told, breaches=(breached().breach,)).is_acceptable
    assert not replace(told, vetoed={3: Slower(2.0, 2)}).is_acceptable
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


@pytest.mark.parametrize("place", [1, 2, 3])
def test_a_server_that_somebody_else_has_shut_down_ends_it_with_the_pairs_that_there_are(place):
    """Where a switch meets their own restart, too: the server is left to them, and this is no error of the study."""
    world = World(happens={("apply", place): ServerStopped('server "shop" was shut down outside of this session')})
    told = study(world).run()
    assert told.ending is LiveEnding.STOPPED
    assert told.stopped.endswith("was shut down outside of this session")
    assert not told.is_asked
    assert len(told.pairs) == (place - 1) // 2
    assert world.back == 1


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


def test_a_guard_that_may_stop_b_once_ends_it_in_the_baseline_and_nobody_rests_for_it():
    world = World(happens={("count", number): breached() for number in range(1, 9)})
    told = Switchback(world, world.reference, 30.0, Design(), seed=3, most_stops=1).run()
    blamed = [arm for arm in world.applied if arm == B]
    assert (told.ending, len(blamed)) == (LiveEnding.NOTHING_LEFT, 1)
    assert world.applied[-1] == BASELINE_ARM
    assert len(world.rests) == len(told.breaches) - 1, "those under A alone"
    assert world.back == 1


@pytest.mark.parametrize(("error", "asked"), [(LiveStopped("somebody else"), False), (StopAsked("a person"), True)])
@pytest.mark.parametrize("place", [("apply", 1), ("count", 1), ("count", 8)])
def test_who_stops_it_has_the_server_back_and_the_pairs_of_before(error, asked, place):
    world = World(0.97, happens={place: error})
    told = study(world).run()
    assert (told.ending, told.stopped, told.is_asked) == (LiveEnding.STOPPED, error.message, asked)
    assert len(told.pairs) == (3 if place == ("count", 8) else 0)
    assert world.back == 1


def test_a_load_that_follows_the_server_is_given_up_with_its_work_named():
    class Closed(World):
        def count(self, seconds):
            found = super().count(seconds)
            share = 0.5 if self.arm == B else 1.0
            return PeriodCounts(share * found.calls, found.time_ms)

    world = Closed()
    told = study(world).run()
    assert told.ending is LiveEnding.NOTHING_LEFT
    assert told.lost[UNMATCHED] == MOST_UNMATCHED
    assert "% of that under A" in told.stopped
    assert 40 < int(told.stopped.split("under B ")[1].split(" ")[0]) < 60


def test_what_was_judged_is_heard_after_each_pair_and_when_it_is_broken_off():
    world, heard = World(0.8, happens={("count", 5): KeyboardInterrupt()}), []
    with pytest.raises(KeyboardInterrupt):
        Switchback(world, world.reference, 30.0, Design(min_pairs=9), seed=3, hear=heard.append).run()
    assert [len(one.pairs) for one in heard] == [1, 2, 2]
    assert len(heard[-1].kept) == len(heard[-1].orders) == 2


class Late(World):
    """B's effect is there in the second half of a period alone, until periods are long enough."""

    def count(self, seconds):
        whole = super().count(seconds)
        late = 0.8 if self.arm == B and seconds < 30 else 1.0
        calls, time_ms = whole.calls / 2, whole.time_ms / 2
        return replace(whole, time_ms=time_ms * (1 + late), first=PeriodCounts(calls, time_ms))


def test_an_effect_that_comes_late_lengthens_periods_and_begins_the_verdict_anew():
    world = Late(0.9)
    told = Switchback(world, world.reference, 30.0, Design(min_pairs=9), seed=3).run()
    assert told.lost[LATE_EFFECT] == 8
    assert (told.period_s, told.wash_s) == (60.0, 10.0)
    assert told.verdict.interval.lo <= 0.9 <= told.verdict.interval.hi
    assert len(told.pairs) == told.verdict.pairs


def test_an_effect_that_is_there_at_once_leaves_the_periods_alone():
    class Even(World):
        def count(self, seconds):
            whole = super().count(seconds)
            return replace(whole, first=PeriodCounts(whole.calls / 2, whole.time_ms / 2))

    world = Even(0.9)
    told = Switchback(world, world.reference, 30.0, Design(min_pairs=9), seed=3).run()
    assert (told.period_s, told.lost.get(LATE_EFFECT, 0)) == (30.0, 0)


@pytest.mark.requirement("R-TUN-03")
def test_a_wash_out_that_was_asked_for_is_not_shortened_and_long_periods_stay_long():
    world = World(0.8, crossed=range(1, 4))
    waited = []
    world.wash = lambda least_s, most_s: waited.append((least_s, most_s)) or len(waited) > 3
    told = Switchback(world, world.reference, 400.0, Design(), seed=3, wash_s=160.0).run()
    assert {*waited} == {(160.0, 160.0)}
    assert (told.period_s, told.wash_s) == (400.0, 160.0)


def test_a_study_whose_restarts_are_spent_waits_for_no_window_and_says_why():
    world = World(0.8)
    told = replace(study(world), in_windows=True, spent="6 restarts were approved").run()
    assert (told.ending, told.verdict, told.stopped) == (LiveEnding.NOTHING_LEFT, None, "6 restarts were approved")
    assert not world.applied
