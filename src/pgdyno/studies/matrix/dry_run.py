"""What a matrix would run, without running it: every cell with its limits and pgbench's exact command line."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from pgdyno.model.matrix import OWN_SIZE, Cell, workload_of
from pgdyno.model.trial import LoadPlan
from pgdyno.studies.matrix.plan import NO_SCALE, MatrixPlan, order
from pgdyno.units import bytes_text, plural, seconds_text
from pgdyno.workloads.dataset import PgbenchTables
from pgdyno.workloads.dry_run import pgbench_argv
from pgdyno.workloads.pgbench.command import Pgbench
from pgdyno.workloads.registry import make_workload
from pgdyno.workloads.script import BUILTIN_STATEMENTS
from pgdyno.workloads.working_set import without_class


def dry_run(plan: MatrixPlan, pgbench: Pgbench) -> Iterator[str]:
    """Yield the lines: data with their estimated sizes, each cell's command, the order of the repetitions."""
    cells = plan.cells()
    of = f"{plural(len(cells), 'cell')}, {plural(plan.repetitions, 'repetition')}"
    yield f"# {of}, the baseline before them; pgbench {pgbench.version}"
    seconds = (1 + plan.repetitions * len(cells)) * (plan.warmup_s + plan.measure_s)
    yield "# no server was asked: a run skips cells for which it lacks connections, CPUs or a listening address"
    yield f"# at most {seconds_text(seconds)} of load; loading data, their copies and restarts come on top"
    for scale in sorted({cell.scale for cell in cells} - {NO_SCALE}):
        yield f"# scale {scale}: about {bytes_text(PgbenchTables(scale).estimated_bytes)} of pgbench's tables"
    for mode, cell in {cell.mode: cell for cell in cells}.items():
        yield f"# mode {mode}: {_mode(plan, cell)}"
    for number, cell in enumerate(cells, start=1):
        load = plan.load(cell)
        yield f"# cell {number}: {_factors(cell)}"
        for name, value in plan.settings(cell).items():
            yield f"#   {name} = {value}"
        yield f"#   {cell.instances} at once, {plural(cell.connections, 'connection')}{_limits(load)}"
        if workload_of(cell.mode) != "replay":
            yield shlex.join(command(plan, cell, pgbench))
    numbers = {cell: number for number, cell in enumerate(cells, start=1)}
    for repetition in range(1, plan.repetitions + 1):
        places = " ".join(str(numbers[cell]) for cell in order(cells, repetition, plan.seed))
        yield f"# order of repetition {repetition}: {places}"


def command(plan: MatrixPlan, cell: Cell, pgbench: Pgbench) -> list[str]:
    """Return pgbench's argument list for one load generator of a cell; the database's name is given at run time."""
    return pgbench_argv(cell.mode, without_class(plan.workload(cell)), plan.load(cell), pgbench)


def _mode(plan: MatrixPlan, cell: Cell) -> str:
    if cell.mode == "custom":
        data = "its data by the init script, not known beforehand" if plan.custom.get("init") else "no data of its own"
        return f"the scripts that were named; {data}"
    if workload_of(cell.mode) not in OWN_SIZE:
        return BUILTIN_STATEMENTS[cell.mode]
    workload = make_workload(cell.mode, without_class(plan.workload(cell)))
    size = workload.data.estimated_bytes
    return f"{workload.identity.description}; data {'not known beforehand' if size is None else bytes_text(size)}"


def _factors(cell: Cell) -> str:
    return ", ".join(f"{name} {word}" for name, word in cell.factors().items() if (name, word) != ("scale", "0"))


def _limits(load: LoadPlan) -> str:
    words = [f"{load.instance_vcpus:g} vCPU each"] if load.instance_vcpus is not None else []
    words += [f"{bytes_text(load.instance_memory_bytes)} each"] if load.instance_memory_bytes is not None else []
    words += [f"on CPUs {load.cpus}"] if load.cpus else []
    return "".join(f", {word}" for word in words)
