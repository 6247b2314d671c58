"""The YBIO shape: range reads by index of rows that are scattered over a table, with a share of updates.

Each transaction reads (or updates) `batch_size` rows with consecutive keys, which lie on as many different pages. The
figure of merit is rows per second. A working set that fits into memory measures logical reads, one that fits into the
page cache only measures buffered reads, one that fits nowhere measures physical reads.

Shape and names of the parameters follow YBIO (`setup` and `runit`) by Franck Pachot; its code is not used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from psycopg import sql

from pgdyno.errors import UsageError
from pgdyno.workloads.execution_plan import PlanProbe
from pgdyno.workloads.parameters import Parameter, Value
from pgdyno.workloads.script import Script, packaged_script
from pgdyno.workloads.ybio_table import MOST_ROWS, YbioTable

UPDATE_TRIES = 10
"""Two updates of overlapping ranges can lock each other out; pgbench then tries again (15 and later)."""
_PREFIX = re.compile(r"[a-z_][a-z0-9_]{0,40}")

PARAMETERS = (
    Parameter("tab_prefix", "bench", "what the table's name begins with"),
    Parameter("tab_num", 1, "number of the table: bench0001 for 1", low=0, high=9999),
    Parameter("tab_rows", 1_000_000, "rows of the table (YBIO's setup)", low=1, high=MOST_ROWS),
    Parameter("run_tab_rows", 0, "rows that the load touches (YBIO's tab_rows of runit); 0 for all", low=0),
    Parameter("batch_size", 10_000, "rows of one transaction", low=1),
    Parameter("pct_update", 0, "percentage of the transactions that update their rows", low=0, high=100),
    Parameter("filler", 400, "length of each row's filler, in bytes", low=1, high=1_900),
)


def table_name(parameters: Mapping[str, Value]) -> str:
    """Return the table's name, `bench0001`. Raise UsageError on a prefix that is not a plain lower-case name."""
    prefix = str(parameters["tab_prefix"])
    if not _PREFIX.fullmatch(prefix):
        raise UsageError(f'tab_prefix "{prefix}" is not a name of lower-case letters, digits and underscores')
    return f"{prefix}{int(parameters['tab_num']):04d}"


def data(parameters: Mapping[str, Value]) -> YbioTable:
    """Return the table that these parameters ask for."""
    return YbioTable(table_name(parameters), int(parameters["tab_rows"]), int(parameters["filler"]))


def touched_rows(parameters: Mapping[str, Value]) -> int:
    """Return how many rows the load chooses from. Raise UsageError when they are less than a batch or not there."""
    tab_rows, run_tab_rows = int(parameters["tab_rows"]), int(parameters["run_tab_rows"])
    if run_tab_rows > tab_rows:
        raise UsageError(f"run_tab_rows {run_tab_rows} is more than the {tab_rows} rows of the table (tab_rows)")
    rows = run_tab_rows or tab_rows
    if int(parameters["batch_size"]) > rows:
        raise UsageError(f"batch_size {parameters['batch_size']} is more than the {rows} rows that the load touches")
    return rows


def scripts(parameters: Mapping[str, Value]) -> tuple[Script, ...]:
    """Return the mix: reads and, as `pct_update` percent of the transactions, updates."""
    table, update = table_name(parameters), int(parameters["pct_update"])
    mix = (
        Script("read", 100 - update, packaged_script("ybio_read", table=table)),
        Script("update", update, packaged_script("ybio_update", table=table)),
    )
    return tuple(script for script in mix if script.weight)


def plan_probe(parameters: Mapping[str, Value]) -> PlanProbe:
    """Return the read as a statement whose plan tells what is measured: an index, bitmap or parallel scan."""
    batch = int(parameters["batch_size"])
    first = max(1, touched_rows(parameters) // 2 - batch // 2)
    statement = sql.SQL("SELECT count(*), max(scratch) FROM {} WHERE mykey BETWEEN $1 AND $2")
    return PlanProbe(
        "read",
        statement.format(sql.Identifier(table_name(parameters))),
        (first, first + batch - 1),
    )
