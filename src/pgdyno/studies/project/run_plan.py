"""What a project's file says of its run: platforms, their data, the load to capture, and what each scenario runs.

TOML, read strictly, each slip with its line; docs/reference/project.md describes it. Pure, but for the files that it
names, which are read and checked before anything runs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pgdyno.errors import PgdynoError, UsageError, hinted
from pgdyno.model.trial import check_rate
from pgdyno.outside.words import one_line
from pgdyno.server.databases import OBSERVER
from pgdyno.studies.batch.file import check_files, parse_chain
from pgdyno.studies.batch.job_process import program_of, read_own
from pgdyno.studies.migrate.file import parse_plan as parse_migration
from pgdyno.studies.plan_reader import PlanTable
from pgdyno.studies.scale.file import parse_plan as parse_levels

HINT = "docs/reference/project.md has every key; examples/certification has a plan."
MOST_RUNS, MOST_CLIENTS, MOST_PLANNED_S = 20, 1000, 366 * 86_400
MOVERS = ("dump", "pgcopydb")
"""What moves a database between sandboxes."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,15}")
_DATABASE = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_OF_EVERY_SERVER = ("postgres", "template0", "template1", OBSERVER)


class RunKind(StrEnum):
    """What a scenario runs; each is a verb of pgdyno with its own kind of study."""

    MIGRATE = "migrate"
    REPLAY = "replay"
    BATCH = "batch"
    SCALE = "scale"


@dataclass(frozen=True, slots=True)
class RunPlatform:
    """A sandbox of the run. `programs` is the folder of its build, empty for the embedded one."""

    name: str
    programs: str = ""


@dataclass(frozen=True, slots=True)
class RunData:
    """A script for psql that makes the data of `database` on each of these platforms."""

    sql: str
    platforms: tuple[str, ...]
    database: str


@dataclass(frozen=True, slots=True)
class CapturedLoad:
    """A load by pgbench's script that is captured while it works on a platform; its trace is what replays send."""

    on: str
    script: str
    seconds: float
    clients: int
    rate: float


