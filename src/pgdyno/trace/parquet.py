"""Parquet by DuckDB, which this module alone imports: bounded connections, traces and outcomes read and written.

A file of a stranger is opened by `outside.files` and handed to DuckDB as a descriptor, so that its name is never taken
for a pattern or an address. DuckDB may load no extension and sees no network.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from secrets import token_hex
from typing import IO, TYPE_CHECKING, Any, TypeVar

from pgdyno.errors import EnvironmentUnsuitable, UsageError, telling_files
from pgdyno.model.shapes import shaped
from pgdyno.outputs import check_output, checked_place, output, write_output
from pgdyno.outside import documents
from pgdyno.outside.files import open_file, read_bytes
from pgdyno.trace.schema import OUTCOME, SINCE_2, TRACE, TRACE_VERSION, TraceColumn, TraceMeta

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    Connection = DuckDBPyConnection

T = TypeVar("T")
MEMORY_MB = 160
"""What DuckDB may take before it writes to disk; the process has about 100 MB besides."""
SORT_MB = 130
"""For the sort of a whole trace of up to SORTED statements, which writes to disk in any case."""
SORTED = 2_000_000
DICTIONARY = "DICTIONARY_SIZE_LIMIT 1000"
"""Of COPY: numbers and texts that are nearly all different are faster to write as they are, and no larger."""
_BATCH = 20_000
"""Rows that are written at once."""
_FETCHED = 2_048
"""Rows that are read at once: one of DuckDB's vectors."""
_FULL = {
    "trace": "Free some: while a trace is made it may take half of what its log does.",
    "outcome": "Free some, and replay again; what was answered until now is in the folder, and can be compared.",
    "tape": "Free some: it lies beside the outcome of a replay, and in TMPDIR for the workload of a study.",
    "temporary files": "Free some, or name a folder on another disk: TMPDIR=FOLDER pgdyno ...",
}
_META = 4 << 20
_BLOCK = 1 << 20
_ALL = tuple(one.name for one in TRACE)


@contextmanager
def connection(
    folder: Path | None = None,
    *,
    memory_mb: int = MEMORY_MB,
    threads: int = 1,
    of: str = "trace",
    keeps_memory: bool = False,
) -> Iterator[Connection]:
    """Give a DuckDB in memory, which spills into `folder`. Its errors become ours: EnvironmentUnsuitable.

    It has `threads` threads and `memory_mb` MB of memory; with `folder` None it does not spill and fails beyond that.
    `of` is what is on a disk that may be full: a trace or an outcome that is made, or temporary files. One that
    `keeps_memory` holds up to half of it until the end, for tables that are made again and again: asking the kernel
    anew takes a twentieth of the time. Raises UsageError for a file that cannot be read as Parquet, and
    EnvironmentUnsuitable where DuckDB is not installed.
    """
    try:
        import duckdb
    except ImportError as error:
        raise EnvironmentUnsuitable("replay needs DuckDB", hint="Install it: pip install 'pgdyno[replay]'.") from error
    spill = "" if folder is None else str(folder)
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{memory_mb}MB",
        "threads": threads,
        "preserve_insertion_order": False,
        "temp_directory": spill,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    with duckdb.connect(":memory:", config=settings) as found:
        found.execute("SET enable_progress_bar = false")  # it would be drawn on stdout
        if keeps_memory:
            with suppress(duckdb.CatalogException):  # older versions do not know it
                found.execute(f"SET block_allocator_memory = '{memory_mb // 2}MB'")
        try:
            yield found
        except duckdb.OutOfMemoryException as error:
            if "max_temp_directory_size" in str(error):  # by default what is free on the disk
                raise _no_room(of) from error
            raise EnvironmentUnsuitable(
                "the trace needs more memory, or more disk beside it", detail=_first_line(error)
            ) from error
        except duckdb.IOException as error:
            if "No space left" in str(error):
                raise _no_room(of) from error
            raise EnvironmentUnsuitable("a file cannot be read or written", detail=_first_line(error)) from error
        except (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException):
            raise  # a statement of ours that cannot be: columns are looked at before they are asked for
        except (duckdb.Error, UnicodeDecodeError) as error:  # a damaged file has errors of many kinds
            raise UsageError("a file is no Parquet file that can be read", detail=_first_line(error)) from error
        except OSError as error:  # of what is written beside DuckDB
            if error.errno == errno.ENOSPC:
                raise _no_room(of) from error
            raise


def _no_room(of: str) -> EnvironmentUnsuitable:
    return EnvironmentUnsuitable(f"no room is left on the disk of the {of}", hint=_FULL[of])


