"""Tables of runs have the metric that a study was asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

import study_example as example
from pgdyno.model.configuration import BASELINE
from pgdyno.model.study import Study, StudyKind
from pgdyno.model.trial import LatencySummary, Outcome, Role, Trial, TrialSpec, TrialState
from pgdyno.model.verdict import Metric
from pgdyno.report.chapters import about
from pgdyno.report.runs_page import runs_table
from pgdyno.report.sections import TableBlock

LATENCY = LatencySummary(mean=4.0, p50=3.0, p95=7.25, p99=9.5, p999=11.0, max=20.0)


def trial(number: int) -> Trial:
    outcome = Outcome(TrialState.COMPLETE, throughput=812.0, latency_ms=LATENCY, server_cpu_ms_per_tx=1.375)
    return Trial(number, "s", TrialSpec(BASELINE, Role.SEARCH, "local", 1, 0), TrialState.COMPLETE, outcome)


def study(metric: Metric) -> Study:
    return replace(example.make_study(StudyKind.TUNE), options={"tune": {"metric": metric.value}})


@pytest.mark.parametrize(
    ("metric", "name", "figure"),
    [
        (Metric.THROUGHPUT, "transactions/s", "812.00"),
        (Metric.LATENCY_P95, "p95 ms", "7.25"),
        (Metric.LATENCY_P99, "p99 ms", "9.50"),
        (Metric.SERVER_CPU, "server CPU/tx ms", "1.38"),
    ],
)
def test_a_table_of_runs_has_it_once(metric: Metric, name: str, figure: str) -> None:
    table = runs_table((trial(1),), metric)
    assert table.columns.count(name) == 1
    assert table.rows[0][table.columns.index(name)] == figure
    assert set(table.numeric) == {"run", *table.columns[2:-1]}


def test_a_metric_of_others_statements_is_no_figure_of_a_run() -> None:
    assert runs_table((trial(1),), Metric.STATEMENT_TIME).columns == runs_table((), Metric.THROUGHPUT).columns


@pytest.mark.parametrize(
    ("metric", "name", "figure"),
    [
        (Metric.LATENCY_P50, "p50, ms", "3.00"),
        (Metric.THROUGHPUT, "p99, ms", "9.50"),
        (Metric.SERVER_CPU, "CPU ms/tx", "1.38"),
    ],
)
def test_the_list_of_trials_has_the_latency_that_was_asked_for(metric: Metric, name: str, figure: str) -> None:
    blocks = about(study(metric), (trial(1), trial(2))).blocks
    (table,) = [one.table for one in blocks if isinstance(one, TableBlock) and "trial" in one.table.columns]
    assert table.rows[1][table.columns.index(name)] == figure
