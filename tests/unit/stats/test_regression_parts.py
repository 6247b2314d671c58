"""What a watch makes of the periods that it keeps, by hand: means that count, sides, costs, and what is told."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from pgdyno.stats import regressions
from pgdyno.stats.regressions import Regressions, _course, _medians
from pgdyno.stats.statement_deltas import StatementDeltas
from pgdyno.stats.statement_steps import AGES, KEPT, StatementStep, bound


def kept(*statements: dict[str, object]) -> Regressions:
    """Return a watch that keeps these periods of each statement: 10 calls in 20 ms where nothing else is said."""
    found, names = Regressions(period=100), ("calls", "ms", "blocks", "rows", "m2")
    usual = {"calls": 10.0, "ms": 20.0, "blocks": 0.0, "rows": 0.0, "m2": 0.0}
    found._recent = np.zeros((5, len(statements), KEPT))
    for number, one in enumerate(statements):
        for row, name in enumerate(names):
            found._recent[row, number] = cast(Any, one.get(name, usual[name]))
    found._logs = np.zeros((len(statements), KEPT))
    return found


def sides(age: int, before: float, after: float, long_before: float | None = None) -> np.ndarray:
    """Return a row whose newest `age` + 1 periods are `after`; `long_before` are those past 30 before the step."""
    begin = KEPT - 1 - age
    row = np.full(KEPT, before)
    row[begin:] = after
    if long_before is not None:
        row[: begin - AGES] = long_before
    return row


def told(found: Regressions, step: StatementStep) -> regressions.Slowdown:
    accepted: list[StatementStep] = []
    found._steps = cast(Any, SimpleNamespace(accept=accepted.append))
    one = found._told(step)
    assert accepted == [step]
    return one


def test_a_step_is_told_by_the_thirty_periods_before_it_and_those_since() -> None:
    age, begin = 4, KEPT - 5
    found = kept(
        {
            "ms": sides(age, 20.0, 40.0, long_before=9e9),
            "blocks": sides(age, 30.0, 90.0, long_before=9e9),
            "rows": sides(age, 40.0, 20.0, long_before=9e9),
        },
        {"ms": 60.0},
    )
    one = told(found, StatementStep(0, age, 0.7))
    assert (one.number, one.factor, one.since, one.is_back) == (0, 2.0, 96, False)
    assert (one.blocks, one.blocks_before, one.rows, one.share) == (3.0, 3.0, 0.5, 0.4)
    assert found._slower == {0}
    assert (found._recent[:, 0, :begin] == 0).all()
    assert found._recent[1, 0, begin:].tolist() == [40.0] * 5
    assert np.isnan(found._logs[0]).tolist() == [True] * begin + [False] * 5
    assert (found._recent[1, 1] == 60.0).all()
    back = kept({"ms": sides(2, 40.0, 20.0)})
    back._slower = {0, None}
    assert told(back, StatementStep(0, 2, -0.7)).is_back
    assert back._slower == {None}


def test_less_than_one_a_call_has_a_ratio_and_the_oldest_period_its_part() -> None:
    blocks = sides(20, 5.0, 4.0)
    blocks[0] = 5.0 + 19 * 3.0
    one = told(kept({"blocks": blocks, "rows": sides(20, 8.0, 2.0)}), StatementStep(0, 20, 0.5))
    assert (one.blocks_before, one.blocks, one.rows) == pytest.approx((0.8, 0.5, 0.25))


@pytest.mark.parametrize(("before", "after"), [(0.0, 5.0), (5.0, 0.0), (0.0, 0.0)])
def test_what_a_side_lacks_has_no_ratio(before: float, after: float) -> None:
    row = sides(3, before, after)
    one = told(kept({"ms": row, "blocks": row, "rows": row}), StatementStep(0, 3, 0.5))
    assert (one.factor, one.blocks, one.blocks_before, one.rows) == (1.0, None, None, None)


def test_the_cost_of_a_step_is_of_the_newest_five_periods_at_least() -> None:
    found = kept({"ms": sides(1, 10.0, 20.0)}, {"ms": 80.0})
    newest, whole = (3 * 10.0 + 2 * 20.0) / 5, (3 * 90.0 + 2 * 100.0) / 5
    for size in (math.log(2), -math.log(2)):
        share = 1 - math.exp(-math.log(2))
        assert found._cost(StatementStep(0, 1, size)) == pytest.approx(share * newest / whole)
    row = sides(9, 30.0, 20.0)
    row[: KEPT - 20] = 9e9  # as many periods before it as since count, and no more
    dearer = kept({"ms": row}, {"ms": 80.0})
    assert dearer._cost(StatementStep(0, 9, math.log(2))) == pytest.approx(0.5 * 30.0 / 100.0)
    row = sides(25, 30.0, 20.0)
    row[0] = 30.0 + 14 * 10.0
    oldest = kept({"ms": row}, {"ms": 80.0})
    assert oldest._cost(StatementStep(0, 25, math.log(2))) == pytest.approx(0.5 * 40.0 / 100.0)
    assert kept({"ms": 0.0})._cost(StatementStep(0, 4, 1.0)) == 0.0


def test_what_is_new_counts_with_five_calls_or_most_of_the_usual_time() -> None:
    found = kept(*[{"calls": 10.0, "ms": 20.0}] * 7)
    found._recent[0, 5] = 1.0  # nothing is known of what is usual for these two
    found._recent[1, 6] = 0.0
    newest = np.zeros((5, 7))
    newest[0] = [5.0, 4.0, 4.0, 5.0, 0.0, 4.0, 4.0]
    newest[1] = [20.0, 14.0, 13.9, 0.0, 0.0, 14.0, 14.0]
    found._push(newest)
    logs = found._logs[:, -1]
    assert logs[[0, 1]] == pytest.approx(np.log([4.0, 3.5]))
    assert np.isnan(logs[2:]).all()
    assert (found._logs[:, -2] == 0).all()
    assert found._recent[:, :, -1].tolist() == newest.tolist()
    rare, newest = kept({"calls": 5.0}, {}, {"ms": 0.02}), np.zeros((5, 3))
    newest[:2] = [[4.0, 5.0, 4.0], [14.0, 0.5, 0.014]]
    rare._push(newest)
    assert rare._logs[:, -1] == pytest.approx(np.log([3.5, 0.1, 0.0035])), "with five calls whatever they took"
    for whole, counts in ((4, False), (5, True)):
        few = kept({"calls": 1.0})
        few._recent[0, 0, -whole:] = 10.0
        few._push(np.array([[4.0], [14.0], [0.0], [0.0], [0.0]]))
        assert np.isfinite(few._logs[0, -1]) == counts


def test_how_far_a_mean_scatters_is_of_its_calls() -> None:
    found = kept({"calls": 1.0, "ms": 2.0, "m2": 8.0}, {"ms": 0.0, "m2": 5.0})
    found._recent[0, 0, -1] = 4.0
    calls = KEPT - 1 + 4
    left = (KEPT * 8.0 * calls / (KEPT * 2.0) ** 2) / 4.0
    assert found._sampled() == pytest.approx([left + left**2 / 2, 0.0])
    short = kept({"calls": 1.0, "ms": 0.002, "m2": 8e-6})
    short._recent[0, 0, -1] = 4.0
    assert short._sampled() == pytest.approx([left + left**2 / 2])
    found._recent[0, 0, -1] = 0.5
    less = KEPT * 8.0 * (KEPT - 1 + 0.5) / (KEPT * 2.0) ** 2
    assert found._sampled()[0] == pytest.approx(less + less**2 / 2), "of less than one call as of one"


def test_a_contrast_takes_three_of_five_periods_on_either_side() -> None:
    logs = np.tile(np.repeat([9.0, 1.0, 3.0], [5, 5, 5]), (4, 1))
    logs[1, [5, 6, 10, 11]] = np.nan
    logs[2, [5, 6, 7]] = np.nan
    logs[3, [10, 11, 12]] = np.nan
    found = Regressions()._contrast(logs, 5)
    assert found[:2].tolist() == [2.0, 2.0]
    assert np.isnan(found[2:]).all()


def test_medians_are_of_what_is_known() -> None:
    rows = np.array([[3.0, 1.0, np.nan, 2.0], [4.0, 1.0, 3.0, 2.0], [np.nan, np.nan, np.nan, 7.0]])
    assert _medians(rows).tolist() == [2.0, 2.5, 7.0]


def test_the_course_of_all_is_weighted_where_each_is_known() -> None:
    logs = np.array([[1.0, 1.0, 2.0, np.nan], [5.0, np.nan, 8.0, np.nan]])
    found = _course(logs, np.array([3.0, 1.0]))
    assert found[:3].tolist() == pytest.approx([(0.0 - 1.5) / 4, 0.0, (3.0 + 1.5) / 4])
    assert np.isnan(found[3])


def test_what_is_watched_is_what_has_a_contrast_with_its_share_of_the_time() -> None:
    found = kept({"ms": 30.0}, {"ms": 10.0})
    found._logs[1, -3:] = np.nan
    assert found.watched() == (1, 0.75)
    short = kept({"ms": 0.003}, {"ms": 0.001})
    short._logs[1, -3:] = np.nan
    assert short.watched() == (1, pytest.approx(0.75)), "of a load that took less than a millisecond as of any"
    assert Regressions().watched() == (0, 0.0)


@pytest.mark.parametrize(
    ("times", "factor"), [((30.0, 10.0, 10.0), 2.0), ((10.0, 30.0, 10.0), 1.0), ((10.0, 10.0, 30.0), 3.0)]
)
def test_half_of_the_time_is_told_of_from_a_factor_on(times: tuple[float, ...], factor: float) -> None:
    found = kept(*({"ms": one} for one in times))
    found._steps = cast(Any, SimpleNamespace(least=lambda _: np.log([2.0, 1.0, 3.0])))
    assert found.detectable() == pytest.approx(factor)
    found._logs[:] = np.nan
    assert found.detectable() is None


def test_numbers_that_are_given_to_others_leave_nothing_behind() -> None:
    found, dropped = kept({}, {}), list[list[int]]()
    found._steps = cast(Any, SimpleNamespace(drop=dropped.append))
    found._slower = {0, 1, None}
    found.drop([1, 2])
    assert dropped == [[1]]
    assert found._slower == {0, None}
    assert np.isnan(found._logs[1]).all()
    assert not np.isnan(found._logs[0]).any()


def test_a_restart_and_a_lost_period_count_and_only_the_first_forgets() -> None:
    found, done = kept({}), list[str]()
    found._steps = cast(Any, SimpleNamespace(forget=lambda: done.append("forget"), hold=lambda: done.append("hold")))
    found.hold()
    assert (found.period, found._from, found._recent[0, 0, -2:].tolist()) == (101, 0, [10.0, 0.0])
    assert np.isnan(found._logs[0, -1])
    found.forget()
    assert (found.period, found._from) == (102, 102)
    assert not found._recent.any()
    assert np.isnan(found._logs).all()
    assert done == ["hold", "forget"]


def test_room_is_made_for_each_number_that_comes_and_for_no_other() -> None:
    found, none = Regressions(), np.zeros(1)
    for number, size in ((0, 1), (1, 2), (0, 2), (4, 5)):
        one = np.array([float(number + 5)])
        found.add(StatementDeltas(60.0, np.array([number]), one, 2 * one, 2 * one, none, none, none, none))
        assert (found._recent.shape, found._logs.shape) == ((5, size, KEPT), (size, KEPT))
        assert found._steps.levels.shape == (size, KEPT)
        assert found._recent[0, number, -1] == number + 5
    nothing = np.zeros(0)
    found.add(StatementDeltas(60.0, np.zeros(0, dtype=np.int64), *[nothing] * 7))
    assert found._recent.shape[1] == 5


def test_the_cost_of_a_step_counts_though_all_take_less_than_a_millisecond() -> None:
    found = kept({"ms": sides(9, 0.002, 0.004)}, {"ms": 0.004})
    assert found._cost(StatementStep(0, 9, math.log(2))) == pytest.approx(0.25)
    assert told(found, StatementStep(0, 9, math.log(2))).share == pytest.approx(0.5)


def looked_at(contrasts: list[float], times: list[float], *, period: int = 100, begin: int = 0) -> Regressions:
    """Return a watch whose statements have these contrasts over five periods, and took so long."""
    found = kept(*({"ms": one} for one in times))
    found.period, found._from = period, begin
    found._logs[:, -5:] = np.array(contrasts)[:, None]
    return found


@pytest.mark.parametrize(
    ("period", "begin", "is_told"),
    [(20, 0, True), (19, 0, False), (49, 40, False), (50, 40, True), (20, 11, False), (21, 11, True)],
)
def test_the_server_is_looked_at_from_the_twentieth_period_and_two_sides_after_a_restart(
    period: int, begin: int, is_told: bool
) -> None:
    found = looked_at([0.5] * 6, [20.0] * 6, period=period, begin=begin)
    told_of = list(found._look_at_server(5))
    assert [(one.number, one.since, one.is_back) for one in told_of] == ([(None, period - 4, False)] if is_told else [])
    if is_told:
        assert (told_of[0].factor, told_of[0].share) == (pytest.approx(math.exp(0.5)), 1.0)
        assert (found._slower, found._from) == ({None}, period)
        assert list(found._look_at_server(5)) == [], "it was told"


@pytest.mark.parametrize(("size", "is_told"), [(0.2201, True), (0.2199, False), (-0.5, False)])
def test_the_server_s_step_is_beyond_five_and_a_half_deviations(size: float, is_told: bool) -> None:
    """Of which one is 4 % where nothing is known."""
    assert bool(list(looked_at([size] * 6, [20.0] * 6)._look_at_server(5))) is is_told


def test_a_server_that_was_slower_is_told_when_it_is_back() -> None:
    found = looked_at([-0.5] * 6, [20.0] * 6)
    found._slower = {None, 3}
    (one,) = found._look_at_server(5)
    assert (one.is_back, one.since, one.factor) == (True, 96, pytest.approx(math.exp(-0.5)))
    assert found._slower == {3}


@pytest.mark.parametrize(("others", "is_told"), [(0.26, True), (0.19, False)])
def test_what_most_statements_do_not_share_is_no_step_of_the_server(others: float, is_told: bool) -> None:
    """Two of the eight have a fourth of the weight each, and step by 0.66; all together by 0.46 or by 0.425."""
    found = looked_at([0.66] * 2 + [others] * 6, [120.0] * 2 + [40.0] * 6)
    assert bool(list(found._look_at_server(5))) is is_told


def test_the_weight_of_a_statement_is_of_the_side_before_and_of_nothing_older() -> None:
    found = looked_at([0.6] * 3 + [0.4] * 3, [20.0] * 6)
    found._recent[1, 0, -15:-10] = 9e3
    (one,) = found._look_at_server(5)
    assert one.factor == pytest.approx(math.exp(0.5))


def test_who_steps_is_judged_by_what_is_new_its_calls_and_the_statements_that_matter() -> None:
    found, heard = kept({"m2": 40.0}, {"ms": 0.05}, {}), list[Any]()
    found._steps = cast(Any, SimpleNamespace(add=lambda *given: heard.extend(given), found=lambda _: []))
    calls, times, none = np.array([10.0, 20.0]), np.array([30.0, 0.05]), np.zeros(2)
    assert found.add(StatementDeltas(60.0, np.arange(2), calls, times, times, none, none, none, none)) == []
    logs, sampled, weights = heard
    assert sampled[0] > 0
    assert logs[:2] == pytest.approx(np.log(times / calls) + sampled[:2] / 2)
    assert np.isnan(logs[2])
    assert weights.tolist() == [pytest.approx(1.0, abs=0.01), pytest.approx(0.0, abs=0.01), 0.0]
    assert found._least == bound(2, 60.0), "one takes less than half a percent of the time"


def test_told_of_is_who_is_slower_or_was_and_costs_something() -> None:
    dear, cheap = {"ms": sides(4, 20.0, 40.0)}, {"ms": sides(4, 0.01, 0.02)}
    found = kept(dear, dear, dear, cheap)
    steps = [StatementStep(number, 4, size) for number, size in enumerate((0.7, -0.7, -0.7, 0.7))]
    found._steps = cast(Any, SimpleNamespace(found=lambda _: steps, accept=lambda _: None))
    found._slower = {2}
    assert [(one.number, one.is_back) for one in found._look_at_statements()] == [(0, False), (2, True)]
