"""What the rows of a matrix say, fed with the published study's rows and with made-up ones."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from matrix_example import made_row, seed_rows
from pgdyno.model.matrix import Cell, MatrixRow
from pgdyno.model.verdict import Word
from pgdyno.stats import matrix
from pgdyno.stats.matrix import (
    KNEE_SHARE,
    OUTGROWN,
    best,
    best_by_mode,
    contrasts,
    curves,
    knee,
    little,
    lock_growth,
    rivals,
    threads_differ,
)

CONFIGURATIONS = {"Default": "default", "No Tune": "default", "Tune": "tuned"}
SMT8 = seed_rows("power_smt8", configuration=CONFIGURATIONS)
SMT4 = seed_rows("power_smt4", configuration=CONFIGURATIONS)
X86 = seed_rows("x86_ht", configuration=CONFIGURATIONS)


def percents(rows: list[MatrixRow], axis: str = "configuration") -> list[float]:
    return [round(100 * contrast.change, 2) for contrast in contrasts(rows) if contrast.axis == axis]


@pytest.mark.requirement("R-BEN-18")
def test_default_against_tuned_for_each_load_and_smt() -> None:
    assert percents(SMT8) == [7.39, 12.17, 10.55]
    assert percents(SMT4) == [2.09, 2.43]
    assert percents(X86) == [1.49, 2.46]
    assert percents([*SMT8, *SMT4]) == [7.39, 12.17, 10.55, 2.09, 2.43]
    changed = [replace(SMT8[3], tps=2 * (SMT8[0].tps or 0)), *SMT8[:3]]
    assert percents(changed) == [100.0]


@pytest.mark.requirement("R-BEN-15")
def test_simple_update_against_the_default_at_equal_load() -> None:
    rows = seed_rows("pgbench_N", mode={"Without -N": "tpcb-like", "With -N": "simple-update"})
    (found,) = contrasts(rows)
    assert (found.axis, found.level_a, found.level_b) == ("mode", "tpcb-like", "simple-update")
    assert round(100 * found.change, 2) == 20.96
    assert (found.a.cpu_pct, found.b.cpu_pct) == (75.2, 59.2)
    assert [*found.a.locks.values()] == [2993, 897, 995]
    assert [*found.b.locks.values()] == [1093, 638, 782]
    assert found.verdict is None, "one run each claims nothing"


@pytest.mark.requirement("R-BEN-16")
def test_fsync_off_against_on() -> None:
    rows = seed_rows("fsync", configuration={"fsync Off": "fsync-off", "fsync On": "default"})
    assert percents(rows) == [15.05], "the default is the reference wherever its row stands"
    assert percents(rows[::-1]) == [15.05]


@pytest.mark.requirement("R-BEN-17")
def test_one_network_adapter_against_two() -> None:
    levels = {"Diff N/W Adapter": "two-adapters", "Same N/W adapter": "one-port"}
    assert percents(seed_rows("network_adapter", placement=levels), "placement") == [3.79]


@pytest.mark.requirement("R-BEN-14")
def test_the_best_cell_and_the_knee_are_named() -> None:
    found = best([*SMT8, *SMT4])
    assert found is not None
    assert (found.cell.instances, found.cell.configuration, found.tps) == (32, "tuned", 61963.9)
    by_name = {curve[0].cell.configuration: curve for curve in curves(SMT8)}
    knees = {name: knee(curve) for name, curve in by_name.items()}
    assert {name: row.cell.instances for name, row in knees.items() if row} == {"default": 16, "tuned": 16}
    assert [knee(curve) for curve in curves(SMT4)] == [None, None], "two loads are no curve"
    slow = [made_row(1, 100.0), made_row(2, 190.0), made_row(4, 380.0), made_row(8, 390.0)]
    row = knee(curves(slow)[0])
    assert row is not None
    assert row.cell.connections == 4


def test_rows_that_are_not_complete_are_no_evidence() -> None:
    partial = replace(made_row(8, 1e6), state="partial", reason="one was killed")
    rows = [made_row(1, 10.0), partial, replace(made_row(4, 50.0), tps=None)]
    found = best(rows)
    assert found is rows[0]
    assert [len(curve) for curve in curves(rows)] == [1]
    assert contrasts([made_row(8, 5.0), replace(partial, cell=replace(partial.cell, mode="simple-update"))]) == []
    assert best([partial]) is None


def test_each_mode_that_was_measured_has_a_best_row() -> None:
    low, high = made_row(1, 10.0), made_row(2, 30.0)
    other, lost = (replace(made_row(1, 20.0), cell=replace(low.cell, mode=mode)) for mode in ("simple-update", "ybio"))
    assert best_by_mode([low, other, high, replace(lost, state="partial", reason="one was killed")]) == [high, other]


@pytest.mark.requirement("R-BEN-14")
def test_locks_grow_with_the_load() -> None:
    growth = {curve[0].cell.configuration: lock_growth(curve) for curve in curves(SMT8)}
    default = growth["default"]
    assert default is not None
    assert default.load == 4
    assert round(default.locks["row_exclusive"], 2) == 4.81
    assert default.throughput < 1
    assert default.outgrown
    assert lock_growth(curves([made_row(4, 9.0)])[0]) is None
    even = lock_growth(curves([made_row(2, 9.0), made_row(4, 18.0)])[0])
    assert even is not None
    assert even.outgrown == ()


@pytest.mark.requirement("R-BEN-12")
def test_every_published_row_keeps_littles_law() -> None:
    rows = [*SMT8, *SMT4, *X86]
    rows += seed_rows("pgbench_N", mode={"Without -N": "tpcb-like", "With -N": "simple-update"})
    rows += seed_rows("fsync", configuration={"fsync Off": "fsync-off", "fsync On": "default"})
    rows += seed_rows("network_adapter", placement={"Diff N/W Adapter": "a", "Same N/W adapter": "b"})
    found = [check for row in rows if (check := little(row)) is not None]
    assert len(found) == 20
    assert max(abs(check.deviation) for check in found) < 0.0052
    assert not any(check.flagged for check in found)
    corrupted = little(replace(rows[0], latency_ms=2.1))
    assert corrupted is not None
    assert corrupted.flagged


@pytest.mark.requirement("R-BEN-12")
@given(
    st.integers(1, 5000), st.integers(1, 64), st.floats(0.5, 1e6), st.floats(-0.5, 0.5).filter(lambda e: abs(e) > 0.011)
)
def test_a_row_is_flagged_exactly_when_it_contradicts_itself(
    clients: int, instances: int, tps: float, error: float
) -> None:
    cell = Cell(instances, clients, 1, "tpcb-like", 1, "default")
    right = MatrixRow(cell, tps=tps, latency_ms=1000 * instances * clients / tps)
    check, wrong = little(right), little(replace(right, latency_ms=(1 + error) * (right.latency_ms or 0)))
    assert check is not None
    assert wrong is not None
    assert not check.flagged
    assert wrong.flagged
    assert wrong.deviation == pytest.approx(error, abs=1e-6)
    assert little(replace(right, latency_ms=None)) is None
    told = little(replace(right, latency_ms=(1 + error) * (right.latency_ms or 0), edges=error * cell.connections))
    assert told is not None
    assert not told.flagged, "what the window cuts is no contradiction"
    assert (told.demand, told.busy) == (wrong.demand, pytest.approx(cell.connections))


def test_a_claim_needs_interleaved_repetitions() -> None:
    base = {block: 100.0 + block for block in range(1, 9)}
    faster = {block: 1.2 * value for block, value in base.items()}
    rows = [made_row(4, 104.5, runs=base), made_row(4, 125.4, runs=faster, configuration="tuned")]
    (found,) = contrasts(rows)
    assert found.verdict is not None
    assert found.verdict.word is Word.BETTER
    assert found.verdict.pairs == 8
    (same,) = contrasts([rows[0], replace(rows[1], runs=base)])
    assert same.verdict is not None
    assert same.verdict.word in (Word.EQUIVALENT, Word.NOT_RESOLVED)
    once = [replace(row, runs={1: row.runs[1]}) for row in rows]
    assert contrasts(once)[0].verdict is None
    apart = [rows[0], replace(rows[1], runs={block + 100: value for block, value in faster.items()})]
    assert contrasts(apart)[0].verdict is None, "runs of other repetitions are no pairs"


def test_more_comparisons_make_each_interval_wider() -> None:
    base = {block: 100.0 + block % 3 for block in range(1, 7)}
    rows = [made_row(4, 101.0, runs=base)]
    rows += [made_row(4, 103.0, runs=base, configuration=name) for name in ("b", "c", "d")]
    few, many = contrasts(rows[:2])[0].verdict, contrasts(rows)[0].verdict
    assert few is not None
    assert many is not None
    assert many.interval.hi > few.interval.hi
    assert many.interval.confidence == pytest.approx(1 - 0.05 / 3)


@pytest.mark.requirement("R-BEN-14")
@given(st.lists(st.floats(1.0, 1e6), min_size=3, max_size=9), st.floats(0.1, 100.0), st.randoms())
def test_the_knee_is_the_smallest_load_near_the_greatest_throughput(
    rates: list[float], factor: float, order: random.Random
) -> None:
    rows = [made_row(2**place, tps) for place, tps in enumerate(rates)]
    order.shuffle(rows)
    (curve,) = curves(rows)
    row = knee(curve)
    assert row is not None
    assert (row.tps or 0) >= KNEE_SHARE * max(rates)
    smaller = [one for one in curve if one.cell.connections < row.cell.connections]
    assert all((one.tps or 0) < KNEE_SHARE * max(rates) for one in smaller)
    scaled = knee(tuple(replace(one, tps=factor * (one.tps or 0)) for one in curve))
    assert scaled is not None
    near = any(abs((one.tps or 0) / max(rates) - KNEE_SHARE) < 1e-9 for one in curve)
    assert near or scaled.cell == row.cell, "the unit of throughput does not move the knee"
    top = best(rows)
    assert top is not None
    assert top.tps == max(rates)


@pytest.mark.requirement("R-BEN-14")
@given(st.integers(1, 50), st.integers(2, 64), st.floats(0.0, 4.0))
def test_locks_outgrow_the_load_only_beyond_it(clients: int, times: int, per_client: float) -> None:
    assume(abs(1 + per_client - OUTGROWN) > 1e-9)  # at the limit itself rounding decides
    first, last = made_row(clients, 100.0), made_row(clients * times, 100.0)
    grown = {name: times * (1 + per_client) * held for name, held in first.locks.items()}
    growth = lock_growth(curves([last, first])[0] if per_client else curves([first, last])[0])
    assert growth is not None
    assert growth.load == pytest.approx(times)
    assert growth.locks["row_exclusive"] == pytest.approx(times)
    assert growth.outgrown == ()
    more = lock_growth(curves([first, replace(last, locks=grown)])[0])
    assert more is not None
    assert bool(more.outgrown) == (1 + per_client > OUTGROWN)


@given(st.floats(1.0, 1e6), st.floats(1.0, 1e6))
def test_a_comparison_is_the_ratio_of_its_two_rows_and_of_nothing_else(a: float, b: float) -> None:
    rows = [made_row(4, b, configuration="tuned"), made_row(4, a), made_row(8, 5.0)]
    (found,) = contrasts(rows)
    assert (found.level_a, found.level_b) == ("default", "tuned")
    assert found.change == pytest.approx(b / a - 1)


def test_change_and_claim_of_a_comparison_are_of_the_same_repetitions() -> None:
    """A row's figure has repetitions that the other one lacks, and weighs long windows more: it says -2 % here."""
    base = {1: 100.0, 2: 110.0, 3: 90.0}
    faster = {block: 1.1 * value for block, value in base.items()}
    (found,) = contrasts([made_row(4, 100.0, runs=base), made_row(4, 98.0, runs=faster, configuration="tuned")])
    assert found.verdict is not None
    a, b = found.throughputs
    assert a is not None
    assert b is not None
    assert (found.change, b / a) == (pytest.approx(0.1), pytest.approx(found.verdict.interval.ratio))
    (apart,) = contrasts([made_row(4, 100.0, runs=base), made_row(4, 98.0, configuration="tuned")])
    assert (apart.throughputs, apart.change) == ((100.0, 98.0), pytest.approx(-0.02))


