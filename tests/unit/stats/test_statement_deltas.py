"""What two readings of pg_stat_statements say, held against the calls that were really made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgdyno.stats.statement_deltas import StatementDeltas, StatementSnapshot, VoidCause, deltas

TIMES = st.lists(st.floats(0.001, 1e6), min_size=1, max_size=30)


def snapshot(calls_of, at=0.0, **more):
    """A reading after these calls, by statement: lists of milliseconds."""
    ids = np.array(sorted(calls_of), dtype=np.int64)
    times = [np.array(calls_of[number], dtype=np.float64) for number in ids]
    none = np.zeros(ids.size)
    columns = {
        "calls": np.array([one.size for one in times], dtype=np.float64),
        "exec_ms": np.array([one.sum() for one in times]),
        "sd_ms": np.array([one.std() if one.size else 0.0 for one in times]),
        "plans": none, "plan_ms": none, "rows": none, "blocks": none,
        "since": np.full(ids.size, np.nan),
    }  # fmt: skip
    return StatementSnapshot(at=at, started_at=1.0, ids=ids, **{**columns, **more})


@settings(max_examples=60)
@given(TIMES, TIMES)
def test_the_calls_in_between_come_out_with_their_mean_and_scatter(earlier, later):
    found = deltas(snapshot({7: earlier}), snapshot({7: earlier + later}, at=30.0))
    assert isinstance(found, StatementDeltas)
    assert found.calls.tolist() == [len(later)]
    assert found.seconds == 30.0
    scale = max([*earlier, *later])
    assert found.exec_ms[0] == pytest.approx(sum(later), abs=1e-9 * scale * 60)
    assert found.m2[0] == pytest.approx(np.var(later) * len(later), rel=1e-6, abs=1e-6 * scale**2 * 60)


def test_a_new_statement_counts_from_zero_and_an_idle_one_is_left_out():
    found = deltas(snapshot({1: [5.0]}), snapshot({1: [5.0], 9: [1.0, 3.0]}, at=5.0))
    assert found.ids.tolist() == [9]
    assert found.time_ms.tolist() == [4.0]
    assert found.m2[0] == pytest.approx(2.0)


def test_planning_belongs_to_the_time_and_a_plan_without_a_call_is_seen():
    before = snapshot({1: [5.0]})
    after = replace(snapshot({1: [5.0]}, at=5.0), plans=np.array([2.0]), plan_ms=np.array([7.0]))
    found = deltas(before, after)
    assert (found.calls[0], found.plans[0], found.time_ms[0]) == (0.0, 2.0, 7.0)
    once = deltas(before, replace(after, plans=np.array([1.0])))
    assert once.plans.tolist() == [1.0]


@pytest.mark.parametrize(
    ("before_ms", "after_ms", "own_ms"), [(0.0, 40.0, 40.0), (900.0, 940.0, 40.0), (900.0, 5.0, 0.0)]
)
def test_what_our_own_role_took_is_that_of_the_period_alone(before_ms, after_ms, own_ms):
    """Its share of the period is what is judged: of all days it would be more than that of all others together."""
    before, after = snapshot({1: [5.0]}, own_ms=before_ms), snapshot({1: [5.0, 6.0]}, at=5.0, own_ms=after_ms)
    assert deltas(before, after).own_ms == own_ms


BEFORE = snapshot({1: [5.0, 6.0], 2: [1.0]}, at=100.0, since=np.array([50.0, 60.0]))
AFTER = snapshot({1: [5.0, 6.0, 7.0], 2: [1.0]}, at=130.0, since=np.array([50.0, 60.0]))


@pytest.mark.parametrize(
    ("after", "cause"),
    [
        (replace(AFTER, started_at=2.0), VoidCause.RESTARTED),
        (replace(AFTER, reset_at=99.0), VoidCause.RESET),
        (replace(AFTER, dealloc=3), VoidCause.EVICTED),
        (replace(AFTER, at=100.0), VoidCause.LATE),
        (snapshot({2: [1.0]}, at=130.0), VoidCause.GONE),
        (snapshot({1: [5.0, 6.0]}, at=130.0), VoidCause.GONE),
        (snapshot({1: [9.0], 2: [1.0]}, at=130.0), VoidCause.FELL),
        (replace(AFTER, since=np.array([120.0, 60.0])), VoidCause.BEGUN_ANEW),
        (replace(AFTER, since=np.array([50.0, 60.25])), VoidCause.BEGUN_ANEW),
        (replace(AFTER, sd_ms=np.array([0.0, 0.0])), VoidCause.MIXED),
    ],
)
def test_what_was_lost_in_between_voids_the_period(after, cause):
    assert isinstance(deltas(BEFORE, AFTER), StatementDeltas)
    assert deltas(BEFORE, after) is cause


@given(st.dictionaries(st.integers(0, 40), TIMES, max_size=10), st.dictionaries(st.integers(0, 40), TIMES, max_size=10))
def test_an_entry_that_went_is_never_passed_over(before, after):
    found = deltas(snapshot(before), snapshot(after, at=1.0))
    assert (before.keys() <= after.keys()) or found is VoidCause.GONE


def test_a_period_lasts_from_one_reading_to_the_other():
    assert deltas(BEFORE, AFTER).seconds == 30.0


@pytest.mark.parametrize(
    ("earlier", "lacks", "is_rounding"),
    [([500.0, 600.0], 0.005, True), ([500.0, 600.0], 0.02, False), ([5.0, 5.0], 4e-7, False)],
)
def test_a_millionth_of_the_squares_may_be_missing_by_rounding(earlier, lacks, is_rounding):
    """The call in between took as long as those before it on average: it adds no square."""
    before = snapshot({1: earlier})
    if not before.sd_ms[0]:
        before = replace(before, sd_ms=np.array([np.sqrt(lacks / 2)]))
    left = max(0.0, 2 * before.sd_ms[0] ** 2 - lacks)
    after = replace(snapshot({1: [*earlier, np.mean(earlier)]}, at=5.0), sd_ms=np.array([np.sqrt(left / 3)]))
    found = deltas(before, after)
    assert found.m2.tolist() == [0.0] if is_rounding else found is VoidCause.MIXED
