"""A matrix plan as TOML, and back from the JSON that a study keeps. Reading is strict: a slip is refused by its name.

The form is in docs/reference/matrix.md; matrix.schema.json is its JSON Schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pgdyno.errors import UsageError, hinted
from pgdyno.model.matrix import BASELINE_NAME
from pgdyno.model.shapes import shaped
from pgdyno.model.tables import Table, fields_of, is_version, read_table, table_of, tables_of, toml_of
from pgdyno.studies.matrix.plan import MatrixPlan, Pod, Value, check
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

    Raises UsageError on anything but the documented form.
    """
    document = table_of(toml_of(text, source), source, _TOP)
    if not is_version(document.get("version"), VERSION):
        raise UsageError(f"{source}: version {document.get('version')} is not {VERSION}")
    configurations: dict[str, Mapping[str, str]] = {}
    for entry, where in tables_of(document, "configuration", source):
        named = read_table(ConfigurationRow, entry, where)
        if named.name in configurations:
            raise UsageError(f"{where} appears twice")
        own = {key: _setting(value) for key, value in named.settings.items()}
        configurations[named.name] = {**(settings_of(named.file) if named.file else {}), **own}
    place = f"{source}: matrix"
    head = {key: _listed(key, value) for key, value in table_of(document.get("matrix", {}), place, KEYS).items()}
    pods = {}
    for entry, where in tables_of(document, "pod", source):
        pod = read_table(PodRow, entry, where)
        pods[pod.instances] = Pod(pod.vcpus, None if pod.memory is None else int(parse_quantity(str(pod.memory), "B")))
    rest = {key: document.get(key, {}) for key in ("parameters", "custom", "network")}
    return MatrixPlan(
        **fields_of(MatrixPlan, head, place, KEYS),
        configurations=configurations or {BASELINE_NAME: {}},
        pods=pods,
        parameters=_values(rest["parameters"], f"{source}: parameters"),
        custom=_words(table_of(rest["custom"], f"{source}: custom", CUSTOM)),
        network=_words(table_of(rest["network"], f"{source}: network", NETWORKS)),
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


def _listed(key: str, value: object) -> object:
    """Return a bare level as a list of one."""
    return [value] if isinstance(getattr(MatrixPlan(), key), tuple) and not isinstance(value, list) else value


def _words(table: Table) -> dict[str, str]:
    return {key: str(value) for key, value in table.items()}


def _values(table: object, where: str) -> dict[str, Value]:
    if not isinstance(table, dict):
        raise UsageError(f"{where} is not a table")
    for name, value in table.items():
        if not isinstance(value, str | int | float):
            raise UsageError(f"{where}: {name} is not a text, a number, true or false")
    return table


def _setting(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