def test_a_bound_itself_is_no_contradiction_no_growth_and_near_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "LITTLE_BOUND", 2**-7)
    checks = [little(replace(made_row(128, 1.0), tps=tps, latency_ms=1000.0)) for tps in (129.0, 127.0, 129.5)]
    assert [check.flagged for check in checks if check] == [False, False, True]
    first, last = made_row(1, 100.0), made_row(2, 150.0)
    growth = lock_growth((first, replace(last, locks={"exclusive": 2.2, "access_share": 2.2000001})))
    assert growth is not None
    assert (growth.outgrown, growth.throughput) == (("access_share",), 1.5)
    row = knee((made_row(1, 94.9), made_row(2, 95.0), made_row(4, 100.0)))
    assert row is not None
    assert row.cell.connections == 2


def test_locks_grow_where_they_were_counted_at_both_ends_of_different_loads() -> None:
    first, last = made_row(4, 9.0), made_row(8, 9.0)
    found = lock_growth((replace(first, locks={"row_exclusive": 2.0, "exclusive": 0.0}), last))
    assert found is not None
    assert dict(found.locks) == {"row_exclusive": 12.0}
    assert lock_growth((replace(first, locks={}), last)) is None
    assert lock_growth((first, replace(last, locks={}))) is None
    other = replace(first, cell=replace(first.cell, instances=2, clients=2))
    assert lock_growth((first, other)) is None, "two ways to the same number of connections"


