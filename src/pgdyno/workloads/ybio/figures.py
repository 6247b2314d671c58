"""What a run of the YBIO shape comes to: rows per second, response, logical against physical reads, its log, its plan.

Logical reads are the blocks that the load's database asked shared buffers for (`blks_hit` and `blks_read` of
pg_stat_database); those that were not there were read from the page cache or from a device. Physical reads are the
requests that reached a device: those of the server's own cgroup where the sandbox has one (`--sandbox-memory`), else
those of all disks of the host, whoever made them, which the figure's name says.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from pgdyno.errors import PgdynoError
from pgdyno.model.record import CheckRecord, Examination, PlanRecord, TextRecord
from pgdyno.model.trial import Outcome
from pgdyno.targets.target import Target
from pgdyno.units import plural
from pgdyno.workloads.parameters import Value
from pgdyno.workloads.result import LoadResult, away_s

ROWS, RESPONSE, LOGICAL, MISSED = "rows_per_s", "response_ms", "logical_reads_per_s", "buffer_misses_per_s"
PHYSICAL, PHYSICAL_OF_HOST = "physical_reads_per_s", "physical_reads_per_s_of_host"
PHYSICAL_OF_ROWS = "physical_reads_per_1000_rows"
AWAY, REOPENED = "away_s", "sessions_reopened"
LOG = "runit.log"
MOST_JOBS, MOST_TEXT = 1000, 200_000
_RUNS = """
SELECT job_id, began, ended, rows_read, rows_updated, batches, retried,
       round((1000 * extract(epoch FROM ended - began))::numeric, 1) AS response_ms
FROM benchruns WHERE ended BETWEEN to_timestamp(%s) AND to_timestamp(%s) ORDER BY job_id DESC LIMIT %s
"""
_TOTAL = """
SELECT coalesce(sum(rows_read + rows_updated), 0)::bigint AS rows, count(*) AS calls,
       coalesce(sum(rows_updated), 0)::bigint AS updated
FROM benchruns WHERE ended BETWEEN to_timestamp(%s) AND to_timestamp(%s)
"""
_SIZES = """
SELECT coalesce(pg_size_pretty(pg_table_size(to_regclass(%(name)s))), 'no table') AS heap,
       coalesce(pg_size_pretty(pg_indexes_size(to_regclass(%(name)s))), 'none') AS indexes
