"""Executions of a chain that another scheduler recorded, as CSV. docs/reference/batch.md has the header. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import NoReturn

from pgdyno.errors import UsageError, hinted
from pgdyno.model.results.batch import BatchExecution, JobEnd, JobRun
from pgdyno.model.tables import near_hint
from pgdyno.outside.documents import load_csv
from pgdyno.studies.batch.chain import Chain, ChainJob
from pgdyno.units import plural

NEEDED = ("process", "job", "start", "end")
OPTIONAL = ("execution", "code", "status", "reason", "attempts", "cpu_s", "rows")
MOST_ROWS = 500_000
_NO_RECORD = "the file does not have it"


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a file has."""

    executions: tuple[BatchExecution, ...]
    jobs: tuple[JobRun, ...]


@dataclass(frozen=True, slots=True)
class _Row:
    where: str
    cells: Mapping[str, str]
    job: ChainJob
    execution: int
    start: float | None
    end: float | None
    has_zone: bool | None


@hinted("docs/reference/batch.md has the columns; the first line names them.")
def read_recorded(text: str, chain: Chain, *, source: str) -> Recorded:
    """Read the executions. Raises UsageError with line, name and value on any slip, an unknown job among them."""
    try:
        lines = load_csv(text.removeprefix("\ufeff"))
        header = [cell.strip().lower() for cell in next(lines, [])]
        _check_header(header, source)
        jobs = chain.jobs
        rows = list[_Row]()
        for number, cells in enumerate(lines, 2):
            if not any(cell.strip() for cell in cells):
                continue
            if len(rows) >= MOST_ROWS:
                raise UsageError(f"{source}: there are more than {MOST_ROWS:,} rows")
            rows.append(_row(f"{source}: row {number}", header, cells, jobs))
    except ValueError as error:
        raise UsageError(f"{source}: not CSV: {error}") from error
    if not rows:
        raise UsageError(f"{source}: there is no row")
    zoned = [row for row in rows if row.has_zone is not None]
    if odd := next((row for row in zoned if row.has_zone is not zoned[0].has_zone), None):
        _refuse_zones(odd.where)
    by_execution: dict[int, list[_Row]] = {}
    for row in rows:
        by_execution.setdefault(row.execution, []).append(row)
    executions, runs = list[BatchExecution](), list[JobRun]()
    for number, some in sorted(by_execution.items()):
        ran = [(row.start, row.end) for row in some if row.start is not None and row.end is not None]
        if not ran:
            raise UsageError(f"{source}: in execution {number} no job has a start and an end")
        first = min(start for start, _ in ran)
        executions.append(BatchExecution(number=number, began_at=first, window_s=max(end for _, end in ran) - first))
        runs += _runs(chain, some, number, first)
    return Recorded(tuple(executions), tuple(runs))


def _check_header(header: Sequence[str], source: str) -> None:
    for name in NEEDED:
        if name not in header:
            raise UsageError(f'{source}: row 1: column "{name}" is missing')
    for name in header:
        if name not in (*NEEDED, *OPTIONAL):
            raise UsageError(f'{source}: row 1: unknown column "{name}"', hint=near_hint(name, (*NEEDED, *OPTIONAL)))
        if header.count(name) > 1:
            raise UsageError(f'{source}: row 1: column "{name}" appears twice')


def _row(where: str, header: Sequence[str], cells: Sequence[str], jobs: Mapping[str, ChainJob]) -> _Row:
    if len(cells) != len(header):
        raise UsageError(f"{where}: {plural(len(cells), 'cell')} under {plural(len(header), 'column')}")
    found = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
    key = f"{found['process']}/{found['job']}"
    if key not in jobs:
        raise UsageError(f'{where}: the chain has no job "{key}"', hint=near_hint(key, list(jobs)[:50]))
    moments = {name: _moment(found[name], name, where) for name in ("start", "end")}
    start, end = (None if one is None else _seconds(one) for one in moments.values())
    zones = {one.tzinfo is not None for one in moments.values() if one is not None}
    if len(zones) > 1:
        _refuse_zones(where)
    if (start is None) != (end is None):
        raise UsageError(
            f"{where}: it has only one of start and end", hint="Leave both empty for a job that never ran."
        )
    if start is not None and end is not None and end < start:
        raise UsageError(f"{where}: it ends ({found['end']}) before it starts ({found['start']})")
    execution = int(_number(found.get("execution") or "1", "execution", where))
    return _Row(where, found, jobs[key], execution, start, end, next(iter(zones), None))