def test_nobody_is_to_run_a_row_of_class_x_while_there_is_another() -> None:
    unsafe, safe = replace(made_row(4, 90.0), durability="X"), replace(made_row(2, 10.0), durability="S")
    assert best([unsafe, safe]) is safe
    assert best([unsafe]) is unsafe


def test_threads_are_a_factor_where_cells_that_are_alike_otherwise_have_several() -> None:
    one = made_row(4, 9.0).cell
    assert not threads_differ([one, replace(one, clients=8, jobs=8)])
    assert threads_differ([one, replace(one, clients=8), replace(one, jobs=2)])
    rows = [made_row(4, 9.0), made_row(8, 18.0), replace(made_row(8, 19.0), cell=replace(one, clients=8, jobs=2))]
    assert [[row.tps for row in curve] for curve in curves(rows)] == [[9.0, 18.0], [19.0]]
    assert [[row.tps for row in curve] for curve in curves([rows[0], rows[2]])] == [[9.0, 19.0]]


def test_rivals_are_the_rows_of_a_mode_that_are_not_proved_worse_than_its_best() -> None:
    def row(name: str, factor: float, repetitions: int, durability: str = "S", **other: str) -> MatrixRow:
        runs = {block: factor * (100.0 + block) for block in range(1, 1 + repetitions)}
        return replace(made_row(4, 100.0 * factor, runs=runs, configuration=name, **other), durability=durability)

    top = row("a", 1.0, 12)
    worse, near, once, unsafe = row("b", 0.5, 12), row("c", 0.97, 2), row("d", 0.98, 1), row("e", 0.99, 12, "X")
    lost = replace(near, state="partial", reason="one was killed")
    elsewhere = row("f", 0.99, 12, mode="simple-update")
    rows = [near, worse, top, once, unsafe, lost, elsewhere]
    assert rivals(rows, top) == [once, near], "two repetitions say little, and one nothing"
    assert rivals([top, once], top) is None
    assert rivals([top, once, near], top) == [once, near]
    assert rivals([top, worse], top) == []
    assert rivals([unsafe, row("g", 0.98, 3, "X"), near], unsafe) == [row("g", 0.98, 3, "X"), near]


@pytest.mark.parametrize(("repetitions", "pairs"), [(1, None), (2, 2)])
def test_two_repetitions_in_common_carry_a_verdict(repetitions: int, pairs: int | None) -> None:
    runs = {block: 100.0 + block for block in range(1, 1 + repetitions)}
    a, b, c = (made_row(4, 101.0, runs=runs, configuration=name) for name in ("default", "tuned", "other"))
    first, second = contrasts([a, b, replace(c, runs={9: 1.0})])
    assert (first.verdict.pairs if first.verdict else None) == pairs
    assert second.verdict is None
    if first.verdict:
        assert first.verdict.interval.confidence == 0.95, "a comparison without a claim is none of the family"