"""


def examiner(parameters: Mapping[str, Value], table: str) -> Callable[[Target, str, LoadResult, Outcome], Examination]:
    """Return what examines a run with these parameters. It reads only."""

    def examine(target: Target, dbname: str, load: LoadResult, outcome: Outcome) -> Examination:
        batch = 0 if parameters["run_duration"] else int(parameters["batch_size"])
        figures = dict(rates(outcome, load.device_reads, batch))
        called = parameters["shape"] == "procedure"
        rows = _rows_by_benchruns(target, dbname, outcome) if called else None
        if rows is None and outcome.throughput is not None and batch:
            rows = outcome.throughput * batch
        if rows is not None:
            figures[ROWS] = rows
        if load.gaps:
            figures[AWAY] = away_s(load.gaps, load.began_at, load.ended_at)
            figures[REOPENED] = float(len(load.gaps))
        (sizes,) = target.postgres.for_load(dbname).fetch(_SIZES, {"name": table})
        size = f"{table}: table {sizes['heap']}, index {sizes['indexes']}\n"
        texts = [TextRecord(LOG, size + _log(target, dbname, load, called=called))]
        plans = tuple(_plan(plan) for plan in load.plans)
        return Examination(
            checks=(_share_check(target, dbname, load, parameters),) if called and load.partial is None else (),
            figures=tuple(figures.items()),
            plans=plans,
            texts=tuple(texts),
        )

    return examine


def rates(outcome: Outcome, device_reads: Sequence[tuple[float, int]] = (), batch: int = 0) -> Mapping[str, float]:
    """Return the rates of the measured window; what was not counted is left out. `batch` 0: rows a call are unknown."""
    counted, found = outcome.counters, dict[str, float]()
    if outcome.latency_ms is not None:
        found[RESPONSE] = outcome.latency_ms.mean
    seconds = counted.get("window_s", 0.0)
    if seconds <= 0:
        return found
    if "blks_hit" in counted and "blks_read" in counted:
        found[LOGICAL] = (counted["blks_hit"] + counted["blks_read"]) / seconds
        found[MISSED] = counted["blks_read"] / seconds
    rows = (outcome.throughput or 0.0) * batch
    own = None if outcome.steady_from is None else reads_between(device_reads, outcome.steady_from, outcome.ended_at)
    if own is not None:
        found[PHYSICAL] = own / seconds
        if rows:
            found[PHYSICAL_OF_ROWS] = 1000 * own / seconds / rows
    elif "disk_reads" in counted:
        found[PHYSICAL_OF_HOST] = counted["disk_reads"] / seconds
    return found


def reads_between(readings: Sequence[tuple[float, int]], from_s: float, to_s: float) -> float | None:
    """Return how far a counter went in a window, in a straight line between readings; None where it was not read."""
    if len(readings) < 2 or readings[0][0] > to_s or readings[-1][0] < from_s:
        return None
    times, counts = [one[0] for one in readings], [float(one[1]) for one in readings]
    begin, end = np.interp([from_s, to_s], times, counts)
    return float(end - begin)


def plan_shape(plan: str) -> str:
    """Return a hash of a plan's nodes: the same for the same plan, whatever the keys that it was asked for."""
    nodes = [re.sub(r"'?\d+'?(::\w+)?|\$\d+", "?", line).rstrip() for line in plan.splitlines()]
    return hashlib.sha256("\n".join(nodes).encode()).hexdigest()[:16]


def _plan(plan: str) -> PlanRecord:
    name, _, nodes = plan.partition(":\n")
    return PlanRecord(name, plan_shape(nodes), nodes)


def _rows_by_benchruns(target: Target, dbname: str, outcome: Outcome) -> float | None:
    """Return rows per second by what the procedure wrote down, on the server's clock; None where it wrote nothing."""
    seconds = outcome.counters.get("window_s", 0.0)
    if outcome.steady_from is None or seconds <= 0 or not target.local:
        return None
    (row,) = target.postgres.for_load(dbname).fetch(_TOTAL, [outcome.steady_from, outcome.ended_at])
    return float(str(row["rows"])) / seconds if row["calls"] else None


def _share_check(target: Target, dbname: str, load: LoadResult, parameters: Mapping[str, Value]) -> CheckRecord:
    meaning = "every call of runit that came back has its row in benchruns"
    if not target.local:
        return CheckRecord("benchruns", None, f"not checked: the server has another clock; {meaning}")
    (row,) = target.postgres.for_load(dbname).fetch(_TOTAL, [load.began_at - 1, load.ended_at + 1])
    return CheckRecord("benchruns", max(0, load.transactions - int(str(row["calls"]))), meaning)


def _log(target: Target, dbname: str, load: LoadResult, *, called: bool) -> str:
    """Return what the driver said and, of procedures, the last rows of benchruns."""
    folder = load.log_files[0].parent if load.log_files else None
    said = "" if folder is None else "".join(_tail(folder / f"pgbench.{name}") for name in ("stdout", "stderr"))
    if not called or not target.local:
        return said
    try:
        rows = target.postgres.for_load(dbname).fetch(_RUNS, [load.began_at - 1, load.ended_at + 1, MOST_JOBS])
    except PgdynoError as error:
        return f"{said}benchruns cannot be read: {error.message}\n"
    lines = [" ".join(f"{name}={value}" for name, value in row.items()) for row in reversed(rows)]
    return said + "\n".join([f"benchruns, the last {plural(len(rows), 'call')}:", *lines]) + "\n"


def _tail(path: Path) -> str:
    return path.read_text(errors="replace")[-MOST_TEXT:] if path.exists() else ""