@dataclass(frozen=True, slots=True)
class ScenarioRun:
    """What one scenario runs. `old` is what it is held against: the source of a migration, the reference of others.

    `runs` counts replays of each side, or executions of a chain; `planned_s` is how long all of it may take.
    """

    scenario: str
    kind: RunKind
    new: str
    old: str = ""
    plan: str = ""
    runs: int = 0
    planned_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The whole of it. `files` are those that it names and its own, each with the digest of what was read.

    Of its own only what is run counts: edits of criteria are amendments, which `fix.py` keeps.
    """

    folder: Path
    platforms: tuple[RunPlatform, ...]
    data: RunData
    capture: CapturedLoad | None
    scenarios: tuple[ScenarioRun, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    """On which line each platform stands."""

    def path(self, name: str) -> Path:
        """Return the whole path of a file that the plan names."""
        return self.folder / name


@dataclass(frozen=True, slots=True)
class _Capture:
    on: str
    script: str
    time: str
    clients: int = 1
    rate: float = 0.0


@dataclass(frozen=True, slots=True)
class _Run:
    kind: str
    new: str
    planned: str
    old: str = ""
    plan: str = ""
    runs: int | None = None


@hinted(HINT)
def parse_run(text: str, *, source: str, folder: Path) -> RunPlan:
    """Read what is run. Raises UsageError with line, name and value on any slip, of the files that it names as well."""
    return _RunReader(PlanTable.of_text(text, source), source, folder).plan()


class _RunReader:
    """Reads one file."""

    def __init__(self, file: PlanTable, source: str, folder: Path) -> None:
        self._file, self._source, self._folder = file, source, folder
        self._files: dict[str, str] = {}
        self._platforms: dict[str, RunPlatform] = {}

    def plan(self) -> RunPlan:
        lines = self._read_platforms()
        data = self._data()
        runs = self._scenarios(data)
        capture = self._capture(data, runs)
        self._check_order(data, runs)
        whole = tuple(self._platforms.values()), data, capture, tuple(run for run, _ in runs)
        self._files[self._source] = hashlib.sha256(repr(whole).encode()).hexdigest()
        return RunPlan(self._folder, *whole, self._files, lines)

    def _read_platforms(self) -> dict[str, int]:
        lines = dict[str, int]()
        for table in self._file.tables("platform"):
            one = table.read(RunPlatform)
            if not _NAME.fullmatch(one.name):
                told = f'"{one.name[:80]}" is not a name of a platform'
                table.refuse("name", told, hint="Up to 16 lower-case letters and digits.")
            if one.name in self._platforms:
                table.refuse("name", f'platform "{one.name}" appears twice', hint="Leave one of them out.")
            if one.programs and not one.programs.startswith("/"):
                told = f'programs "{one.programs}" is not a whole path'
                table.refuse("programs", told, hint="Write /usr/lib/postgresql/13/bin.")
            self._platforms[one.name], lines[one.name] = one, table.line("programs")
        if not self._platforms:
            self._file.refuse("", "there is no platform to run on", hint="Write each as [[platform]], with a name.")
        return lines

    def _data(self) -> RunData:
        table = self._file.get("data")
        if table is None:
            self._file.refuse("", '"data" is missing', hint="Write [data] with database, sql and platforms.")
        data = table.read(RunData)
        if not _DATABASE.fullmatch(data.database):
            told = f'"{data.database[:80]}" is not a name of a database here'
            table.refuse("database", told, hint="Up to 40 lower-case letters, digits and underscores.")
        if data.database in _OF_EVERY_SERVER:
            told = f'"{data.database}" is a database that every server has'
            table.refuse("database", told, hint="The data are put into one anew.")
        for name in data.platforms:
            self._platform(table, "platforms", name)
        self._read(table, "sql", data.sql)
        return data

    def _capture(self, data: RunData, runs: list[tuple[ScenarioRun, PlanTable]]) -> CapturedLoad | None:
        table = self._file.get("capture")
        replays = [(run, where) for run, where in runs if run.kind is RunKind.REPLAY]
        if table is None:
            if replays:
                where = replays[0][1]
                where.refuse("", "there is no load to replay", hint="Write [capture] with on, script and time.")
            return None
        raw = table.read(_Capture)
        self._platform(table, "on", raw.on)
        seconds = table.seconds("time") or 0.0
        if not 1 <= seconds <= 86_400:
            table.refuse("time", f'time "{raw.time}" is not from 1s to 1d')
        with table.at("rate"):
            if raw.rate != 0:  # a closed loop
                check_rate(raw.rate)
        if raw.on not in data.platforms:
            table.refuse("on", f'platform "{raw.on}" has no data', hint="Name it in platforms of [data].")
        if sent := next((run for run, _ in replays if raw.on in (run.old, run.new)), None):
            table.refuse(
                "on",
                f'scenario "{sent.scenario}" replays to "{raw.on}", the source of the load',
                hint="A load is never sent to its source: name another platform with the same build and data.",
            )
        self._read(table, "script", raw.script)
        return CapturedLoad(
            raw.on, raw.script, seconds, table.within("clients", raw.clients, 1, MOST_CLIENTS), raw.rate
        )

    def _scenarios(self, data: RunData) -> list[tuple[ScenarioRun, PlanTable]]:
        found = list[tuple[ScenarioRun, PlanTable]]()
        for number, scenario in enumerate(self._file.tables("scenario"), 1):
            table, name = scenario.get("run"), str(scenario.values.get("name", number))
            if table is None:
                continue
            if one_line(name) != name:
                told = f"name {name!r} is not one line of text"
                scenario.refuse("name", told, hint="Steps are told by it, one a line.")
            raw = table.read(_Run)
            table.one_of("kind", raw.kind, [*RunKind], "kind")
            kind = RunKind(raw.kind)
            self._sides(table, kind, raw)
            with table.at("plan"):
                self._check_plan(kind, raw.plan, data)
            found.append((_run(table, name, kind, raw), table))
        if not found:
            self._file.refuse("", "no scenario has a run", hint="Write [scenario.run] below a scenario.")
        return found

    def _sides(self, table: PlanTable, kind: RunKind, raw: _Run) -> None:
        self._platform(table, "new", raw.new)
        if kind is RunKind.SCALE:
            if raw.old:
                table.refuse("old", "levels are held against each other, on one platform", hint="Leave old out.")
            return
        if not raw.old:
            table.refuse("old", '"old" is missing', hint="Name the platform that the new one is held against.")
        if raw.old == raw.new:
            table.refuse("old", f'old and new are the same platform, "{raw.new}"', hint="Name two platforms.")
        self._platform(table, "old", raw.old)

    def _platform(self, table: PlanTable, key: str, name: str) -> None:
        table.one_of(key, name, self._platforms, "platform")

    def _read(self, table: PlanTable, key: str, name: str) -> None:
        with table.at(key):
            self._text(name)

    def _text(self, name: str) -> str:
        """Return the text of a file beside the plan, and keep its digest."""
        path = Path(name)
        is_below = (self._folder / path).resolve().is_relative_to(self._folder.resolve())
        if path.is_absolute() or ".." in path.parts or not name or not is_below:
            raise UsageError(
                f'file "{name}" is not named from the folder of the plan', hint="Put it there, or below it."
            )
        text = read_own(
            self._folder / path, hint="Put it into the folder of the plan, or name it as it is called there."
        )
        self._files[name] = hashlib.sha256(text.encode()).hexdigest()
        return text

    def _check_plan(self, kind: RunKind, name: str, data: RunData) -> None:
        """Read the file of a scenario as its verb will: what is wrong with it is told before anything runs."""
        if kind is RunKind.REPLAY:
            if name:
                raise UsageError("a replay has no plan of its own: it sends the load of [capture]")
            return
        if not name:
            raise UsageError('"plan" is missing', hint=f"Name the file that pgdyno {kind} takes.")
        text = self._text(name)
        if kind is RunKind.MIGRATE:
            plan = parse_migration(text, source=name)
            if data.database not in (plan.database, plan.target_database) or plan.database != plan.target_database:
                raise UsageError(f'{name} moves database "{plan.database}", and the data are "{data.database}"')
            if plan.mover not in MOVERS:
                raise UsageError(
                    f'{name} moves by "{plan.mover}", and the platforms of a run are sandboxes',
                    detail="They have no wal_level = logical, and what pg_upgrade makes is none of them.",
                    hint='Write mover = "dump", or rehearse it between servers of yours: pgdyno migrate rehearse.',
                )
        elif kind is RunKind.BATCH:
            chain = parse_chain(text, source=name, folder=self._folder)
            check_files(chain, name, program_of)
            if chain.database != data.database:
                raise UsageError(
                    f'{name} has database "{chain.database}", and the data are "{data.database}"',
                    hint=f'Write database = "{data.database}" in [chain].',
                )
        else:
            try:
                parse_levels(text, source=name, folder=self._folder)
            except PgdynoError as error:
                raise UsageError(error.message, detail=error.detail, hint=error.hint) from error

    def _check_order(self, data: RunData, runs: list[tuple[ScenarioRun, PlanTable]]) -> None:
        """Refuse a scenario that works on data which nobody has brought there before it."""
        filled = set(data.platforms)
        for run, table in runs:
            needs = [run.old] if run.kind is RunKind.MIGRATE else [run.old, run.new]
            empty = [name for name in needs if name and name not in filled and run.kind is not RunKind.SCALE]
            if empty:
                table.refuse(
                    "",
                    f'platform "{empty[0]}" has no data yet',
                    hint="Name it in platforms of [data], or put the migration that fills it before.",
                )
            if run.kind is RunKind.MIGRATE and run.new in data.platforms:
                told = f'platform "{run.new}" has data already, which a migration never replaces'
                table.refuse("", told, hint="Take it out of platforms of [data].")
            if run.kind is RunKind.MIGRATE:
                filled.add(run.new)


def _run(table: PlanTable, name: str, kind: RunKind, raw: _Run) -> ScenarioRun:
    runs = 0
    if kind is RunKind.REPLAY:
        runs = table.within("runs", 2 if raw.runs is None else raw.runs, 2, MOST_RUNS)
    elif kind is RunKind.BATCH:
        runs = table.within("runs", 3 if raw.runs is None else raw.runs, 1, MOST_RUNS)
    elif raw.runs is not None:
        table.refuse("runs", f"{kind} has no runs", hint="They are for replay and batch.")
    planned = table.seconds("planned") or 0.0
    if planned > MOST_PLANNED_S:
        table.refuse("planned", f'planned "{raw.planned}" is more than a year', hint="Name the time of one run.")
    return ScenarioRun(name, kind, raw.new, raw.old, raw.plan, runs, planned)
