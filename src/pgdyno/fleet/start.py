"""Start the load of one trial: a single load generator, or several that begin together."""

from __future__ import annotations

from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.model.trial import LoadPlan
from pgdyno.target.target import Target
from pgdyno.workloads.protocol import RunningLoad, Workload


def begin_load(workload: Workload, target: Target, dbname: str, plan: LoadPlan, directory: Path) -> RunningLoad:
    """Start as many load generators as the plan has instances, each in a folder of its own under `directory`."""
    if plan.instances == 1:
        return workload.begin(target, dbname, plan, directory)
    raise UsageError(f"{plan.instances} instances cannot be started yet")
