"""The load of a plan file: its tables [workload], [load] and [sandbox], which stand for flags of these names. Pure.

A plan with these tables is a whole experiment: `bench --plan` measures its load, `experiment --plan` tries its steps
under it, `tune --plan` searches under it. Flags of the command line win.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pgdyno.errors import hinted
from pgdyno.studies.plan_reader import PlanTable

TABLES = ("workload", "load", "sandbox")
SANDBOX = {"name": "sandbox", "memory": "sandbox_memory", "bin": "sandbox_bin"}


@dataclass(frozen=True, slots=True)
class PlanLoadKeys:
    """The keys of [load]: flags of these names."""

    clients: int = 0
    jobs: int = 0
    protocol: str = ""
    rate: float = 0.0
    connect_each: bool = False
    warmup: float = 0.0
    measure: float = 0.0
    reset: str = ""
    load_seed: int = 0
    foreign_cpu: float = 0.0
    steal: float = 0.0


@dataclass(frozen=True, slots=True)
class PlannedLoad:
    """What a plan says of its load: `flags` by their names in the program, and the parameters of its workload."""

    flags: Mapping[str, object] = field(default_factory=dict)
    parameters: Mapping[str, str | int | float | bool] = field(default_factory=dict)


@hinted("docs/reference/plan.md has every key.")
def planned_load(text: str, *, source: str = "plan") -> PlannedLoad:
    """Read the load of a plan; what is not in it stays as the flags have it. Raises UsageError on what is not known."""
    file = PlanTable.of_text(text, source)
    file.refuse_others(("version", "plan", "step", *TABLES))
    flags, parameters = dict[str, object](), dict[str, str | int | float | bool]()
    if (load := file.get("load")) is not None:
        flags |= load.fields(PlanLoadKeys)
    if (sandbox := file.get("sandbox")) is not None:
        sandbox.refuse_others(SANDBOX)
        flags |= {SANDBOX[name]: str(value) for name, value in sandbox.values.items()}
    if (workload := file.get("workload")) is not None:
        workload.refuse_others(("name", "parameters"))
        if "name" in workload.values:
            flags["workload"] = str(workload.values["name"])
        if (given := workload.get("parameters")) is not None:
            parameters = _parameters(given)
    return PlannedLoad(flags, parameters)


def _parameters(table: PlanTable) -> dict[str, str | int | float | bool]:
    found = dict[str, str | int | float | bool]()
    for name, value in table.values.items():
        if not isinstance(value, str | int | float):
            table.refuse(name, f"parameter {name} is {value!r}", hint="Write text.")
        found[name] = value
    return found
