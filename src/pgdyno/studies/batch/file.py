"""The file of a batch chain: TOML, read strictly, each slip with its line. docs/reference/batch.md describes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, UsageError, hinted
from pgdyno.model.tables import Table, near_hint, table_of, tables_of, toml_of
from pgdyno.outside.toml_lines import TableLines, TomlLines
from pgdyno.stats.precedence import ring_of
from pgdyno.studies.batch.chain import Chain, ChainJob, ChainProcess, Expects, JobCheck, JobWork
from pgdyno.studies.plan_reader import PlanReader

VERSION = 1
MOST_JOBS = 5_000
MOST_PARALLEL = 256
MOST_EXECUTIONS = 100
MOST_RETRIES = 100
LONGEST_NAME = 80
START_FORM = "%Y-%m-%d %H:%M"
NAME = re.compile(r"[^/\s\x00-\x1f][^/\x00-\x1f]*")
HINT = "docs/reference/batch.md has every key; examples/batch has a chain."


@dataclass(frozen=True, slots=True)
class _Head:
    name: str
    database: str = ""
    parallel: int = 1
    executions: int = 3
    restore: tuple[str, ...] = ()
    restore_time_out: str = ""


@dataclass(frozen=True, slots=True)
class _Process:
    name: str
    threshold: str = ""
    start: str = ""


@dataclass(frozen=True, slots=True)
class _Job:
    name: str
    sql: str = ""
    sql_file: str = ""
    script: str = ""
    argv: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    start: str = ""
    time_out: str = ""
    retries: int = 0
    retry_wait: str = ""
    success: tuple[int, ...] = (0,)
    skip: str = ""


@dataclass(frozen=True, slots=True)
class _Check:
    table: str = ""
    rows: int | None = None
    checksum: str = ""
    true: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    """A job as its table has it, with what can be settled only when all are read."""

    job: ChainJob
    start: datetime | None
    lines: TableLines
    place: str


class _Reader(PlanReader):
    """Reads the tables of a chain."""

    def __init__(self, source: str, lines: TomlLines, folder: Path) -> None:
        super().__init__(source)
        self._lines, self._folder = lines, folder

    def moment(self, text: str, lines: TableLines, place: str) -> datetime | None:
        """Return a start of the calendar, None where none was given."""
        if not text:
            return None
        with self.at(lines.of("start"), place):
            try:
                return datetime.strptime(text, START_FORM)  # wall time of the chain's own calendar
            except ValueError:
                raise UsageError(f'start "{text}" is not a date and a time', hint='Write "2026-10-30 22:00".') from None

    def name(self, text: str, lines: TableLines, place: str) -> str:
        """Return a name that can be part of a key."""
        with self.at(lines.of("name"), place):
            check_name(text)
        return text

    def job(self, table: Table, lines: TableLines, place: str, process: str, at: tuple[str | int, ...]) -> _Found:
        """Return a job; whom it waits for is not looked up yet."""
        raw = self.fields(_Job, table, lines, place, ("check",))
        work, words = self._work(raw, lines, place)
        checks = [
            self._check(one, self._lines.of(*at, "check", number), f"{place}: check {number + 1}")
            for number, (one, _) in enumerate(tables_of(table, "check", place))
        ]
        if raw.skip and checks:
            with self.at(lines.of("skip"), place):
                raise UsageError("a job that is skipped has no checks", hint="Leave one of them out.")
        job = ChainJob(
            process=process,
            name=self.name(raw.name, lines, place),
            work=work,
            words=words,
            after=raw.after,
            time_out_s=self.seconds(raw.time_out, "time_out", lines, place),
            retries=self.within(raw.retries, "retries", 0, MOST_RETRIES, lines, place),
            retry_wait_s=self.seconds(raw.retry_wait, "retry_wait", lines, place) or 0.0,
            success=raw.success,
            checks=tuple(checks),
            skip=raw.skip,
            line=lines.line,
        )
        return _Found(job, self.moment(raw.start, lines, place), lines, place)

    def _work(self, raw: _Job, lines: TableLines, place: str) -> tuple[JobWork, tuple[str, ...]]:
        given: dict[JobWork, tuple[str, ...]] = {
            JobWork.SQL: (raw.sql,) if raw.sql else (),
            JobWork.SQL_FILE: (self._path(raw.sql_file),) if raw.sql_file else (),
            JobWork.SCRIPT: (self._path(raw.script),) if raw.script else (),
            JobWork.ARGV: raw.argv,
        }
        named = [work for work, words in given.items() if words]
        if raw.skip and not named:
            return JobWork.ARGV, ()
        with self.at(lines.of(named[-1].value) if named else lines.line, place):
            if len(named) != 1:
                told = " and ".join(work.value for work in named)
                raise UsageError(
                    f"it has {told}" if named else "it does not say what to run",
                    hint="Give one of sql, sql_file, script or argv.",
                )
            if not given[named[0]][0]:
                raise UsageError("argv begins with an empty word", hint="Its first word is the program.")
        return named[0], given[named[0]]

    def _path(self, text: str) -> str:
        return str(self._folder / text)

    def _check(self, table: Table, lines: TableLines, place: str) -> JobCheck:
        raw = self.fields(_Check, table, lines, place)
        with self.at(lines.line, place):
            if raw.table and raw.table.count(".") != 1:
                raise UsageError(f'table "{raw.table}" has no schema', hint="Write it as schema.table.")
            if raw.true and not (raw.table or raw.checksum or raw.rows is not None):
                return JobCheck(Expects.TRUE, raw.true)
            if raw.table and not raw.true and (raw.rows is not None) != bool(raw.checksum):
                if raw.checksum:
                    return JobCheck(Expects.CHECKSUM, raw.table, raw.checksum)
                return JobCheck(Expects.ROWS, raw.table, str(raw.rows))
            raise UsageError(
                "it must check exactly one thing", hint="Give true, or table with either rows or checksum."
            )


@hinted(HINT)
def parse_chain(text: str, *, source: str = "chain", folder: Path = Path()) -> Chain:
    """Read a chain. Files are named from `folder`. Raises UsageError with line, name and value on any slip."""
    document = toml_of(text, source)
    lines = TomlLines(text)
    reader = _Reader(source, lines, folder)
    keys = ("version", "chain", "process")
    reader.head(document, lines, keys, keys, VERSION)
    head_lines = lines.of("chain", 0)
    head = reader.fields(_Head, table_of(document["chain"], f"{source}: chain", _Head.__dataclass_fields__),
                         head_lines, "chain")  # fmt: skip
    found, names, seen = list[_Found](), list[tuple[str, float]](), set[str]()
    for number, (table, _) in enumerate(tables_of(document, "process", source)):
        own = lines.of("process", number)
        raw = reader.fields(_Process, table, own, f"process {number + 1}", ("job",))
        place = f'process "{raw.name}"'
        reader.name(raw.name, own, place)
        _only_once(reader, seen, raw.name, own, place)
        names.append((raw.name, reader.seconds(raw.threshold, "threshold", own, place) or 0.0))
        first = reader.moment(raw.start, own, place)
        rows = tables_of(table, "job", place)
        if not rows:
            with reader.at(own.line, place):
                raise UsageError("it has no job", hint="Write each as [[process.job]].")
        for at, (row, _) in enumerate(rows):
            job_lines = lines.of("process", number, "job", at)
            said = row.get("name")
            job_place = f'{place}: job "{said}"' if isinstance(said, str) else f"{place}: job {at + 1}"
            one = reader.job(row, job_lines, job_place, raw.name, ("process", number, "job", at))
            _only_once(reader, seen, one.job.key, job_lines, job_place)
            found.append(one if one.start else _Found(one.job, first, one.lines, one.place))
    jobs = _settled(found, reader)
    return Chain(
        name=reader.name(head.name, head_lines, "chain"),
        processes=tuple(
            ChainProcess(name, tuple(job for job in jobs if job.process == name), threshold)
            for name, threshold in names
        ),
        database=head.database,
        parallel=reader.within(head.parallel, "parallel", 1, MOST_PARALLEL, head_lines, "chain"),
        executions=reader.within(head.executions, "executions", 1, MOST_EXECUTIONS, head_lines, "chain"),
        restore=head.restore,
        restore_time_out_s=reader.seconds(head.restore_time_out, "restore_time_out", head_lines, "chain"),
    )


def _only_once(reader: _Reader, names: set[str], name: str, lines: TableLines, place: str) -> None:
    if name in names:
        with reader.at(lines.of("name"), place):
            raise UsageError(f'"{name}" is there twice', hint="Give each a name of its own.")
    if len(names) >= MOST_JOBS:
        with reader.at(lines.line, place):
            raise UsageError(f"there are more than {MOST_JOBS:,} processes and jobs")
    names.add(name)


def _settled(found: list[_Found], reader: _Reader) -> list[ChainJob]:
    """Return the jobs with the keys of those that they wait for, and with their starts counted from the first."""
    known = {one.job.key: one for one in found}
    first = min((one.start for one in found if one.start), default=None)
    jobs = list[ChainJob]()
    for one in found:
        with reader.at(one.lines.of("after"), one.place):
            after = tuple(dict.fromkeys(_key(name, one.job.process, known) for name in one.job.after))
        later = (one.start - first).total_seconds() if one.start and first else 0.0
        jobs.append(replace(one.job, after=after, starts_s=later))
    ring = ring_of({job.key: job.after for job in jobs})
    if ring:
        one = known[ring[0]]
        with reader.at(one.lines.of("after"), one.place):
            raise UsageError(f"jobs wait for each other: {' -> '.join(ring)}", hint="Take one of them out of after.")
    return jobs


def _key(name: str, process: str, known: Mapping[str, object]) -> str:
    key = name if "/" in name else f"{process}/{name}"
    if key not in known:
        raise UsageError(f'after: there is no job "{name}"', hint=near_hint(key, list(known)[:50]))
    return key


def check_name(text: str) -> None:
    """Raise UsageError where a text cannot be the name of a chain, a process or a job."""
    if not NAME.fullmatch(text) or len(text) > LONGEST_NAME or not text.isprintable():
        hint = f"A name has 1 to {LONGEST_NAME} characters, no slash and no line break."
        raise UsageError(f'"{text[:LONGEST_NAME]}" is not a name', hint=hint)


def check_files(chain: Chain, source: str, find: Callable[[str], str]) -> None:
    """Raise UsageError where a file or a program that a job names is not there. `find` raises on a missing program."""
    for job in chain.jobs.values():
        if job.skip:
            continue
        where = f'{source}: line {job.line}: process "{job.process}": job "{job.name}"'
        if job.work in (JobWork.SQL_FILE, JobWork.SCRIPT) and not Path(job.words[0]).is_file():
            hint = "Name it from the folder of the chain's file."
            raise UsageError(f'{where}: {job.work} "{job.words[0]}" is not a file', hint=hint)
        if job.work in (JobWork.SCRIPT, JobWork.ARGV):
            _find(job.words[0], where, find)
    if chain.restore:
        _find(chain.restore[0], f"{source}: chain: restore", find)


def _find(word: str, where: str, find: Callable[[str], str]) -> None:
    try:
        find(word)
    except EnvironmentUnsuitable as error:
        raise UsageError(
            f"{where}: {error.message}", detail=error.detail, hint=error.hint or "Install it, or name its path."
        ) from error
