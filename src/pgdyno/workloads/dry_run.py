"""The command line that a workload would run, without a server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pgdyno.model.trial import LoadPlan
from pgdyno.workloads.parameters import Value, resolve
from pgdyno.workloads.pgbench_command import Pgbench, RunCommand
from pgdyno.workloads.registry import WORKLOADS


def pgbench_argv(
    name: str, parameters: Mapping[str, Value], plan: LoadPlan, pgbench: Pgbench, directory: Path, dbname: str
) -> list[str]:
    """Return pgbench's argument list for one load generator. Raises UsageError as making the workload does."""
    kind = WORKLOADS[name]
    workload = kind.make(resolve(name, kind.parameters, parameters), None)
    command = RunCommand(pgbench, plan, workload.scripts, workload.variables, workload.options, directory, dbname)
    return command.argv()
