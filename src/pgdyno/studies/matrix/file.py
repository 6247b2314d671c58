"""A matrix plan as TOML, and back from the JSON that a study keeps. Reading is strict: a slip is refused by its name.

The form is in docs/reference/matrix.md; matrix.schema.json is its JSON Schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pgdyno.errors import hinted
from pgdyno.model.matrix import BASELINE_NAME
from pgdyno.model.shapes import shaped
from pgdyno.model.tables import tables_of
from pgdyno.studies.matrix.plan import MatrixPlan, Pod, Value, check
from pgdyno.studies.plan_reader import PlanTable
from pgdyno.units import parse_quantity

VERSION = 1
NETWORKS = ("admin", "injection", "client")
CUSTOM = ("scripts", "init", "variables")
_TOP = ("version", "matrix", "configuration", "pod", "parameters", "custom", "network")
KEYS = (
    "instances", "clients", "jobs", "modes", "scales", "smt", "server_cpus", "placements", "repetitions", "seed",
    "warmup_s", "measure_s", "protocol", "driver_cpus",
)  # fmt: skip


@hinted("docs/reference/matrix.md has an example and every key.")
def parse_matrix(text: str, settings_of: Callable[[str], Mapping[str, str]], *, source: str = "plan") -> MatrixPlan:
    """Read a plan, not yet checked as a whole. `settings_of` reads the file that a configuration names.

    Raises UsageError with line, name and value on anything but the documented form.
    """
    file = PlanTable.of_text(text, source)
    file.head(_TOP, ("version",), VERSION)
    configurations: dict[str, Mapping[str, str]] = {}
    for table in file.tables("configuration"):
        named = table.read(ConfigurationRow)
        if named.name in configurations:
            table.refuse("name", f'configuration "{named.name}" appears twice', hint="Give each a name of its own.")
        with table.at("file"):
            kept = settings_of(named.file) if named.file else {}
        configurations[named.name] = {**kept, **{key: _setting(value) for key, value in named.settings.items()}}
    return MatrixPlan(
        **_axes(file),
        configurations=configurations or {BASELINE_NAME: {}},
        pods=_pods(file),
        parameters=_parameters(file),
        custom=_words(file, "custom", CUSTOM),
        network=_words(file, "network", NETWORKS),
    )


def plan_from_json(values: Mapping[str, object]) -> MatrixPlan:
    """Rebuild the plan that `matrix_plan.to_json` wrote. Raises UsageError on anything else."""
    where = "the study's options"
    configurations = {str(one["name"]): one["settings"] for one, _ in tables_of(values, "configurations", where)}
    pods = {int(str(one["instances"])): one for one, _ in tables_of(values, "pods", where)}
    return check(shaped(MatrixPlan, {**values, "configurations": configurations, "pods": pods}, where, strict=False))


@dataclass(frozen=True, slots=True)
class ConfigurationRow:
    """A table [[configuration]]."""

    name: str
    file: str = ""
    settings: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodRow:
    """A table [[pod]]."""

    instances: int
    vcpus: float | None = None
    memory: str | int | None = None


def _axes(file: PlanTable) -> dict[str, Any]:
    """Return what [matrix] says; a bare level is a list of one."""
    table = file.get("matrix")
    if table is None:
        return {}
    table.values = {key: _listed(key, value) for key, value in table.values.items()}
    return table.fields(MatrixPlan, KEYS)


def _listed(key: str, value: object) -> object:
    is_level = isinstance(getattr(MatrixPlan(), key, None), tuple) and not isinstance(value, list)
    return [value] if is_level else value


def _pods(file: PlanTable) -> dict[int, Pod]:
    found = dict[int, Pod]()
    for table in file.tables("pod"):
        row = table.read(PodRow)
        with table.at("memory"):
            memory = None if row.memory is None else int(parse_quantity(str(row.memory), "B"))
        found[row.instances] = Pod(row.vcpus, memory)
    return found


def _parameters(file: PlanTable) -> dict[str, Value]:
    table, found = file.get("parameters"), dict[str, Value]()
    if table is None:
        return found
    for name, value in table.values.items():
        if not isinstance(value, str | int | float):
            table.refuse(name, f"{name} is not a text, a number, true or false")
        found[name] = value
    return found


def _words(file: PlanTable, key: str, keys: tuple[str, ...]) -> dict[str, str]:
    table = file.get(key)
    if table is None:
        return {}
    table.refuse_others(keys)
    return {name: str(value) for name, value in table.values.items()}


def _setting(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
