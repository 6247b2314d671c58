"""Start the load of one trial: a single load generator, or several that begin together."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, UsageError, WorkloadError
from pgdyno.fleet.group import GroupLoad
from pgdyno.fleet.limits import make_limits, remove_limits
from pgdyno.model.cpus import cpus_text, parse_cpus
from pgdyno.model.trial import LoadPlan
from pgdyno.targets.target import Target
from pgdyno.workloads.gate import StartGate
from pgdyno.workloads.held_start import GO
from pgdyno.workloads.protocol import RunningLoad, Workload

READY_S = 60.0
"""How long all load generators together may take until they stand at the gate."""
_LOOK_S = 0.1


def begin_load(workload: Workload, target: Target, dbname: str, plan: LoadPlan, directory: Path) -> RunningLoad:
    """Start as many load generators as the plan has instances, each in a folder of its own under `directory`.

    Each runs `workload` in the database `dbname` of `target`, with the clients and the rate that `plan` has for one. A
    single one without limits writes into `directory` itself. Several, or one with limits, wait at a gate until the last
    of them is ready, so that all begin within milliseconds. Raises UsageError on CPUs that this host does not have,
    EnvironmentUnsuitable where a limit cannot be set, WorkloadError when one of them ends before the start; nothing of
    them is left then.
    """
    if plan.instances < 1:
        raise UsageError(f"instances {plan.instances} must be at least 1")
    if plan.instances == 1 and not plan.cpus and plan.instance_memory_bytes is None and plan.instance_vcpus is None:
        return workload.begin(target, dbname, plan, directory)
    return _begin_group(workload, target, dbname, plan, directory)


def allowed_cpus(text: str) -> tuple[int, ...]:
    """Return the CPUs of a list, all of which this process may use; empty for an empty list."""
    cpus = parse_cpus(text) if text else ()
    missing = tuple(cpu for cpu in cpus if cpu not in os.sched_getaffinity(0))
    if missing:
        have = cpus_text(tuple(os.sched_getaffinity(0)))
        raise UsageError(
            f"CPU {cpus_text(missing)} is not one of those of this process ({have})",
            hint=f"Name some of them, such as {have}.",
        )
    return cpus


def _begin_group(workload: Workload, target: Target, dbname: str, plan: LoadPlan, directory: Path) -> RunningLoad:
    cpus = allowed_cpus(plan.cpus)
    loads: list[RunningLoad] = []
    cgroups: list[Path] = []
    with ExitStack() as undo:
        undo.callback(_end, loads, cgroups)
        with ExitStack() as pipes:
            ready_read, ready_write = _pipe(pipes)
            go_read, go_write = _pipe(pipes)
            for instance in range(plan.instances):
                limits = make_limits(plan, f"{os.getpid()}-{instance}")
                cgroups += limits
                gate = StartGate(ready_write, go_read, cpus, limits)
                folder = directory / f"instance-{instance}"
                folder.mkdir(parents=True, exist_ok=True)
                one = replace(plan, seed=None if plan.seed is None else plan.seed + instance)
                loads.append(workload.begin(target, dbname, one, folder, instance=instance, gate=gate))
            _await_ready(loads, ready_read, directory)
            os.write(go_write, GO * len(loads))
        undo.pop_all()
    spec = workload.spec()
    scale = spec.parameters.get("scale") if spec.name == "tpcb-like" else None
    return GroupLoad(loads, plan, scale=scale if isinstance(scale, int) else None, cgroups=cgroups)


def _end(loads: Sequence[RunningLoad], cgroups: Sequence[Path]) -> None:
    for load in loads:
        load.terminate()
    remove_limits(cgroups)


def _pipe(stack: ExitStack) -> tuple[int, int]:
    read, write = os.pipe()
    stack.callback(os.close, read)
    stack.callback(os.close, write)
    return read, write


def _await_ready(loads: Sequence[RunningLoad], ready: int, directory: Path) -> None:
    """Wait until every load generator has said that it is ready."""
    missing, deadline = len(loads), time.monotonic() + READY_S
    while missing:
        if select.select([ready], [], [], _LOOK_S)[0]:
            missing -= len(os.read(ready, missing))
            continue
        ended = next((number for number, load in enumerate(loads) if load.poll()), None)
        if ended is not None:
            said = (directory / f"instance-{ended}" / "pgbench.stderr").read_text(errors="replace").strip()
            raise EnvironmentUnsuitable(f"load generator {ended} ended before the start", detail=said or None)
        if time.monotonic() > deadline:
            raise WorkloadError(f"{missing} of {len(loads)} load generators were not ready after {READY_S:.0f} s")
