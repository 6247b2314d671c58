"""The load of a plan file: its tables [workload], [load] and [sandbox], which stand for flags of these names. Pure.

A plan with these tables is a whole experiment: `bench --plan` measures its load, `experiment --plan` tries its steps
under it, `tune --plan` searches under it. Flags of the command line win.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pgdyno.errors import UsageError, hinted
from pgdyno.outside.documents import load_toml

TABLES = ("workload", "load", "sandbox")
_NUMBER = (int, float)
_LOAD: Mapping[str, tuple[type, ...]] = {
    "clients": (int,),
    "jobs": (int,),
    "protocol": (str,),
    "rate": _NUMBER,
    "connect_each": (bool,),
    "warmup": _NUMBER,
    "measure": _NUMBER,
    "reset": (str,),
    "load_seed": (int,),
    "foreign_cpu": _NUMBER,
    "steal": _NUMBER,
}
_SANDBOX = {"name": "sandbox", "memory": "sandbox_memory", "bin": "sandbox_bin"}


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
    try:
        document = load_toml(text)
    except ValueError as error:
        raise UsageError(f"{source}: not TOML: {error}") from error
    for name in document:
        known = ("version", "plan", "step", *TABLES)
        _require(name in known, f'{source}: unknown key "{name}"', f"The keys are {', '.join(known)}.")
    workload, load, sandbox = (_table(document, name, source) for name in TABLES)
    flags: dict[str, object] = {}
    for name, value in load.items():
        _require(name in _LOAD, f'{source}: [load] has no "{name}"', f"It has {', '.join(_LOAD)}.")
        is_right = type(value) in _LOAD[name]  # not isinstance: true is no number
        _require(is_right, f"{source}: {name} in [load] is {value!r}", "Write it as the flag of this name takes it.")
        flags[name] = value
    for name, value in sandbox.items():
        _require(name in _SANDBOX, f'{source}: [sandbox] has no "{name}"', f"It has {', '.join(_SANDBOX)}.")
        flags[_SANDBOX[name]] = str(value)
    parameters: dict[str, str | int | float | bool] = {}
    for name, value in workload.items():
        _require(name in ("name", "parameters"), f'{source}: [workload] has no "{name}"', "It has name and parameters.")
        if name == "name":
            flags["workload"] = str(value)
            continue
        _require(isinstance(value, dict), f"{source}: parameters in [workload] is no table", "Write { scale = 10 }.")
        assert isinstance(value, dict), "it was required"
        for parameter, given in value.items():
            _require(
                isinstance(given, str | int | float | bool),
                f"{source}: parameter {parameter} is {given!r}",
                "Write text.",
            )
            parameters[str(parameter)] = given
    return PlannedLoad(flags, parameters)


def _table(document: Mapping[str, object], name: str, source: str) -> Mapping[str, object]:
    table = document.get(name, {})
    _require(isinstance(table, dict), f'{source}: "{name}" is not a table', f"Write [{name}].")
    assert isinstance(table, dict), "it was required"
    return table


def _require(holds: bool, message: str, hint: str) -> None:
    if not holds:
        raise UsageError(message, hint=hint)
