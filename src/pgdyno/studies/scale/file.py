"""The file of a scalability plan: TOML, read strictly, each slip with its line (docs/reference/scale.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgdyno.errors import hinted
from pgdyno.model.trial import PROTOCOLS, check_length, check_rate, check_speed
from pgdyno.model.verdict import Metric
from pgdyno.remote.address import HostAddress
from pgdyno.server.postgres import refuse_secrets
from pgdyno.stats.constancy import FEWEST_PAIRS
from pgdyno.studies.plan_reader import PlanTable
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
    file = PlanTable.of_text(text, source)
    file.head(_TABLES, _TABLES[:-1], VERSION)
    scale, load, criterion = (file.needed(key) for key in ("scale", "load", "criterion"))
    head, asked = scale.read(_Head), load.read(_Load)
    wanted = criterion.read(_Criterion)
    if not NAME.fullmatch(head.name) or not head.name.isprintable():
        scale.refuse("name", f'"{head.name[:80]}" is not a name', hint="A name has 1 to 80 characters of one line.")
    levels = _levels(file)
    if head.proportion:
        _check_proportion(levels, file)
    connections, curve = _curve(file)
    if any(one.target for one in levels) and any(one.cpus or one.memory_bytes for one in (*levels, curve)):
        file.refuse(
            "level",
            "some levels have a target of their own, and others a limit",
            hint="Give each level its server, or each its share of one.",
        )
    plan = ScalePlan(
        name=head.name,
        repetitions=scale.within("repetitions", head.repetitions, FEWEST_PAIRS, MOST_REPETITIONS),
        seed=head.seed,
        proportion=head.proportion,
        reference=_reference(head, levels, scale),
        workload=_workload(asked.workload, folder),
        parameters=_parameters(asked, folder),
        clients=load.within("clients", asked.clients, 1, MOST_CLIENTS),
        rate=asked.rate or None,
        speed=asked.speed,
        protocol=asked.protocol,
        warmup_s=load.seconds("warmup") or 0.0,
        measure_s=load.seconds("measure") or 0.0,
        criterion=_criterion(wanted, criterion),
        levels=levels,
        connections=connections,
        curve=curve,
    )
    _check_load(plan, asked, load)
    if plan.is_captured and plan.connections:
        file.refuse("clients", "a captured load has its own sessions, and no client curve", hint="Leave [clients] out.")
    return plan


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


def _levels(file: PlanTable) -> tuple[PlannedLevel, ...]:
    found, seen = list[PlannedLevel](), set[float]()
    for table in file.tables("level"):
        raw = table.read(_Level)
        if not 1 <= raw.percent <= 10_000:
            table.refuse("percent", f"percent {raw.percent:g} is not from 1 to 10000", hint="Write production as 100.")
        if raw.percent in seen:
            table.refuse("percent", f"level {raw.percent:g} appears twice", hint="Leave one of them out.")
        seen.add(raw.percent)
        if raw.target:
            with table.at("target"):
                refuse_secrets(raw.target, "target")
        if raw.target and (raw.cpus or raw.memory):
            table.refuse("target", "target and a limit cannot be used together", hint="Leave cpus and memory out.")
        if raw.host and not raw.target:
            table.refuse("host", "host needs a target", hint="Name the server as libpq does, seen from its host.")
        with table.at("host"):
            host = str(HostAddress.parse(raw.host)) if raw.host else ""
        found.append(replace(_hardware(raw.percent, raw.cpus, raw.memory, table), target=raw.target, host=host))
    if not 2 <= len(found) <= MOST_LEVELS:
        file.refuse("level", f"{len(found)} levels are not from 2 to {MOST_LEVELS}", hint="Write each as [[level]].")
    return tuple(sorted(found, key=lambda one: one.percent))


def _hardware(percent: float, cpus: float, memory: str, table: PlanTable) -> PlannedLevel:
    if cpus and not 0.05 <= cpus <= 10_000:
        table.refuse("cpus", f"cpus {cpus:g} is not from 0.05 to 10000")
    size: int | None = None
    if memory:
        with table.at("memory"):
            size = int(parse_quantity(memory, "B"))
        if size < 64 << 20 or not memory.strip()[-1].isalpha():
            table.refuse("memory", f'memory "{memory}" is not an amount of 64MB or more', hint="Write it as 2GB.")
    return PlannedLevel(percent=percent, cpus=round(cpus, 4) or None, memory_bytes=size)


def _check_proportion(levels: tuple[PlannedLevel, ...], file: PlanTable) -> None:
    """Refuse levels whose hardware does not go with the load: they would answer another question."""
    for of in ("cpus", "memory_bytes"):
        name = of.removesuffix("_bytes")
        shares = {one.percent: amount / one.percent for one in levels if (amount := getattr(one, of))}
        if shares and len(shares) < len(levels):
            file.refuse("level", f"some levels have a limit on {name} and others have none")
        if not is_even(shares.values()):
            told = ", ".join(f"{percent:g} % {100 * share:g}" for percent, share in shares.items())
            file.refuse(
                "level",
                f"{name} and load are not in proportion; at 100 % they would be: {told}",
                hint="Give each level its share, or write proportion = false in [scale].",
            )


def _reference(head: _Head, levels: tuple[PlannedLevel, ...], scale: PlanTable) -> float:
    known = [one.percent for one in levels]
    asked = head.reference or (100.0 if 100.0 in known else known[0])
    if asked not in known:
        told = ", ".join(f"{one:g}" for one in known)
        scale.refuse("reference", f"reference {asked:g} is not a level", hint=f"There are {told}.")
    return asked


def _criterion(raw: _Criterion, table: PlanTable) -> LevelCriterion:
    if raw.response_time not in RESPONSES:
        words = ", ".join(RESPONSES)
        table.refuse("response_time", f'response_time "{raw.response_time}" is not one of {words}')
    within = table.seconds("within")
    given = (("success", raw.success), ("response", raw.response), ("path_length", raw.path_length))
    success, response, path = (table.percent(key, text, 0.01, 90, "a tolerance") / 100 for key, text in given)
    return LevelCriterion(
        success=success,
        response=response,
        path=path,
        metric=Metric(raw.response_time),
        within_ms=None if within is None else 1000 * within,
    )


def _curve(file: PlanTable) -> tuple[tuple[int, ...], PlannedLevel]:
    table = file.get("clients") if file.values.get("clients") else None
    if table is None:
        return (), PlannedLevel(percent=100.0)
    raw = table.read(_Curve)
    if len(set(raw.connections)) != len(raw.connections) or not raw.connections:
        table.refuse("connections", "connections is empty, or names one twice", hint="Write [1, 2, 4, 8].")
    for one in raw.connections:
        table.within("connections", one, 1, MOST_CLIENTS)
    return tuple(sorted(raw.connections)), _hardware(100.0, raw.cpus, raw.memory, table)


def _check_load(plan: ScalePlan, asked: _Load, load: PlanTable) -> None:
    """Ask the workload itself whether it takes what the plan gives it; reads its scripts or trace, asks no server."""
    from pgdyno.workloads.registry import make_workload

    with load.at("measure"):
        check_length(plan.warmup_s, plan.measure_s)
    if plan.is_captured and asked.rate:
        load.refuse("rate", "a captured load has no rate", hint="The trace says what is sent when; see speed.")
    if not plan.is_captured:
        with load.at("rate"):
            check_rate(asked.rate)
        if asked.speed != 1.0:
            load.refuse("speed", "speed is for a captured load", hint="Give rate instead.")
    with load.at("speed"):
        check_speed(asked.speed, f"speed {asked.speed:g}")
    if "speed" in plan.parameters:
        load.refuse("parameters", "speed is a key of [load], which each level multiplies")
    if plan.protocol not in PROTOCOLS:
        load.refuse("protocol", f'protocol "{plan.protocol}" is not one of {", ".join(PROTOCOLS)}')
    with load.at("workload"):
        for level in plan.levels:
            make_workload(plan.workload, plan.parameters_of(level))
