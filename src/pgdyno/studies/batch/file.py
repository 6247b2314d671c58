"""The file of a batch chain: TOML, read strictly, each slip with its line. docs/reference/batch.md describes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, UsageError, hinted
from pgdyno.model.tables import near_hint
from pgdyno.stats.precedence import ring_of
from pgdyno.studies.batch.chain import Chain, ChainJob, ChainProcess, Expects, JobCheck, JobWork
from pgdyno.studies.plan_reader import PlanTable

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
    table: PlanTable


@hinted(HINT)
def parse_chain(text: str, *, source: str = "chain", folder: Path = Path()) -> Chain:
    """Read a chain. Files are named from `folder`. Raises UsageError with line, name and value on any slip."""
    file = PlanTable.of_text(text, source)
    keys = ("version", "chain", "process")
    file.head(keys, keys, VERSION)
    table = file.needed("chain")
    head = table.read(_Head)
    found, thresholds, seen = list[_Found](), dict[str, float](), set[str]()
    for process in file.tables("process"):
        raw = process.read(_Process, ("job",))
        _only_once(process, seen, _named(process, raw.name))
        thresholds[raw.name] = process.seconds("threshold") or 0.0
        first = _moment(process, raw.start)
        jobs = process.tables("job")
        if not jobs:
            process.refuse("", "it has no job", hint="Write each as [[process.job]].")
        for job in jobs:
            one = _job(job, raw.name, folder, first)
            _only_once(job, seen, one.job.key)
            found.append(one)
    settled = _settled(found)
    return Chain(
        name=_named(table, head.name),
        processes=tuple(
            ChainProcess(name, tuple(job for job in settled if job.process == name), threshold)
            for name, threshold in thresholds.items()
        ),
        database=head.database,
        parallel=table.within("parallel", head.parallel, 1, MOST_PARALLEL),
        executions=table.within("executions", head.executions, 1, MOST_EXECUTIONS),
        restore=head.restore,
        restore_time_out_s=table.seconds("restore_time_out"),
    )


def _named(table: PlanTable, name: str) -> str:
    """Return a name that can be part of a key."""
    with table.at("name"):
        check_name(name)
    return name


def _moment(table: PlanTable, text: str) -> datetime | None:
    """Return a start of the calendar, None where none was given."""
    if not text:
        return None
    try:
        return datetime.strptime(text, START_FORM)  # wall time of the chain's own calendar
    except ValueError:
        table.refuse("start", f'start "{text}" is not a date and a time', hint='Write "2026-10-30 22:00".')


def _job(table: PlanTable, process: str, folder: Path, first: datetime | None) -> _Found:
    """Return a job; whom it waits for is not looked up yet."""
    raw = table.read(_Job, ("check",))
    work, words = _work(table, raw, folder)
    checks = tuple(map(_check, table.tables("check")))
    if not raw.success:
        table.refuse("success", "success is empty, so that no exit code would be one", hint="Leave it out for 0 alone.")
    if raw.skip and checks:
        table.refuse("skip", "a job that is skipped has no checks", hint="Leave one of them out.")
    job = ChainJob(
        process=process,
        name=_named(table, raw.name),
        work=work,
        words=words,
        after=raw.after,
        time_out_s=table.seconds("time_out"),
        retries=table.within("retries", raw.retries, 0, MOST_RETRIES),
        retry_wait_s=table.seconds("retry_wait") or 0.0,
        success=raw.success,
        checks=checks,
        skip=raw.skip,
        line=table.line(),
    )
    return _Found(job, _moment(table, raw.start) or first, table)


def _work(table: PlanTable, raw: _Job, folder: Path) -> tuple[JobWork, tuple[str, ...]]:
    given: dict[JobWork, tuple[str, ...]] = {
        JobWork.SQL: (raw.sql,) if raw.sql.strip() else (),
        JobWork.SQL_FILE: (str(folder / raw.sql_file),) if raw.sql_file else (),
        JobWork.SCRIPT: (str(folder / raw.script),) if raw.script else (),
        JobWork.ARGV: raw.argv,
    }
    named = [work for work, words in given.items() if words]
    if raw.skip and not named:
        return JobWork.ARGV, ()
    hint = "Give one of sql, sql_file, script or argv."
    if not named:
        table.refuse("", "it does not say what to run", hint=hint)
    if len(named) > 1:
        table.refuse(named[-1].value, f"it has {' and '.join(work.value for work in named)}", hint=hint)
    if not given[named[0]][0]:
        table.refuse("argv", "argv begins with an empty word", hint="Its first word is the program.")
    return named[0], given[named[0]]


def _check(table: PlanTable) -> JobCheck:
    raw = table.read(_Check)
    if raw.table and raw.table.count(".") != 1:
        table.refuse("", f'table "{raw.table}" has no schema', hint="Write it as schema.table.")
    if raw.true and not (raw.table or raw.checksum or raw.rows is not None):
        return JobCheck(Expects.TRUE, raw.true)
    if raw.table and not raw.true and (raw.rows is not None) != bool(raw.checksum):
        if raw.checksum:
            return JobCheck(Expects.CHECKSUM, raw.table, raw.checksum)
        return JobCheck(Expects.ROWS, raw.table, str(raw.rows))
    return table.refuse("", "it must check exactly one thing", hint="Give true, or table with either rows or checksum.")


def _only_once(table: PlanTable, names: set[str], name: str) -> None:
    if name in names:
        table.refuse("name", f'"{name}" appears twice', hint="Give each a name of its own.")
    if len(names) >= MOST_JOBS:
        table.refuse("", f"there are more than {MOST_JOBS:,} processes and jobs")
    names.add(name)


def _settled(found: list[_Found]) -> list[ChainJob]:
    """Return the jobs with the keys of those that they wait for, and with their starts counted from the first."""
    known = {one.job.key: one for one in found}
    first = min((one.start for one in found if one.start), default=None)
    jobs = list[ChainJob]()
    for one in found:
        with one.table.at("after"):
            after = tuple(dict.fromkeys(_key(name, one.job.process, known) for name in one.job.after))
        later = (one.start - first).total_seconds() if one.start and first else 0.0
        jobs.append(replace(one.job, after=after, starts_s=later))
    ring = ring_of({job.key: job.after for job in jobs})
    if ring:
        told = f"jobs wait for each other: {' -> '.join(ring)}"
        known[ring[0]].table.refuse("after", told, hint="Take one of them out of after.")
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
