"""The file of a migration: TOML, read strictly, each slip with its line. docs/reference/migrate.md describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.errors import UsageError, hinted
from pgdyno.migration.mover import Mover
from pgdyno.migration.movers.registry import mover_of
from pgdyno.migration.plan import MigrationPlan, PlannedPhase, PlannedReplay, all_steps, waits_of
from pgdyno.model.results.migrate import MigrationPhase
from pgdyno.model.tables import near_hint, tables_of, toml_of
from pgdyno.outside.toml_lines import TableLines, TomlLines
from pgdyno.server.postgres import refuse_secrets
from pgdyno.stats.precedence import ring_of
from pgdyno.studies.plan_reader import PlanReader
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
    document = toml_of(text, source)
    lines = TomlLines(text)
    reader = PlanReader(source)
    reader.head(document, lines, _KEYS, ("version", "migration"), VERSION)
    at = lines.of("migration", 0)
    table = document["migration"]
    with reader.at(at.line, ""):
        if not isinstance(table, Mapping):
            raise UsageError("migration is not a table", hint="Write [migration] on a line of its own.")
    head = reader.fields(_Head, dict(table), at, "migration")
    source_words = _conninfo(reader, head.source, "source", at)
    database = source_words.get("dbname", "")
    if head.target:
        other = _conninfo(reader, head.target, "target", at)
        with reader.at(at.of("target"), "migration"):
            if other == source_words:
                raise UsageError("target and source are the same", hint="Name another server as the target.")
    with reader.at(at.of("database" if head.database else "source"), "migration"):
        if not (head.database or database):
            raise UsageError("it names no database", hint='Write database = "shop", or dbname=shop in source.')
    for key in ("folder", "programs"):
        value = getattr(head, key)
        with reader.at(at.of(key), "migration"):
            if value and not value.startswith("/"):
                raise UsageError(f'{key} "{value}" is not a whole path')
    options = _texts(reader, document, "mover", lines)
    mover = _mover(reader, head.mover, options, at, lines)
    if not mover.fills_target:
        _refuse_unused(reader, document, mover, lines)
    plan = MigrationPlan(
        name=head.name,
        source=head.source,
        target=head.target,
        database=head.database or str(database),
        target_database=head.target_database or head.database or str(database),
        folder=head.folder,
        mover=head.mover,
        options=options,
        jobs=reader.within(head.jobs, "jobs", 1, MOST_JOBS, at, "migration"),
        window_s=reader.seconds(head.window, "window", at, "migration"),
        full_bytes=_size(reader, head.full_size, at),
        load=_texts(reader, document, "load", lines),
        load_restart=head.load_restart,
        programs=head.programs,
        phases=_phases(reader, document, source, lines),
        replay=_replay(reader, document, mover, lines),
        lines={key: at.of(key) for key in _Head.__dataclass_fields__} | {"trace": lines.of("replay", 0).of("trace")},
    )
    _check_order(reader, plan, mover)
    return plan


def _conninfo(reader: PlanReader, text: str, key: str, lines: TableLines) -> Mapping[str, str]:
    with reader.at(lines.of(key), "migration"):
        return refuse_secrets(text, key)


def _size(reader: PlanReader, text: str, lines: TableLines) -> int | None:
    with reader.at(lines.of("full_size"), "migration"):
        return int(parse_quantity(text, "B")) if text else None


def _texts(reader: PlanReader, document: Mapping[str, object], key: str, lines: TomlLines) -> dict[str, str]:
    table = document.get(key, {})
    found = dict[str, str]()
    with reader.at(lines.of(key, 0).line if table else 1, key):
        if not isinstance(table, Mapping):
            raise UsageError("it is not a table")
    for name, value in table.items():
        with reader.at(lines.of(key, 0).of(str(name)), key):
            if not isinstance(value, str | int | float) or isinstance(value, bool):
                raise UsageError(f"{name} is neither a text nor a number", hint=f'Write {name} = "on".')
        found[str(name)] = str(value)
    return found


def _mover(reader: PlanReader, word: str, options: Mapping[str, str], at: TableLines, lines: TomlLines) -> Mover:
    with reader.at(at.of("mover"), "migration"):
        mover = mover_of(word)
    for name, value in options.items():
        with reader.at(lines.of("mover", 0).of(name), "mover"):
            mover.check({name: value})
    mover.check(options)
    return mover


def _refuse_unused(reader: PlanReader, document: Mapping[str, object], mover: Mover, lines: TomlLines) -> None:
    """Refuse what a plan says of a target that is not changed."""
    table = document["migration"]
    unused = {"load": lines.of("load", 0).line} if "load" in document else {}
    if isinstance(table, Mapping) and "target_database" in table:
        unused["target_database"] = lines.of("migration", 0).of("target_database")
    for key, line in unused.items():
        with reader.at(line, key):
            raise UsageError(
                f'mover "{mover.name}" does not change the target, so that this has no effect',
                hint="Leave it out: a new server is made, with the databases of the source.",
            )


def _replay(reader: PlanReader, document: Mapping[str, object], mover: Mover, lines: TomlLines) -> PlannedReplay | None:
    if "replay" not in document:
        return None
    own, table = lines.of("replay", 0), document["replay"]
    with reader.at(own.line, "replay"):
        if not isinstance(table, Mapping):
            raise UsageError("it is not a table", hint="Write [replay] on a line of its own.")
        if not mover.fills_target:
            raise UsageError(
                f'mover "{mover.name}" makes a server of its own and leaves the target as it is',
                hint="Leave it out; with afterwards = keep the upgraded cluster can be started and replayed to.",
            )
    raw = reader.fields(_Replay, dict(table), own, "replay")
    with reader.at(own.of("trace"), "replay"):
        if not raw.trace.startswith("/"):
            raise UsageError(f'trace "{raw.trace}" is not a whole path')
    with reader.at(own.of("speed"), "replay"):
        if not 0.001 <= raw.speed <= 1000:
            raise UsageError(f"speed {raw.speed:g} is not from 0.001 to 1000")
    limits = [reader.percent(getattr(raw, key), key, 0, 100, own, "replay") for key in ("error_limit", "unlike_limit")]
    return PlannedReplay(raw.trace, raw.speed, *limits)


def _phases(
    reader: PlanReader, document: Mapping[str, object], source: str, lines: TomlLines
) -> dict[MigrationPhase, PlannedPhase]:
    found = dict[MigrationPhase, PlannedPhase]()
    for number, (table, _) in enumerate(tables_of(document, "phase", source)):
        own = lines.of("phase", number)
        raw = reader.fields(_Phase, table, own, f"phase {number + 1}")
        phase = _phase(reader, raw.name, own.of("name"), f"phase {number + 1}")
        place = f'phase "{phase}"'
        with reader.at(own.of("name"), place):
            if phase in found:
                raise UsageError("it is there twice", hint="Leave one of them out.")
        after = tuple(_phase(reader, name, own.of("after"), place) for name in raw.after)
        found[phase] = PlannedPhase(reader.seconds(raw.planned, "planned", own, place), after, own.line)
    return found


def _phase(reader: PlanReader, word: str, line: int, place: str) -> MigrationPhase:
    with reader.at(line, place):
        if word not in {*MigrationPhase}:
            raise UsageError(f'there is no phase "{word}"', hint=near_hint(word, [one.value for one in MigrationPhase]))
    return MigrationPhase(word)


def _check_order(reader: PlanReader, plan: MigrationPlan, mover: Mover) -> None:
    """Refuse phases that this mover has not, and phases that wait for each other."""
    steps = all_steps(plan, mover.steps(plan.options))
    known = [one.phase for one in steps]
    for phase, planned in plan.phases.items():
        with reader.at(planned.line, f'phase "{phase}"'):
            for name in (phase, *planned.after):
                if name not in known:
                    raise UsageError(f'mover "{plan.mover}" has no phase "{name}"', hint=near_hint(name, known))
    ring = ring_of(waits_of(steps))
    if ring:
        line = next(one.line for name, one in plan.phases.items() if name.value in ring and one.after)
        with reader.at(line, ""):
            raise UsageError(f"phases wait for each other: {' -> '.join(ring)}", hint="Take one of them out of after.")
