"""From runs to rows: what adds up, what is weighted, and what makes a row partial."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgdyno.model.configuration import BASELINE
from pgdyno.model.matrix import Cell, MatrixRow
from pgdyno.model.record import CheckRecord
from pgdyno.model.shapes import plain, shaped
from pgdyno.model.trial import LatencySummary, Outcome, Role, Trial, TrialSpec, TrialState
from pgdyno.probes.network_path import OVER_NETWORK
from pgdyno.stats.matrix import little
from pgdyno.studies.matrix.cell_workload import HISTORY, history_check
from pgdyno.studies.matrix.result import data_sentence
from pgdyno.studies.matrix.rows import CellRun, Surroundings, build_row, group_runs

CELL = Cell(2, 4, 1, "tpcb-like", 10, "default")


def run(
    number: int,
    tps: float = 1000.0,
    *,
    seconds: float = 10.0,
    state: TrialState = TrialState.COMPLETE,
    repeats: int | None = None,
    role: Role = Role.CELL,
    reason: str | None = None,
) -> CellRun:
    mean = 1000 * CELL.connections / tps
    outcome = Outcome(
        state,
        reason,
        steady_from=100.0,
        ended_at=100.0 + seconds,
        throughput=tps if state is TrialState.COMPLETE else None,
        latency_ms=LatencySummary(mean, mean, mean, mean, mean, mean=mean),
        transactions=int(tps * seconds) + 5,
        server_cpu_s=6.0,
        counters={
            "window_s": seconds,
            "window_transactions": tps * seconds,
            "cpu_capacity_s": 20.0,
            "rows_after.history": tps * seconds + 5,
            "bytes_before.database": 1e6,
            "bytes_after.database": 2e6,
            "bytes_after.pgbench_history": 3e5,
        },
    )
    spec = TrialSpec(BASELINE, role, "arm", number, 0, repeats=repeats, factors=CELL.factors())
    return CellRun(Trial(number, "s", spec, state, outcome))


def sampled(one: CellRun) -> CellRun:
    moments = [101.0, 102.0, 111.0]  # the last lies after the window
    return replace(
        one,
        sessions={"t": moments},
        locks={
            "t": [101.0, 101.0, 101.0, 102.0, 111.0],
            "mode": ["RowExclusiveLock", "RowExclusiveLock", "AccessShareLock", "RowExclusiveLock", "ExclusiveLock"],
            "granted": [4, 2, 3, 2, 99],
        },
        cpu={
            "t": moments,
            "interval_s": [1.0, 1.0, 1.0],
            "usr_pct": [50.0, 30.0, 0.0],
            "sys_pct": [10.0, 10.0, 0.0],
            "irq_pct": [0.0, 0.0, 0.0],
            "driver_cpu_s": [0.2, 0.2, 0.0],
            "cpus": [2, 2, 2],
        },
    )


@pytest.mark.requirement("R-BEN-02", "R-BEN-12")
def test_repetitions_are_pooled_by_their_transactions_and_seconds() -> None:
    row = build_row(CELL, [run(1, 1000.0, seconds=10.0), run(2, 2000.0, seconds=30.0)], Surroundings())
    assert row.state == "complete"
    assert row.tps == pytest.approx((10_000 + 60_000) / 40)
    assert row.runs == {1: 1000.0, 2: 2000.0}
    check = little(row)
    assert check is not None
    assert check.demand == pytest.approx(CELL.connections), "pooling keeps Little's law"
    assert row.transactions == 10_005 + 60_005 == row.history_rows


@pytest.mark.requirement("R-BEN-12")
def test_what_windows_cut_is_pooled_by_their_seconds_and_unknown_where_one_does_not_tell() -> None:
    runs = [cut(run(1, seconds=10.0), 2.0), cut(run(2, seconds=30.0), -1.0)]
    row = build_row(CELL, runs, Surroundings())
    assert row.edges == pytest.approx((2.0 - 1.0) / 40)
    check = little(row)
    assert check is not None
    assert check.busy == pytest.approx(CELL.connections - 1 / 40)
    assert build_row(CELL, [*runs, run(3)], Surroundings()).edges is None
    assert shaped(MatrixRow, plain(row)) == row


def cut(one: CellRun, edges_s: float) -> CellRun:
    outcome = one.trial.outcome
    assert outcome is not None
    counters = {**outcome.counters, "window_edges_s": edges_s}
    return replace(one, trial=replace(one.trial, outcome=replace(outcome, counters=counters)))


def elsewhere(one: CellRun) -> CellRun:
    outcome = one.trial.outcome
    assert outcome is not None
    counters = {**outcome.counters, OVER_NETWORK: 1.0}
    return replace(one, trial=replace(one.trial, outcome=replace(outcome, counters=counters)))


@pytest.mark.requirement("R-BEN-13", "R-BEN-09")
def test_locks_cpu_and_sizes_are_those_of_the_measured_window() -> None:
    row = build_row(CELL, [sampled(run(1))], Surroundings(smt="8", durability={"default": "X"}))
    assert row.locks == {"row_exclusive": 4.0, "access_share": 1.5, "exclusive": 0.0}
    assert row.locks_max == {"row_exclusive": 6.0, "access_share": 3.0, "exclusive": 0.0}
    assert row.cpu_pct == 50.0, "of the server's host"
    assert row.server_cpu_pct == 30.0
    assert row.driver_cpu_pct == pytest.approx(10.0)
    assert build_row(CELL, [elsewhere(sampled(run(1)))], Surroundings()).driver_cpu_pct is None, "it had other CPUs"
    assert (row.smt, row.durability) == ("8", "X")
    assert (row.bytes_before["database"], row.bytes_after["database"]) == (1e6, 2e6)
    assert build_row(CELL, [run(1)], Surroundings()).locks == {}, "nothing sampled is not nothing held"


@pytest.mark.requirement("R-BEN-02")
def test_one_run_without_all_of_its_generators_makes_the_row_partial() -> None:
    killed = run(2, state=TrialState.PARTIAL, reason="1 of 2 load generators ended early")
    row = build_row(CELL, [run(1), killed, run(3)], Surroundings())
    assert (row.state, row.reason) == ("partial", "1 of 2 load generators ended early")
    assert not row.usable
    assert set(row.runs) == {1, 3}
    assert row.tps == 1000.0, "figures of the whole runs are kept"
    alone = build_row(CELL, [killed], Surroundings())
    assert alone.tps == 1000.0, "those of the others too, under the word partial"
    assert alone.runs == {}
    assert not alone.usable


def test_a_run_that_was_repeated_does_not_speak_for_its_cell() -> None:
    noisy = run(1, state=TrialState.DISTURBED, reason="foreign CPU")
    assert build_row(CELL, [noisy, run(2, repeats=1)], Surroundings()).state == "complete"
    twice = [noisy, run(2, state=TrialState.UNSTEADY, repeats=1, reason="never steady")]
    row = build_row(CELL, twice, Surroundings())
    assert (row.state, row.reason, row.tps) == ("unsteady", "never steady", None)
    assert build_row(CELL, [], Surroundings()).state == "not measured"


def test_the_first_baseline_and_what_a_kill_ended_are_no_runs_of_a_cell() -> None:
    runs = [run(1, role=Role.BASELINE), run(2), run(3, state=TrialState.ABANDONED)]
    assert [one.trial.id for one in group_runs(runs)[CELL]] == [2]


def test_a_row_comes_back_from_json() -> None:
    row = build_row(CELL, [sampled(run(1)), run(2)], Surroundings(system="x86_64", vcpus=2, durability={}))
    assert shaped(MatrixRow, plain(row)) == row
    with pytest.raises(ValueError, match=r"the answer\.cell has no clients"):
        shaped(MatrixRow, {"cell": {"instances": "1"}})


@pytest.mark.requirement("R-BEN-20")
def test_a_history_that_differs_is_a_violation_unless_a_generator_was_killed() -> None:
    assert history_check(100, 100, None).violations == 0
    assert history_check(99, 100, None).violations == 1
    assert history_check(103, 100, None).violations == 3
    assert history_check(103, 100, "1 of 2 ended early").violations is None
    assert history_check(99, 100, "1 of 2 ended early").violations == 1
    broken = replace(run(1), checks=(CheckRecord(HISTORY, 1, "grew by 99"),))
    assert build_row(CELL, [broken], Surroundings()).checks == ("run 1: grew by 99",)


@pytest.mark.parametrize(
    ("reads_only", "said", "unsaid"),
    [
        ([False, False], "Every cell begins with fresh data", "keeps its data"),
        ([True, True], "Every cell keeps its data", "fresh data"),
        ([False, True], "A cell that writes begins with fresh data", "Every cell"),
    ],
)
def test_it_is_said_with_which_data_a_cell_begins(reads_only: list[bool], said: str, unsaid: str) -> None:
    drawn = data_sentence(reads_only)
    assert said in drawn
    assert unsaid not in drawn
