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
from pgdyno.units import plural
from pgdyno.workloads import working_set
from pgdyno.workloads.loop_command import SessionLoop
from pgdyno.workloads.parameters import Parameter, Value
from pgdyno.workloads.script import Script, packaged_script
from pgdyno.workloads.session_loop import LoopStatement
from pgdyno.workloads.statement_plans import PlanProbe
from pgdyno.workloads.ybio.table import MOST_ROWS, YbioTable, segments_for

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
    Parameter("shape", "script", "script: pgbench sends each batch; procedure: it calls runit, and setup loads"),
    Parameter("run_duration", 0.0, "seconds of one call of runit; 0 for one batch (shape=procedure)", low=0),
    Parameter("segments", 0, "ranges of keys with pages of their own; 0 for as many as run_tab_rows needs", low=0),
    Parameter("class", "", f"working set instead of tab_rows: {', '.join(working_set.CLASSES)}"),
    Parameter("memory", "", "memory that class means, such as 1GB; empty for the server's cgroup, else its host"),
    Parameter("driver", "pgbench", "loop: sessions that come again after iterations, and after the server's restart"),
    Parameter("iterations", 100, "calls of a session before it reconnects (driver=loop); 0 for all", low=0),
    Parameter("pause_s", 0.001, "seconds between two calls of a session (driver=loop)", low=0, high=60),
)
SHAPES = ("script", "procedure")
DRIVERS = ("pgbench", "loop")


def check(parameters: Mapping[str, Value]) -> None:
    """Raise UsageError on words that are not known, and on a class that nobody has turned into rows."""
    for name, words in (("shape", SHAPES), ("driver", DRIVERS)):
        if parameters[name] not in words:
            raise UsageError(f'parameter "{name}" of "ybio" must be {" or ".join(words)}, not "{parameters[name]}"')
    if parameters["class"]:
        raise UsageError(
            f'class "{parameters["class"]}" of "ybio" means a size only on a server',
            hint="Use it with a verb that measures, or give tab_rows.",
        )
    if parameters["run_duration"] and parameters["shape"] == "script":
        raise UsageError("run_duration is for shape=procedure", hint="Add -D shape=procedure, or use --measure.")


def table_name(parameters: Mapping[str, Value]) -> str:
    """Return the table's name, `bench0001`. Raise UsageError on a prefix that is not a plain lower-case name."""
    prefix = str(parameters["tab_prefix"])
    if not _PREFIX.fullmatch(prefix):
        raise UsageError(f'tab_prefix "{prefix}" is not a name of lower-case letters, digits and underscores')
    return f"{prefix}{int(parameters['tab_num']):04d}"


def data(parameters: Mapping[str, Value]) -> YbioTable:
    """Return the table that these parameters ask for."""
    rows, filler = int(parameters["tab_rows"]), int(parameters["filler"])
    segments = min(int(parameters["segments"]), rows) or segments_for(rows, int(parameters["run_tab_rows"]))
    name = table_name(parameters)
    called = (str(parameters["tab_prefix"]), int(parameters["tab_num"]), int(parameters["batch_size"]))
    return YbioTable(name, rows, filler, segments, called if parameters["shape"] == "procedure" else None)


def touched_rows(parameters: Mapping[str, Value]) -> int:
    """Return how many rows the load chooses from. Raise UsageError when they are less than a batch or not there."""
    tab_rows, run_tab_rows = int(parameters["tab_rows"]), int(parameters["run_tab_rows"])
    if run_tab_rows > tab_rows:
        raise UsageError(
            f"run_tab_rows {run_tab_rows} is more than the {plural(tab_rows, 'row')} of the table (tab_rows)"
        )
    rows = run_tab_rows or tab_rows
    if int(parameters["batch_size"]) > rows:
        raise UsageError(
            f"batch_size {parameters['batch_size']} is more than the {rows} rows that the load touches",
            hint="Lower batch_size, or raise tab_rows or run_tab_rows.",
        )
    return rows


def scripts(parameters: Mapping[str, Value]) -> tuple[Script, ...]:
    """Return the mix: reads and, as `pct_update` percent of the transactions, updates."""
    table, update = table_name(parameters), int(parameters["pct_update"])
    if parameters["shape"] == "procedure":
        words = {"prefix": str(parameters["tab_prefix"]), "number": str(parameters["tab_num"]), "update": str(update)}
        text = packaged_script("ybio_runit", duration=f"{float(parameters['run_duration']):g}", **words)
        return (Script("runit", 1, text),)
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
        protocol="simple" if parameters["shape"] == "procedure" else None,  # runit plans each batch with its values
    )


def loop(parameters: Mapping[str, Value]) -> SessionLoop | None:
    """Return the sessions of driver=loop, None for pgbench. Raise UsageError on a rhythm that pgbench has not."""
    declared = {parameter.name: parameter.default for parameter in PARAMETERS}
    if parameters["driver"] == "pgbench":
        if any(parameters[name] != declared[name] for name in ("iterations", "pause_s")):
            raise UsageError("iterations and pause_s are for driver=loop", hint="Add -D driver=loop.")
        return None
    rows, batch, table = touched_rows(parameters), int(parameters["batch_size"]), table_name(parameters)
    texts = {
        name: " ".join(line for line in text.splitlines() if not line.startswith(("--", "\\")))
        for name in ("read", "update")
        for text in [packaged_script(f"ybio_{name}", table=table).replace(":first", "%s").replace(":last", "%s")]
    }
    statements = []
    for script in scripts(parameters):
        call = (script.text or "").replace(":run_tab_rows", str(rows)).replace(":batch_size", str(batch))
        text = texts.get(script.name, call)
        statements.append(LoopStatement(text, script.weight, ranged=script.name in texts))
    return SessionLoop(
        statements=tuple(statements),
        rows=rows,
        batch=batch,
        iterations=int(parameters["iterations"]),
        pause_s=float(parameters["pause_s"]),
        tries=int(parameters["max_tries"]),
    )


def description(parameters: Mapping[str, Value]) -> str:
    """Return what is run, in a sentence."""
    batch, rows = int(parameters["batch_size"]), touched_rows(parameters)
    how = "runit, " if parameters["shape"] == "procedure" else ""
    loops = ", sessions in a loop" if parameters["driver"] == "loop" else ""
    share = f"{parameters['pct_update']} % updates"
    return f"{how}reads of {plural(batch, 'row')} by index, scattered over {plural(rows, 'row')}, {share}{loops}"
