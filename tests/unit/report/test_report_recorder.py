"""The flight recorder of short and quiet runs: no burst, no empty picture."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgdyno.report.recorder import align, recorder, strip_key, without_quiet
from pgdyno.report.traces import LoadBin, RunTrace, read, window_values

TIMES = [100.7, 101.7, 102.7, 103.0]


def trace(wal_bytes: float, run: int = 1) -> RunTrace:
    table = {"t": TIMES, "interval_s": [1.0, 1.0, 1.0, 0.3]}
    return RunTrace(
        run=run,
        name="the run",
        began_at=100.0,
        steady_from=101.0,
        ended_at=103.0,
        samples={
            "wal": {**table, "bytes": [wal_bytes] * 4},
            "database": {**table, "blks_hit": [1000, 2000, 3000, 4000], "blks_read": [0, 0, 0, 0]},
        },
    )


def test_a_short_last_interval_is_no_burst() -> None:
    assert read(trace(0), "database", deltas=("blks_hit",)).columns["blks_hit"] == (1000.0, 2000.0, 3000.0, None)


def test_the_window_ends_with_the_load() -> None:
    assert window_values(trace(0), (0.5, 1.5, 3.0, 3.2), (1.0, 2.0, 3.0, 4.0)) == [2.0, 3.0]


def test_a_series_of_zeros_is_left_to_the_table() -> None:
    blocks = next(figure for figure in recorder(trace(0)) if strip_key(figure) == "blocks")
    assert [series.name for series in blocks.series] == ["hits"]
    assert blocks.table is not None
    assert [row[0] for row in blocks.table.rows] == ["hits", "reads"]


def test_a_strip_is_left_out_only_when_every_run_is_quiet() -> None:
    quiet, loud = recorder(trace(0)), recorder(replace(trace(50_000_000), run=2))
    kept, labels = without_quiet([quiet, quiet])
    assert labels == ("WAL written",)
    assert [[strip_key(figure) for figure in run] for run in kept] == [["blocks"], ["blocks"]]
    assert without_quiet([quiet, loud])[1] == ()


def test_strips_keep_their_order_when_the_first_run_lacks_one() -> None:
    whole = recorder(trace(50_000_000, run=2))
    part = [figure for figure in recorder(trace(50_000_000)) if strip_key(figure) != "blocks"]
    rows = align([part, whole])
    assert [strip_key(next(figure for figure in row if figure)) for row in rows] == ["blocks", "wal"]


@pytest.mark.requirement("R-MON-06")
def test_memory_cpu_requests_and_traffic_stand_below_response_time_on_one_time_axis() -> None:
    table = {"t": TIMES, "interval_s": [1.0, 1.0, 1.0, 0.3]}
    disk = {"device": ["vda"] * 4, **{f"{name}_per_s": [5000.0] * 4 for name in ("r", "w", "rkb", "wkb")}}
    run = replace(
        trace(9_000_000),
        load=[LoadBin(second, 100.0, 1.0, 2.0, 3.0) for second in (100.5, 101.5, 102.5)],
        samples={
            "cpu": {**table, "usr_pct": [50.0] * 4},
            "memory": {**table, "cached_bytes": [3 << 30] * 4, "anonymous_bytes": [1 << 30] * 4},
            "disk": {**table, **disk},
        },
    )
    rows = align([recorder(run)])
    assert [strip_key(row[0]) for row in rows if row[0]] == ["throughput", "latency", "cpu", "memory", "disk", "iops"]
    axes = {(row[0].x.lo, row[0].x.hi) for row in rows if row[0]}
    assert axes == {(0.0, 3.0)}
    assert {series.name for row in rows[3:4] if row[0] for series in row[0].series} == {"page cache", "processes"}