def _moment(text: str, name: str, where: str) -> datetime | None:
    if not text:
        return None
    with suppress(ValueError, OverflowError):
        found = datetime.fromisoformat(text)
        _seconds(found)
        if not _is_day(text):
            return found
    raise UsageError(f'{where}: {name} "{text[:40]}" is not a date and a time', hint=_TIME_HINT)


def _is_day(text: str) -> bool:
    """Tell whether it is a date alone: as the midnight of it a job would take whole days, or no time."""
    with suppress(ValueError):
        date.fromisoformat(text)
        return True
    return False


def _seconds(moment: datetime) -> float:
    """Count wall times without a zone as they stand: the difference of two is right unless clocks changed."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _refuse_zones(where: str) -> NoReturn:
    raise UsageError(f"{where}: some times have a zone and others have none", hint="Give all of a file one, or none.")


_TIME_HINT = "Write 2026-10-30 22:00:00, or with a zone 2026-10-30T22:00:00+01:00."


def _number(text: str, name: str, where: str, *, whole: bool = True) -> float:
    try:
        found = float(int(text)) if whole else float(text)
    except (ValueError, OverflowError):
        found = -1.0
    if name == "code":
        return found if found != -1.0 or text == "-1" else _refuse(text, name, where, whole)
    return found if 0 <= found < 1e15 else _refuse(text, name, where, whole)


def _refuse(text: str, name: str, where: str, whole: bool) -> float:
    raise UsageError(f'{where}: {name} "{text[:40]}" is not {"a whole number" if whole else "a number"}')


def _runs(chain: Chain, rows: Sequence[_Row], execution: int, first: float) -> list[JobRun]:
    """Return a run for every job of the chain: the last row of each, and what has none is told so."""
    found = {row.job.key: row for row in rows}
    if len(found) < len(rows):
        twice = found[next(row.job.key for row in rows if found[row.job.key] is not row)]
        raise UsageError(
            f'{twice.where}: job "{twice.job.key}" appears twice in execution {execution}',
            hint="Give the whole of its attempts as one row, with their number under attempts.",
        )
    runs = list[JobRun]()
    for key, job in chain.jobs.items():
        row = found.get(key)
        if row is None:
            end = JobEnd.SKIPPED if job.skip else JobEnd.NOT_RUN
            reason = job.skip or "the file has no row of it"
            runs.append(JobRun(execution=execution, process=job.process, job=job.name, end=end, reason=reason))
        else:
            runs.append(_run(row, first))
    return runs


def _run(row: _Row, first: float) -> JobRun:
    cells, where = row.cells, row.where
    code = int(_number(cells["code"], "code", where)) if cells.get("code") else None
    told = {name: _number(cells[name], name, where, whole=name != "cpu_s") if cells.get(name) else None
            for name in ("attempts", "cpu_s", "rows")}  # fmt: skip
    end = _end(cells.get("status", ""), code, row)
    rows, attempts = told["rows"], told["attempts"]
    return JobRun(
        execution=row.execution,
        process=row.job.process,
        job=row.job.name,
        end=end,
        began_s=None if row.start is None else row.start - first,
        ended_s=None if row.end is None else row.end - first,
        attempts=(0 if row.start is None else 1) if attempts is None else int(attempts),
        code=code,
        reason=cells.get("reason", "") or (row.job.skip if end is JobEnd.SKIPPED else ""),
        rows=None if rows is None else int(rows),
        cpu_s=told["cpu_s"],
        unknown={
            name: _NO_RECORD
            for name in ("busy_s", "rows", "wal_bytes", "server_cpu_s", "cpu_s")
            if name not in told or told[name] is None
        },
    )


def _end(status: str, code: int | None, row: _Row) -> JobEnd:
    if not status:
        if row.start is None:
            return JobEnd.SKIPPED if row.job.skip else JobEnd.NOT_RUN
        return JobEnd.SUCCEEDED if code is None or code in row.job.success else JobEnd.FAILED
    if status not in {*JobEnd}:
        raise UsageError(
            f'{row.where}: status "{status[:40]}" is not one of them',
            hint=near_hint(status, [one.value for one in JobEnd]),
        )
    if row.start is None and status in (JobEnd.SUCCEEDED, JobEnd.FAILED, JobEnd.TIMED_OUT, JobEnd.CHECK_FAILED):
        raise UsageError(f'{row.where}: status "{status}" without start and end')
    return JobEnd(status)