def bad_input() -> type[Exception]:
    """Return the exception of a connection for rows that cannot be read."""
    import duckdb

    return duckdb.Error


def no_records() -> type[Exception]:
    """Return the exception of a connection for a file of which no part is of the form that was asked for."""
    import duckdb

    return duckdb.InvalidInputException


@contextmanager
def work_folder(beside: Path) -> Iterator[Path]:
    """Give a private folder beside a file that is going to be written; it is gone afterwards.

    Its path is that of a descriptor: queries hold it, and a name that somebody chose may hold quotes and patterns.
    """
    with telling_files(UsageError, "Name a place where you may write."):
        check_output(beside)
        folder = checked_place(beside).with_name(f".{beside.name[:100]}.{token_hex(8)}.work")
        folder.mkdir(mode=0o700)
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def parquet_source(path: Path) -> Iterator[str]:
    """Give what stands for a Parquet file in the FROM of a query. Raises UsageError that names the file."""
    try:
        file = open_file(path)
    except OSError as error:
        raise UsageError(f'trace "{path}" cannot be read', detail=error.strerror) from error
    with file:
        if file.read(4) != b"PAR1":
            raise UsageError(f'"{path}" is no Parquet file', hint="Make a trace with pgdyno trace build.")
        name = f"/proc/self/fd/{file.fileno()}"
        try:
            yield f"read_parquet('{name}')"
        except Exception as error:
            if f"'{name}'" in f"{error} {getattr(error, 'detail', '')}":  # DuckDB's words, as its own error or as ours
                hint = "It is cut or damaged: take it whole from where it was made, or make it anew."
                raise UsageError(f'"{path}" is no Parquet file that can be read', hint=hint) from error
            raise


@contextmanager
def trace_source(path: Path, db: Connection) -> Iterator[str]:
    """Give what stands for a trace in the FROM of a query. Raises UsageError where its columns are not a trace's."""
    hint = "Make a trace with pgdyno trace build."
    with checked_source(path, db, TRACE, "trace", hint=hint, may_lack=SINCE_2) as source:
        yield source


@contextmanager
def outcome_source(path: Path, db: Connection) -> Iterator[str]:
    """Give what stands for a part of an outcome. Raises UsageError where its columns are not an outcome's."""
    with checked_source(path, db, OUTCOME, "outcome", hint="An outcome is made by pgdyno replay.") as source:
        yield source


