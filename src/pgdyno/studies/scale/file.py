"""The file of a scalability plan: TOML, read strictly, each slip with its line (docs/reference/scale.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgdyno.errors import UsageError, hinted
from pgdyno.model.tables import is_version, table_of, tables_of, toml_of
from pgdyno.model.trial import check_length, check_rate, check_speed
from pgdyno.model.verdict import Metric
from pgdyno.outside.toml_lines import TableLines, TomlLines
from pgdyno.remote.address import HostAddress
from pgdyno.server.postgres import refuse_secrets
from pgdyno.stats.constancy import FEWEST_PAIRS
from pgdyno.studies.plan_reader import PlanReader
from pgdyno.studies.scale.plan import LevelCriterion, PlannedLevel, ScalePlan, Value, is_even
from pgdyno.units import parse_quantity

VERSION = 1
HINT = "docs/reference/scale.md has every key; examples/scale has a plan."
NAME = re.compile(r"[^\s\x00-\x1f][^\x00-\x1f]{0,79}")
MOST_LEVELS, MOST_REPETITIONS, MOST_CLIENTS = 50, 100, 10_000
RESPONSES = (Metric.LATENCY_P50, Metric.LATENCY_P95, Metric.LATENCY_P99)
_TABLES = ("version", "scale", "load", "criterion", "level", "clients")


@dataclass(frozen=True, slots=True)
class _Head:
    name: str
    repetitions: int = 6
    reference: float = 0.0
    seed: int = 1
    proportion: bool = True


@dataclass(frozen=True, slots=True)
class _Load:
    workload: str
    warmup: str
    measure: str
    clients: int = 1
    rate: float = 0.0
    speed: float = 1.0
    protocol: str = "prepared"
    parameters: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Criterion:
    success: str
    response: str
    path_length: str
    response_time: str = Metric.LATENCY_P95.value
    within: str = ""


@dataclass(frozen=True, slots=True)
class _Level:
    percent: float
    cpus: float = 0.0
    memory: str = ""
    target: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class _Curve:
    connections: tuple[int, ...]
    cpus: float = 0.0
    memory: str = ""


@hinted(HINT)
def parse_plan(text: str, *, source: str = "plan", folder: Path = Path()) -> ScalePlan:
    """Read a plan. A trace is named from `folder`. Raises UsageError with line, name and value on any slip."""
    document, lines, reader = toml_of(text, source), TomlLines(text), PlanReader(source)
    for key in document:
        place = lines.of(key, 0).line if key not in lines.of().keys else lines.of().of(key)
        with reader.at(place, ""):
            table_of({key: None}, "the file", _TABLES)
    with reader.at(1, ""):
        for key in ("version", "scale", "load", "criterion", "level"):
            if not document.get(key):
                raise UsageError(f'"{key}" is missing')
    with reader.at(lines.of().of("version"), ""):
        if not is_version(document["version"], VERSION):
            raise UsageError(f"version {document['version']} is not {VERSION}", hint="Upgrade pgdyno.")
    head_lines, load_lines, criterion_lines = (lines.of(one, 0) for one in ("scale", "load", "criterion"))
    head = reader.fields(_Head, _table(document, "scale", source), head_lines, "scale")
    load = reader.fields(_Load, _table(document, "load", source), load_lines, "load")
    wanted = reader.fields(_Criterion, _table(document, "criterion", source), criterion_lines, "criterion")
    with reader.at(head_lines.of("name"), "scale"):
        if not NAME.fullmatch(head.name) or not head.name.isprintable():
            raise UsageError(f'"{head.name[:80]}" is not a name', hint="A name has 1 to 80 characters of one line.")
    levels = _levels(document, lines, reader, source)
    if head.proportion:
        _check_proportion(levels, lines, reader)
    connections, curve = _curve(document, lines, reader, source)
    with reader.at(lines.of("level", 0).line, ""):
        if any(one.target for one in levels) and any(one.cpus or one.memory_bytes for one in (*levels, curve)):
            raise UsageError(
                "some levels have a target of their own, and others a bound",
                hint="Give each level its server, or each its share of one.",
            )
    plan = ScalePlan(
        name=head.name,
        repetitions=reader.within(head.repetitions, "repetitions", FEWEST_PAIRS, MOST_REPETITIONS, head_lines, "scale"),
        seed=head.seed,
        proportion=head.proportion,
        reference=_reference(head, levels, reader, head_lines),
        workload=_workload(load.workload, folder),
        parameters=_parameters(load, folder),
        clients=reader.within(load.clients, "clients", 1, MOST_CLIENTS, load_lines, "load"),
        rate=load.rate or None,
        speed=load.speed,
        protocol=load.protocol,
        warmup_s=reader.seconds(load.warmup, "warmup", load_lines, "load") or 0.0,
        measure_s=reader.seconds(load.measure, "measure", load_lines, "load") or 0.0,
        criterion=_criterion(wanted, reader, criterion_lines),
        levels=levels,
        connections=connections,
        curve=curve,
    )
    _check_load(plan, load, reader, load_lines)
    if plan.is_captured and plan.connections:
        with reader.at(lines.of("clients", 0).line, "clients"):
            raise UsageError("a captured load has its own sessions, and no client curve", hint="Leave [clients] out.")
    return plan


def _table(document: Mapping[str, object], key: str, source: str) -> Mapping[str, object]:
    found = document[key]
    if not isinstance(found, dict):
        raise UsageError(f"{source}: {key} is not a table", hint=f"Write it as [{key}].")
    return found


def _workload(name: str, folder: Path) -> str:
    kind, colon, subject = name.partition(":")
    return f"{kind}:{(folder / subject).absolute()}" if colon and subject else name


def _parameters(load: _Load, folder: Path) -> dict[str, Value]:
    """Return the parameters; files of a user's own load are named from the plan's folder, as a trace is."""
    found = dict(load.parameters)
    if load.workload == "custom":
        if init := found.get("init"):
            found["init"] = str((folder / str(init)).absolute())
        entries = str(found.get("scripts", "")).split(",")
        found["scripts"] = ",".join(_script(entry.strip(), folder) for entry in entries if entry.strip())
    return found


def _script(entry: str, folder: Path) -> str:
    """Return a script's entry, FILE or FILE@WEIGHT, from the folder; one of pgbench's own stays as it is."""
    path = folder / (entry.rpartition("@")[0] or entry)
    return str(folder.absolute() / entry) if path.is_file() else entry


def _levels(
    document: Mapping[str, object], lines: TomlLines, reader: PlanReader, source: str
) -> tuple[PlannedLevel, ...]:
    found, seen = list[PlannedLevel](), set[float]()
    for number, (table, _) in enumerate(tables_of(document, "level", source)):
        own, place = lines.of("level", number), f"level {number + 1}"
        raw = reader.fields(_Level, table, own, place)
        with reader.at(own.of("percent"), place):
            if not 1 <= raw.percent <= 10_000:
                raise UsageError(f"percent {raw.percent:g} is not from 1 to 10000", hint="Write production as 100.")
            if raw.percent in seen:
                raise UsageError(f"level {raw.percent:g} is there twice")
        seen.add(raw.percent)
        with reader.at(own.of("target"), place):
            if raw.target:
                refuse_secrets(raw.target, "target")
            if raw.target and (raw.cpus or raw.memory):
                raise UsageError("target and a bound exclude each other", hint="Leave cpus and memory out.")
        with reader.at(own.of("host"), place):
            if raw.host and not raw.target:
                raise UsageError("host needs a target", hint="Name the server as libpq does, seen from its host.")
            host = str(HostAddress.parse(raw.host)) if raw.host else ""
        hardware = _hardware(raw.percent, raw.cpus, raw.memory, reader, own, place)
        found.append(replace(hardware, target=raw.target, host=host))
    with reader.at(lines.of("level", 0).line, ""):
        if not 2 <= len(found) <= MOST_LEVELS:
            raise UsageError(f"{len(found)} levels are not from 2 to {MOST_LEVELS}", hint="Write each as [[level]].")
    return tuple(sorted(found, key=lambda one: one.percent))


def _hardware(
    percent: float, cpus: float, memory: str, reader: PlanReader, lines: TableLines, place: str
) -> PlannedLevel:
    with reader.at(lines.of("cpus"), place):
        if cpus and not 0.05 <= cpus <= 10_000:
            raise UsageError(f"cpus {cpus:g} is not from 0.05 to 10000")
    size: int | None = None
    if memory:
        with reader.at(lines.of("memory"), place):
            size = int(parse_quantity(memory, "B"))
            if size < 64 << 20 or not memory.strip()[-1].isalpha():
                raise UsageError(f'memory "{memory}" is not an amount of 64MB or more', hint="Write it as 2GB.")
    return PlannedLevel(percent=percent, cpus=round(cpus, 4) or None, memory_bytes=size)


def _check_proportion(levels: tuple[PlannedLevel, ...], lines: TomlLines, reader: PlanReader) -> None:
    """Refuse levels whose hardware does not go with the load: they would answer another question."""
    for of in ("cpus", "memory_bytes"):
        shares = {one.percent: amount / one.percent for one in levels if (amount := getattr(one, of))}
        with reader.at(lines.of("level", 0).line, ""):
            if shares and len(shares) < len(levels):
                raise UsageError(f"some levels have a bound on {of.removesuffix('_bytes')} and others have none")
            if not is_even(shares.values()):
                told = ", ".join(f"{percent:g} % {100 * share:g}" for percent, share in shares.items())
                raise UsageError(
                    f"{of.removesuffix('_bytes')} and load are not in proportion; at 100 % they would be: {told}",
                    hint="Give each level its share, or write proportion = false in [scale].",
                )


def _reference(head: _Head, levels: tuple[PlannedLevel, ...], reader: PlanReader, lines: TableLines) -> float:
    known = [one.percent for one in levels]
    asked = head.reference or (100.0 if 100.0 in known else known[0])
    with reader.at(lines.of("reference"), "scale"):
        if asked not in known:
            raise UsageError(
                f"reference {asked:g} is no level", hint=f"There are {', '.join(f'{one:g}' for one in known)}."
            )
    return asked


def _criterion(raw: _Criterion, reader: PlanReader, lines: TableLines) -> LevelCriterion:
    with reader.at(lines.of("response_time"), "criterion"):
        if raw.response_time not in RESPONSES:
            raise UsageError(f'response_time "{raw.response_time}" is not one of {", ".join(RESPONSES)}')
    within = reader.seconds(raw.within, "within", lines, "criterion")
    return LevelCriterion(
        success=_tolerance(raw.success, "success", reader, lines),
        response=_tolerance(raw.response, "response", reader, lines),
        path=_tolerance(raw.path_length, "path_length", reader, lines),
        metric=Metric(raw.response_time),
        within_ms=None if within is None else 1000 * within,
    )


def _tolerance(text: str, key: str, reader: PlanReader, lines: TableLines) -> float:
    return reader.percent(text, key, 0.01, 90, lines, "criterion", "a tolerance") / 100


def _curve(
    document: Mapping[str, object], lines: TomlLines, reader: PlanReader, source: str
) -> tuple[tuple[int, ...], PlannedLevel]:
    if not document.get("clients"):
        return (), PlannedLevel(percent=100.0)
    own = lines.of("clients", 0)
    raw = reader.fields(_Curve, _table(document, "clients", source), own, "clients")
    with reader.at(own.of("connections"), "clients"):
        if len(set(raw.connections)) != len(raw.connections) or not raw.connections:
            raise UsageError("connections names none, or one twice", hint="Write [1, 2, 4, 8].")
    for one in raw.connections:
        reader.within(one, "connections", 1, MOST_CLIENTS, own, "clients")
    return tuple(sorted(raw.connections)), _hardware(100.0, raw.cpus, raw.memory, reader, own, "clients")


def _check_load(plan: ScalePlan, load: _Load, reader: PlanReader, lines: TableLines) -> None:
    """Ask the workload itself whether it takes what the plan gives it; reads its scripts or trace, asks no server."""
    from pgdyno.workloads.registry import make_workload

    with reader.at(lines.of("measure"), "load"):
        check_length(plan.warmup_s, plan.measure_s)
    with reader.at(lines.of("rate"), "load"):
        if plan.is_captured and load.rate:
            raise UsageError("a captured load has no rate", hint="The trace says what is sent when; see speed.")
        if not plan.is_captured:
            check_rate(load.rate)
    with reader.at(lines.of("speed"), "load"):
        if load.speed != 1.0 and not plan.is_captured:
            raise UsageError("speed is for a captured load", hint="Give rate instead.")
        check_speed(load.speed, f"speed {load.speed:g}")
    with reader.at(lines.of("parameters"), "load"):
        if "speed" in plan.parameters:
            raise UsageError("speed is a key of [load], which each level multiplies")
    with reader.at(lines.of("protocol"), "load"):
        if plan.protocol not in ("simple", "extended", "prepared"):
            raise UsageError(f'protocol "{plan.protocol}" is not one of simple, extended, prepared')
    with reader.at(lines.of("workload"), "load"):
        for level in plan.levels:
            make_workload(plan.workload, plan.parameters_of(level))
