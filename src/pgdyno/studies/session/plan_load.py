"""The load of a plan file: its tables [workload], [load] and [sandbox], which stand for flags of these names. Pure.

A plan with these tables is a whole experiment: `bench --plan` measures its load, `experiment --plan` tries its steps
under it, `tune --plan` searches under it. Flags of the command line win.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pgdyno.errors import UsageError, hinted
from pgdyno.model.tables import fields_of, table_of, toml_of

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


def without_load(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan's document without the tables of its load."""
    return {name: value for name, value in document.items() if name not in TABLES}


@hinted("docs/reference/plan.md has every key.")
def planned_load(text: str, *, source: str = "plan") -> PlannedLoad:
    """Read the load of a plan; what is not in it stays as the flags have it. Raises UsageError on what is not known."""
    document = table_of(toml_of(text, source), source, ("version", "plan", "step", *TABLES))
    flags = fields_of(PlanLoadKeys, document.get("load", {}), f"{source}: [load]")
    sandbox = table_of(document.get("sandbox", {}), f"{source}: [sandbox]", SANDBOX)
    flags |= {SANDBOX[name]: str(value) for name, value in sandbox.items()}
    place = f"{source}: [workload]"
    workload = table_of(document.get("workload", {}), place, ("name", "parameters"))
    if "name" in workload:
        flags["workload"] = str(workload["name"])
    parameters = workload.get("parameters", {})
    if not isinstance(parameters, dict):
        raise UsageError(f"{place}: parameters is not a table", hint="Write { scale = 10 }.")
    for name, given in parameters.items():
        if not isinstance(given, str | int | float):
            raise UsageError(f"{place}: parameter {name} is {given!r}", hint="Write text.")
    return PlannedLoad(flags, parameters)
