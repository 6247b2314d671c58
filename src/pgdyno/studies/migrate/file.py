"""The file of a migration: TOML, read strictly, each slip with its line. docs/reference/migrate.md describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.errors import UsageError, hinted
from pgdyno.migration.mover import Mover
from pgdyno.migration.movers.registry import mover_of
from pgdyno.migration.plan import MigrationPlan, PlannedPhase, PlannedReplay, all_steps, waits_of
from pgdyno.model.results.migrate import MigrationPhase
from pgdyno.model.tables import near_hint
from pgdyno.server.postgres import refuse_secrets
from pgdyno.stats.precedence import ring_of
from pgdyno.studies.plan_reader import PlanTable
from pgdyno.units import parse_quantity

VERSION = 1
MOST_JOBS = 64
HINT = "docs/reference/migrate.md has every key; examples/migrate has a plan."
_KEYS = ("version", "migration", "mover", "load", "phase", "replay")


@dataclass(frozen=True, slots=True)
class _Head:
    name: str
    source: str
    folder: str
    target: str = ""
    database: str = ""
    target_database: str = ""
    mover: str = "dump"
    jobs: int = 1
    window: str = ""
    full_size: str = ""
    load_restart: bool = False
    programs: str = ""


@dataclass(frozen=True, slots=True)
class _Replay:
    trace: str
    speed: float = 1.0
    error_limit: str = "1 %"
    unlike_limit: str = "1 %"


@dataclass(frozen=True, slots=True)
class _Phase:
    name: str
    planned: str = ""
    after: tuple[str, ...] = ()


@hinted(HINT)
def parse_plan(text: str, *, source: str = "plan") -> MigrationPlan:
    """Read a plan. Raises UsageError with line, name and value on any slip; asks no server."""
    file = PlanTable.of_text(text, source)
    file.head(_KEYS, ("version", "migration"), VERSION)
    table = file.needed("migration")
    head = table.read(_Head)
    with table.at("source"):
        source_words = refuse_secrets(head.source, "source")
    with table.at("target"):
        if head.target and refuse_secrets(head.target, "target") == source_words:
            raise UsageError("target and source are the same", hint="Name another server as the target.")
    database = head.database or source_words.get("dbname", "")
    if not database:
        table.refuse("source", "it names no database", hint='Write database = "shop", or dbname=shop in source.')
    for key in ("folder", "programs"):
        value = getattr(head, key)
        if value and not value.startswith("/"):
            table.refuse(key, f'{key} "{value}" is not a whole path')
    options, load = _texts(file, "mover"), _texts(file, "load")
    mover = _mover(table, head.mover, options, file)
    if not mover.fills_target:
        _refuse_unused(file, table, mover)
    with table.at("full_size"):
        full_bytes = int(parse_quantity(head.full_size, "B")) if head.full_size else None
    window = table.seconds("window")
    if window == 0:
        table.refuse("window", f'window "{head.window}" has no length', hint="Leave it out where none is to be kept.")
    plan = MigrationPlan(
        name=head.name,
        source=head.source,
        target=head.target,
        database=database,
        target_database=head.target_database or database,
        folder=head.folder,
        mover=head.mover,
        options=options,
        jobs=table.within("jobs", head.jobs, 1, MOST_JOBS),
        window_s=window,
        full_bytes=full_bytes,
        load=load,
        load_restart=head.load_restart,
        programs=head.programs,
        phases=_phases(file),
        replay=_replay(file, mover),
        lines={key: table.line(key) for key in _Head.__dataclass_fields__}
        | {"trace": (file.get("replay") or file).line("trace")}
        | {f"load.{name}": (file.get("load") or file).line(name) for name in load},
    )
    _check_order(file, plan, mover)
    return plan


def _texts(file: PlanTable, key: str) -> dict[str, str]:
    table = file.get(key)
    if table is None:
        return {}
    for name, value in table.values.items():
        if isinstance(value, dict):
            part = next(iter(value), "dirty_bytes")
            table.refuse(name, f"{name} is a table", hint=f'Put a name with a dot into quotes: "{name}.{part}".')
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            table.refuse(name, f"{name} is neither a text nor a number", hint=f'Write {name} = "on".')
    return {name: str(value) for name, value in table.values.items()}


def _mover(table: PlanTable, word: str, options: Mapping[str, str], file: PlanTable) -> Mover:
    with table.at("mover"):
        mover = mover_of(word)
    for name, value in options.items():
        with file.needed("mover").at(name):
            mover.check({name: value})
    mover.check(options)
    return mover


def _refuse_unused(file: PlanTable, table: PlanTable, mover: Mover) -> None:
    """Refuse what a plan says of a target that is not changed."""
    for where, key in ((file, "load"), (table, "target_database")):
        if key in where.values:
            where.refuse(
                key,
                f'{key}: mover "{mover.name}" does not change the target, so that this has no effect',
                hint="Leave it out: a new server is made, with the databases of the source.",
            )


def _replay(file: PlanTable, mover: Mover) -> PlannedReplay | None:
    table = file.get("replay")
    if table is None:
        return None
    if not mover.fills_target:
        table.refuse(
            "",
            f'mover "{mover.name}" makes a server of its own and leaves the target as it is',
            hint="Leave it out; with afterwards = keep the upgraded cluster can be started and replayed to.",
        )
    raw = table.read(_Replay)
    if not raw.trace.startswith("/"):
        table.refuse("trace", f'trace "{raw.trace}" is not a whole path')
    if not 0.001 <= raw.speed <= 1000:
        table.refuse("speed", f"speed {raw.speed:g} is not from 0.001 to 1000")
    limits = [table.percent(key, getattr(raw, key), 0, 100) for key in ("error_limit", "unlike_limit")]
    return PlannedReplay(raw.trace, raw.speed, *limits)


def _phases(file: PlanTable) -> dict[MigrationPhase, PlannedPhase]:
    found = dict[MigrationPhase, PlannedPhase]()
    for table in file.tables("phase"):
        raw = table.read(_Phase)
        for key, words in (("name", (raw.name,)), ("after", raw.after)):
            for word in words:
                table.one_of(key, word, [one.value for one in MigrationPhase], "phase")
        phase = MigrationPhase(raw.name)
        if phase in found:
            table.refuse("name", "it appears twice", hint="Leave one of them out.")
        found[phase] = PlannedPhase(table.seconds("planned"), tuple(map(MigrationPhase, raw.after)))
    return found


def _check_order(file: PlanTable, plan: MigrationPlan, mover: Mover) -> None:
    """Refuse phases that this mover has not, and phases that wait for each other."""
    steps = all_steps(plan, mover.steps(plan.options))
    known = [one.phase for one in steps]
    tables = dict(zip(plan.phases, file.tables("phase"), strict=True))
    for phase, planned in plan.phases.items():
        for name in (phase, *planned.after):
            if name not in known:
                tables[phase].refuse("", f'mover "{plan.mover}" has no phase "{name}"', hint=near_hint(name, known))
    ring = ring_of(waits_of(steps))
    if ring:
        first = next(table for name, table in tables.items() if name.value in ring and plan.phases[name].after)
        first.refuse("", f"phases wait for each other: {' -> '.join(ring)}", hint="Take one of them out of after.")
