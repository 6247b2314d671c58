"""The table of reads: the two sides of the verdict first, the many runs of a tune folded under them."""

import pytest

from pgdyno.model.configuration import BASELINE
from pgdyno.model.results.parts import Pair
from pgdyno.model.trial import Outcome, Role, Trial, TrialSpec, TrialState
from pgdyno.report.reads import reads_of_steps, reads_section
from pgdyno.report.sections import Notice, TableBlock

SIDES = ("the baseline", "the winner")


def trial(number, rows, *, reason=None, **counters):
    figures = {"rows_per_s": rows, "response_ms": 10.0, "logical_reads_per_s": rows, "buffer_misses_per_s": 5.0}
    outcome = Outcome(TrialState.COMPLETE, reason=reason, counters=figures | counters)
    return Trial(number, "s1", TrialSpec(BASELINE, Role.ARM, "A", number, 0), TrialState.COMPLETE, outcome)


def pair(a, b):
    return Pair(block=1, a=None, b=None, a_run=a, b_run=b)


TRIALS = [trial(n, 100.0 * n) for n in range(1, 8)]


def test_the_sides_of_the_verdict_come_first_as_medians_of_their_runs():
    section = reads_section(TRIALS, [pair(1, 5), pair(2, 6), pair(4, 7)], SIDES)
    sides, runs = section.blocks
    assert isinstance(sides, TableBlock)
    assert isinstance(runs, TableBlock)
    assert [row[:3] for row in sides.table.rows] == [("the baseline", "3", "200"), ("the winner", "3", "600")]
    assert (len(runs.table.rows), runs.folded) == (7, True)
    assert "7 runs, one by one." in runs.caption


def test_runs_without_a_verdict_stand_open():
    for pairs in ([], [pair(1, 99)]):
        (table,) = reads_section(TRIALS, pairs, SIDES).blocks
        assert (len(table.table.rows), table.folded) == (7, False)


def test_the_time_away_is_a_column_only_where_a_server_was_away():
    away = trial(8, 50.0, reason="the server was away for 3 s", away_s=3.0)
    (table,) = reads_section(TRIALS, [], SIDES).blocks
    assert "away s" not in table.table.columns
    table, notice = reads_section([*TRIALS, away], [], SIDES).blocks
    assert table.table.columns[-1] == "away s"
    assert [row[-1] for row in table.table.rows] == [*[""] * 7, "3"]
    assert isinstance(notice, Notice)
    sides, *_ = reads_section([*TRIALS, away], [pair(1, 8)], SIDES).blocks
    assert [row[-1] for row in sides.table.rows] == ["", "3"]


@pytest.mark.requirement("R-TUN-15")
def test_a_step_of_a_staircase_has_both_sides_as_medians_and_physical_reads_for_its_rows():
    trials = [*TRIALS, *(trial(n, 10.0 * n, physical_reads_per_1000_rows=600.0 - n) for n in (11, 12, 13, 14))]
    steps = [("step a", (1, 3), (2, 4, 6)), ("step b", (5,), (99,)), ("step c", (11, 13), (12, 14))]
    (block,) = reads_of_steps(trials, steps, ("without it", "with it")).blocks
    assert block.table.columns[:4] == ("step", "side", "runs", "rows/s")
    assert [row[:4] for row in block.table.rows] == [
        ("step a", "without it", "2", "200"),
        ("step a", "with it", "3", "400"),
        ("step c", "without it", "2", "120"),
        ("step c", "with it", "2", "130"),
    ], "a step without a counted run on one side is left out"
    assert block.table.columns[-1] == "physical reads/1,000 rows"
    assert [row[-1] for row in block.table.rows] == ["", "", "588", "587"]
    (plain,) = reads_of_steps(TRIALS, steps, ("without it", "with it")).blocks
    assert "physical reads/1,000 rows" not in plain.table.columns
    assert "away s" not in plain.table.columns
    assert reads_of_steps(TRIALS, [("step b", (5,), (99,))], ("a", "b")) is None


def test_a_study_that_counted_no_rows_has_no_such_section():
    assert reads_section([Trial(1, "s1", TRIALS[0].spec, TrialState.RUNNING)], [], SIDES) is None