@contextmanager
def checked_source(
    path: Path,
    db: Connection,
    columns: Sequence[TraceColumn],
    what: str,
    *,
    hint: str,
    may_lack: frozenset[str] = frozenset(),
) -> Iterator[str]:
    """Give what stands for a file in the FROM of a query. Raises UsageError where it lacks a column of its type.

    `path` is a Parquet file that queries of `db` read, and `columns` are those that it must have. Those that it
    `may_lack`, by name, are texts, and NULL then. `what` says in the error what the file is not, such as "trace", and
    `hint` is the hint of that error.
    """
    with parquet_source(path) as source:
        found = {str(row[0]): str(row[1]) for row in db.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
        older = may_lack - found.keys()
        for one in columns:
            if one.name not in older and found.get(one.name) != one.type:
                raise UsageError(
                    f'"{path}" is no {what}: column "{one.name}" is {found.get(one.name, "missing")}, not {one.type}',
                    hint=hint,
                )
        added = "".join(f', NULL::VARCHAR AS "{name}"' for name in sorted(older))
        yield f"(SELECT *{added} FROM {source})" if added else source


def sort_mb(statements: int) -> int:
    """Return what the sort of a trace may take, in MB: it merges runs, each with a block in memory.

    The larger this, the fewer the runs, so what is needed grows with the root of the rows. 85 MB was too little for
    2.1 million statements (1 GB of csvlog), and 124 for four times as many.
    """
    return round(SORT_MB * math.sqrt(max(1.0, statements / SORTED)))


def let_take(db: Connection, memory_mb: int) -> None:
    """Change how much a connection may take."""
    db.execute(f"SET memory_limit = '{memory_mb}MB'")


def write_parquet(db: Connection, query: str, path: Path) -> str:
    """Write what a query gives as a private Parquet file, whole or not at all; return its SHA-256."""
    with output(path) as file:
        db.execute(
            f"COPY ({query}) TO '/proc/self/fd/{file.fileno()}'"
            f" (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 61440, {DICTIONARY}, USE_TMP_FILE false)"
        )
        return digest_of(file)


def digest_of(file: IO[bytes]) -> str:
    """Return the SHA-256 of an open file from its begin."""
    file.seek(0)
    digest = hashlib.sha256()
    while block := file.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest()


def read_rows(path: Path, columns: Sequence[str] = _ALL, *, where: str = "true") -> Iterator[tuple[Any, ...]]:
    """Give the rows of a trace or an outcome in the order of the file, as Python values; memory is flat.

    `where` is SQL of ours over the columns, never of a user.
    """
    asked = ", ".join(f'"{name}"' for name in columns)
    with parquet_source(path) as source, connection() as db:
        db.execute("SET preserve_insertion_order = true")
        yield from fetched(db, f"SELECT {asked} FROM {source} WHERE {where}")


def fetched(db: Connection, query: str, values: Sequence[str] = ()) -> Iterator[tuple[Any, ...]]:
    """Give the rows of a query as Python values, a few at a time, while the connection serves other queries."""
    found = db.cursor().execute(query, list(values))
    while batch := found.fetchmany(_FETCHED):
        yield from batch


def write_rows(
    path: Path, columns: Sequence[TraceColumn], rows: Iterable[Sequence[Any]], *, memory_mb: int = MEMORY_MB
) -> str:
    """Write rows in the given order as a private Parquet file, whole or not at all; return its SHA-256.

    `columns` gives names and types of the values in each of `rows`, in their order. Beyond `memory_mb` MB the rows lie
    on the disk beside `path` until all are there.
    """
    with work_folder(path) as folder, connection(folder, memory_mb=memory_mb) as db:
        db.execute("SET preserve_insertion_order = true")
        db.execute("CREATE TABLE given (" + ", ".join(f'"{one.name}" {one.type}' for one in columns) + ")")
        marks = ", ".join(f"unnest(?::{one.type}[])" for one in columns)
        for batch in _batches(rows):
            db.execute(f"INSERT INTO given SELECT {marks}", [list(values) for values in zip(*batch, strict=True)])
        return write_parquet(db, "SELECT * FROM given", path)


def meta_path(trace: Path) -> Path:
    """Return where the facts of a trace lie: `NAME.json` beside `NAME.parquet`."""
    if not trace.name:
        raise UsageError(f'"{trace}" is a folder and no trace', hint="Name the .parquet file of a trace.")
    return trace.with_suffix(".json")


def write_meta(trace: Path, meta: TraceMeta) -> None:
    """Write the facts of a trace beside it. Where that cannot be, the trace goes: without them it is none."""
    try:
        write_output(meta_path(trace), json.dumps(asdict(meta), indent=1, ensure_ascii=False) + "\n")
    except BaseException as error:
        trace.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise _no_room("trace") from error
        raise


def read_meta(trace: Path) -> TraceMeta:
    """Return the facts of a trace. Raises UsageError where they are missing, damaged or of a newer version."""
    hint = "A trace is two files that pgdyno trace build writes: NAME.parquet and NAME.json."
    return read_facts_file(TraceMeta, meta_path(trace), f'trace "{trace}"', TRACE_VERSION, at_most=_META, hint=hint)


def read_facts_file(kind: type[T], path: Path, what: str, newest: int, *, at_most: int, hint: str) -> T:
    """Return the facts in a JSON file beside rows in Parquet; `what` names the whole, such as `trace "a.parquet"`.

    `kind` is the dataclass that they are read as. Raises UsageError with `hint` where the file at `path` is missing,
    damaged or longer than `at_most` bytes, and UsageError where it is of a newer version than `newest`.
    """
    noun = what.partition(" ")[0]
    try:
        found = documents.load_json(read_bytes(path, at_most=at_most))
        version = found.get("version") if isinstance(found, dict) else None
        if isinstance(version, int) and not isinstance(version, bool) and version > newest:
            raise UsageError(
                f"{what} has version {version}, this program knows {newest}",
                hint="Use the pgdyno that made it, or a newer one.",
            )
        return shaped(kind, found, f"the facts of the {noun}", strict=False)
    except OSError as error:
        raise UsageError(
            f'"{path}", the facts of the {noun}, cannot be read', detail=error.strerror, hint=hint
        ) from error
    except ValueError as error:
        raise UsageError(f'"{path}" does not hold the facts of the {noun}', detail=str(error), hint=hint) from error


def _batches(rows: Iterable[Sequence[Any]]) -> Iterator[list[Sequence[Any]]]:
    batch = list[Sequence[Any]]()
    for row in rows:
        batch.append(row)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
