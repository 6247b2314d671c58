"""A matrix plan as TOML, and back from the JSON that a study keeps. Reading is strict: a slip is refused by its name.

The form is in docs/reference/matrix.md; matrix.schema.json is its JSON Schema.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeVar

from pgdyno.errors import UsageError, hinted
from pgdyno.model.matrix import BASELINE_NAME
from pgdyno.model.shapes import shaped
from pgdyno.outside.documents import load_toml
from pgdyno.studies.matrix.plan import MatrixPlan, Pod, Value, check
from pgdyno.units import parse_quantity

VERSION = 1
NETWORKS = ("admin", "injection", "client")
T = TypeVar("T")
_TOP = ("version", "matrix", "configuration", "pod", "parameters", "custom", "network")
_MATRIX = (
    "instances", "clients", "jobs", "modes", "scales", "smt", "server_cpus", "placements", "repetitions", "seed",
    "warmup_s", "measure_s", "protocol", "driver_cpus",
)  # fmt: skip


@hinted("docs/reference/matrix.md has an example and every key.")
def parse_matrix(text: str, settings_of: Callable[[str], Mapping[str, str]], *, source: str = "plan") -> MatrixPlan:
    """Read a plan, not yet checked as a whole. `settings_of` reads the file that a configuration names.

    Raises UsageError on anything but the documented form.
    """
    try:
        document = load_toml(text)
    except ValueError as error:
        raise UsageError(f"{source}: not TOML: {error}") from error
    _known(document, _TOP, source)
    if document.get("version") != VERSION:
        raise UsageError(f"{source}: version {document.get('version')} is not {VERSION}")
    configurations: dict[str, Mapping[str, str]] = {}
    for entry in _tables(document, "configuration", source):
        where = f"{source}: configuration"
        _known(entry, ("name", "file", "settings"), where)
        name = _one(entry, "name", str, where)
        if name in configurations:
            raise UsageError(f'{where} "{name}" is there twice')
        inline = _table(entry, "settings", where)
        named = settings_of(_one(entry, "file", str, where)) if "file" in entry else {}
        configurations[name] = {**named, **{key: _setting(value) for key, value in inline.items()}}
    head = _table(document, "matrix", source)
    _known(head, _MATRIX, f"{source}: matrix")
    pods = {}
    for entry in _tables(document, "pod", source):
        _known(entry, ("instances", "vcpus", "memory"), f"{source}: pod")
        pods[_one(entry, "instances", int, f"{source}: pod")] = Pod(
            None if "vcpus" not in entry else _number(entry["vcpus"], f"{source}: pod.vcpus"),
            None if "memory" not in entry else int(parse_quantity(str(entry["memory"]), "B")),
        )
    network = _table(document, "network", source)
    _known(network, NETWORKS, f"{source}: network")
    custom = _table(document, "custom", source)
    _known(custom, ("scripts", "init", "variables"), f"{source}: custom")
    return _plan(
        head,
        source,
        configurations=configurations or {BASELINE_NAME: {}},
        pods=pods,
        parameters=_values(_table(document, "parameters", source), f"{source}: parameters"),
        custom={key: str(value) for key, value in custom.items()},
        network={key: str(value) for key, value in network.items()},
    )


def plan_from_json(values: Mapping[str, object]) -> MatrixPlan:
    """Rebuild the plan that `matrix_plan.to_json` wrote. Raises UsageError on anything else."""
    where = "the study's options"
    configurations = {str(one["name"]): one["settings"] for one in _tables(values, "configurations", where)}
    pods = {int(str(one["instances"])): one for one in _tables(values, "pods", where)}
    return check(shaped(MatrixPlan, {**values, "configurations": configurations, "pods": pods}, where, strict=False))


def _plan(
    head: Mapping[str, object],
    where: str,
    *,
    configurations: Mapping[str, Mapping[str, str]],
    pods: Mapping[int, Pod],
    parameters: Mapping[str, Value],
    custom: Mapping[str, str | int],
    network: Mapping[str, str],
) -> MatrixPlan:
    plain = MatrixPlan()

    def seconds(name: str, default: float) -> float:
        return _number(head[name], f"{where}: {name}") if name in head else default

    return MatrixPlan(
        instances=_many(head, "instances", int, plain.instances, where),
        clients=_many(head, "clients", int, plain.clients, where),
        jobs=_many(head, "jobs", int, plain.jobs, where),
        modes=_many(head, "modes", str, plain.modes, where),
        scales=_many(head, "scales", int, plain.scales, where),
        smt=_many(head, "smt", str, plain.smt, where),
        server_cpus=_many(head, "server_cpus", str, plain.server_cpus, where),
        placements=_many(head, "placements", str, plain.placements, where),
        repetitions=_one(head, "repetitions", int, where) if "repetitions" in head else plain.repetitions,
        seed=_one(head, "seed", int, where) if "seed" in head else plain.seed,
        protocol=_one(head, "protocol", str, where) if "protocol" in head else plain.protocol,
        driver_cpus=_one(head, "driver_cpus", str, where) if "driver_cpus" in head else plain.driver_cpus,
        configurations=configurations,
        pods=pods,
        parameters=parameters,
        custom=custom,
        network=network,
        warmup_s=seconds("warmup_s", plain.warmup_s),
        measure_s=seconds("measure_s", plain.measure_s),
    )


def _known(table: Mapping[str, object], names: tuple[str, ...], where: str) -> None:
    for name in table:
        if name not in names:
            raise UsageError(f'{where}: unknown key "{name}"', hint=f"It takes {', '.join(names)}.")


def _tables(table: Mapping[str, object], name: str, where: str) -> list[Mapping[str, object]]:
    value = table.get(name, [])
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise UsageError(f"{where}: {name} is not a list of tables", hint=f"Write each as [[{name}]].")
    return value


def _table(table: Mapping[str, object], name: str, where: str) -> Mapping[str, object]:
    value = table.get(name, {})
    if not isinstance(value, dict):
        raise UsageError(f"{where}: {name} is not a table", hint=f"Write it as [{name}].")
    return value


def _values(table: Mapping[str, object], where: str) -> dict[str, Value]:
    for name, value in table.items():
        if not isinstance(value, str | int | float):
            raise UsageError(f"{where}: {name} is not a text, a number, true or false")
    return {name: value for name, value in table.items() if isinstance(value, str | int | float)}


def _one(table: Mapping[str, object], name: str, kind: type[T], where: str) -> T:
    value = table.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise UsageError(f"{where}: {name} is not {'a whole number' if kind is int else 'a text'}")
    return value


def _many(table: Mapping[str, object], name: str, kind: type[T], default: tuple[T, ...], where: str) -> tuple[T, ...]:
    value = table.get(name, default)
    items = list(value) if isinstance(value, list | tuple) else [value]
    if not all(isinstance(item, kind) and not isinstance(item, bool) for item in items):
        raise UsageError(f"{where}: {name} is not a list of {'whole numbers' if kind is int else 'texts'}")
    return tuple(item for item in items if isinstance(item, kind))


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UsageError(f"{where} is not a number")
    return float(value)


def _setting(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
