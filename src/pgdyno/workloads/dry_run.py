"""What a workload would run, without a server: its scripts, how large its data are, and the driver's command line."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from pgdyno.model.trial import LoadPlan
from pgdyno.units import bytes_text, plural
from pgdyno.workloads.loop_command import check_loop_plan
from pgdyno.workloads.parameters import Value
from pgdyno.workloads.pgbench.command import Pgbench, RunCommand
from pgdyno.workloads.pgbench.workload import PgbenchWorkload
from pgdyno.workloads.registry import make_workload
from pgdyno.workloads.script import Script

FOLDER, DATABASE = Path("RUN"), "LOAD"
"""What stands for the run's folder and the load's database, which are named when a run begins."""


def pgbench_argv(name: str, parameters: Mapping[str, Value], plan: LoadPlan, pgbench: Pgbench) -> list[str]:
    """Return pgbench's argument list for one load generator. Raises UsageError as making the workload does.

    `name` and `parameters` are the workload's, as `make_workload` takes them. `plan` says how it is driven, by the
    program `pgbench`, whose version decides on the options. Raises, too, what `RunCommand.argv` raises.
    """
    return _argv(make_workload(name, parameters), plan, pgbench)


def load_lines(name: str, parameters: Mapping[str, Value], plan: LoadPlan, pgbench: Pgbench) -> Iterator[str]:
    """Yield what a run of this load would be: comments, and the command line. Errors as `pgbench_argv`.

    It takes `name`, `parameters`, `plan` and `pgbench` as that does. A load that pgbench does not drive has no command
    line.
    """
    workload = make_workload(name, parameters)
    if workload.loop is not None:
        check_loop_plan(plan)
    yield f"# {workload.identity.description}"
    if workload.driver is not None:
        plan = workload.planned(plan)
        yield f"# {plural(plan.clients, 'session')} for {plan.duration_s:g} s, by the engine of replays"
        return
    size = workload.data.estimated_bytes
    yield f"# data: {'not known beforehand' if size is None else f'about {bytes_text(size)}'}"
    for script in workload.scripts:
        yield from _script_lines(script)
    window = f"a warm-up of at most {plan.warmup_s:g} s, then {plan.measure_s:g} s measured"
    driver = f"pgbench {pgbench.version}" if workload.loop is None else "sessions of pgdyno's own, which come again"
    yield f"# {plan.clients} session{'s' * (plan.clients != 1)}, {window}, by {driver}"
    if workload.loop is None:
        yield shlex.join(_argv(workload, plan, pgbench))


def _script_lines(script: Script) -> Iterator[str]:
    if script.text is None:
        yield f"# script {script.name}: pgbench's own"
        return
    yield f"# script {script.name}, weight {script.weight}:"
    for line in script.text.strip().splitlines():
        yield f"#   {line}"


def _argv(workload: PgbenchWorkload, plan: LoadPlan, pgbench: Pgbench) -> list[str]:
    return RunCommand(pgbench, plan, workload.scripts, workload.variables, workload.options, FOLDER, DATABASE).argv()
