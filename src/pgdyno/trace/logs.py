"""Open logs that a server wrote, tell what they are, and cut them into segments of whole records.

A log may be compressed, rotated, in several encodings, and of a stranger: it is read as a stream, and a record without
an end is refused. A segment is a file in a private folder, in UTF-8, which DuckDB reads.
"""

from __future__ import annotations

import codecs
import gzip
import io
import mmap
import os
import re
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import numpy as np

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.outputs import open_new
from pgdyno.owner.hands import open_with_their_rights
from pgdyno.owner.inherited import ProgramKind, inherited
from pgdyno.owner.programs import check_program
from pgdyno.trace.records import CsvForm, JsonForm, count_letters

SEGMENT = 32 << 20
"""Bytes of a log that are paired at once."""
LONGEST = 256 << 20
"""Bytes of a record: PostgreSQL takes statements up to 1 GB, but nobody's load has such."""
_BLOCK = 1 << 20
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_ZSTD_MB = 128
"""What a log may take while it is unpacked; a stranger's may ask for gigabytes."""
_HEAD = 1 << 16
_TIME = rb"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [A-Za-z0-9+<>-]{1,40})"
_CSV_START = re.compile(_TIME + rb'[,"]')
_END = re.compile(rb'\r?\n(?=\d{4}-\d\d-\d\d \d|\{"timestamp")')
"""The end of a record: a statement may have line ends of its own, and of another kind."""
_JSON_START = re.compile(rb'\{"timestamp":"' + _TIME + rb'"')


@dataclass(frozen=True, slots=True)
class Log:
    """A file of a log, and what it is."""

    path: Path
    format: str
    """csvlog, jsonlog or stderr."""
    first: str
    """The time of its first record, as it stands there; empty for stderr, whose prefix has to be known."""
    begin: int = 0
    end: int | None = None
    """Bytes of the file that count, where others stand before or behind them."""


def look(path: Path, begin: int = 0, end: int | None = None) -> Log:
    """Tell what a log is by its begin. Raises UsageError for what cannot be read and for what is no text."""
    with reading(path, begin) as file:
        head = file.read(_HEAD if end is None else min(_HEAD, max(0, end - begin)))
    if b"\0" in head:
        raise UsageError(f'log "{path}" is no text: it holds NUL bytes', hint=_HINT)
    if not head.strip():
        return Log(path, "empty", "", begin, end)
    for name, start in (("csvlog", _CSV_START), ("jsonlog", _JSON_START)):
        if found := start.match(head):
            if name == "csvlog" and found.group().endswith(b'"'):
                continue
            return Log(path, name, found[1].decode("ascii", "replace"), begin, end)
    return Log(path, "stderr", "", begin, end)


_HINT = "Name files that the server wrote: csvlog, jsonlog, or stderr with --prefix."


@contextmanager
def reading(path: Path, begin: int = 0) -> Iterator[IO[bytes]]:
    """Give the bytes of a log, unpacked; nothing is read ahead. Raises UsageError, also for damage in the middle."""
    try:
        with open_with_their_rights(path) as file:
            if begin:
                file.seek(begin)
            magic = file.peek(4)[:4]  # type: ignore[attr-defined] # a BufferedReader
            if magic.startswith(_GZIP):
                with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
                    yield _with_plain_ends(unpacked)  # type: ignore[arg-type] # it reads bytes
            elif magic == _ZSTD:
                with _zstd(path, file) as unpacked:
                    yield _with_plain_ends(unpacked)
            else:
                yield _with_plain_ends(file)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UsageError(f'log "{path}" is damaged', detail=str(error)) from error
    except OSError as error:
        raise UsageError(f'log "{path}" cannot be read', detail=error.strerror or str(error), hint=_HINT) from error


def _with_plain_ends(file: IO[bytes]) -> IO[bytes]:
    """Return a log with the line ends that PostgreSQL wrote: on Windows each of them has become two bytes."""
    ends = set(_END.findall(file.peek(_HEAD)))  # type: ignore[attr-defined] # it is buffered, or unpacks
    return io.BufferedReader(_OfWindows(file), _BLOCK) if ends == {b"\r\n"} else file


class _OfWindows(io.RawIOBase):
    """A file whose line ends are made plain."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._held = file, b""

    def readable(self) -> bool:
        """Tell that it is."""
        return True

    def readinto(self, place: memoryview) -> int:  # type: ignore[override] # of a BufferedReader
        """Fill a place, and return by how many bytes; 0 at the end."""
        while True:
            more = self._file.read(len(place) - len(self._held))
            data, self._held = self._held + more, b""
            if more and data.endswith(b"\r"):
                data, self._held = data[:-1], b"\r"
            data = data.replace(b"\r\n", b"\n")
            if data or not more:
                place[: len(data)] = data
                return len(data)


def is_packed(path: Path) -> bool:
    """Tell whether a log has to be unpacked. Raises UsageError where it cannot be read."""
    try:
        with open_with_their_rights(path) as file:
            return file.read(4).startswith((_GZIP, _ZSTD))
    except OSError as error:
        raise UsageError(f'log "{path}" cannot be read', detail=error.strerror or str(error), hint=_HINT) from error


@contextmanager
def _zstd(path: Path, file: IO[bytes]) -> Iterator[IO[bytes]]:
    os.lseek(file.fileno(), 0, os.SEEK_SET)  # what was looked at is behind it
    if shutil.which("zstd") is None:
        raise EnvironmentUnsuitable(f'log "{path}" needs the program zstd', hint="Install zstd.")
    program = subprocess.Popen(
        [check_program("zstd", os.geteuid()), "-dcq", f"--memory={_ZSTD_MB}MB"],
        stdin=file,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=inherited(ProgramKind.PROGRAM),
    )
    assert program.stdout is not None
    assert program.stderr is not None
    is_whole = False
    try:
        yield program.stdout
        is_whole = not program.stdout.read(1)
    finally:
        program.stdout.close()
        if not is_whole:
            program.kill()
        told = program.stderr.read(4096).decode("utf-8", "replace").strip()
        program.stderr.close()
        program.wait()
    if is_whole and program.returncode and "memory" in told.lower():
        raise UsageError(
            f'log "{path}" takes more than {_ZSTD_MB} MB of memory to unpack',
            detail=told.partition("\n")[0],
            hint="Unpack it where that is there, and name the result: zstd -d --long=31 FILE.",
        )
    if is_whole and program.returncode:
        raise UsageError(f'log "{path}" is damaged', detail=told or f"zstd ended with {program.returncode}")


@dataclass(frozen=True, slots=True)
class Segment:
    """Whole records of one log, in UTF-8."""

    path: Path
    format: str
    columns: int
    """Of csvlog."""
    longest: int
    """Bytes that no record of it is longer than."""
    records: int
    """At most: of csvlog its lines, as a record may hold several. `count_records` is exact."""
    unreadable: int = 0
    """Records that are not in it: their end is missing."""


def segments(log: Log, encodings: Mapping[str, str], *, size: int = SEGMENT) -> Iterator[Segment]:
    """Give the segments of a csvlog or a jsonlog, one after another; each is gone when the next is asked for.

    They are files in memory, in UTF-8, of about `size` bytes; `encodings` has Python's name of any other, by database.
    What is read comes to stand in the file itself, as copying it costs more than looking at it.
    """
    kind = CsvForm() if log.format == "csvlog" else JsonForm()
    line, filled, at_end = 1, 0, False
    left = None if log.end is None else max(log.end - log.begin, 0)
    with reading(log.path, log.begin) as file, os.fdopen(os.memfd_create("segment"), "r+b") as place:
        place.truncate(size)
        buffer, usual = mmap.mmap(place.fileno(), size), size
        while not at_end:
            most = size if left is None else min(size, filled + left)
            while filled < most and (count := _readinto(file, memoryview(buffer)[filled:most])):
                filled += count
                left = None if left is None else left - count
            at_end = filled < size
            end = kind.end(buffer, filled)
            broken = 0
            if filled - end > LONGEST and (at_end or not end):
                at_line = line + count_letters(buffer, end, b"\n")
                raise UsageError(f'log "{log.path}" line {at_line}: a record of more than {LONGEST >> 20} MB')
            # at the end of the log a line may lack its end alone, a record all that follows
            if at_end and (last := buffer[end:filled]).strip():
                broken = int(not kind.is_whole(last))
                if not broken:
                    buffer[filled : filled + 1] = b"\n"
                    end = filled = filled + 1
            if end == 0 and filled and not at_end:
                size += size // 2 + 1
                place.truncate(size)
                buffer = mmap.mmap(place.fileno(), size)
                continue
            if not end or (buffer[:1].isspace() and buffer[:end].isspace()):
                if broken:
                    raise UsageError(f'log "{log.path}" line {line}: no record is whole', hint=_HINT)
                buffer[: filled - end] = buffer[end:filled]
                filled -= end
                continue
            whole: bytes | mmap.mmap = buffer
            rest = buffer[end:filled]
            if not _is_ascii(buffer, end):
                whole = _in_utf8(buffer[:end], kind, encodings, log.path, line)
                end = os.pwrite(place.fileno(), whole, 0)
            lines, columns, longest = count_letters(whole, end, b"\n"), kind.columns(whole), longest_line(whole, end)
            line += lines
            del whole
            place.truncate(end)
            yield Segment(Path(f"/proc/self/fd/{place.fileno()}"), log.format, columns, longest, lines, broken)
            filled = len(rest)
            if size > usual >= 2 * filled:
                size = usual
                buffer = mmap.mmap(place.fileno(), size)
            place.truncate(size)
            buffer[:filled] = rest


def _readinto(file: IO[bytes], place: memoryview) -> int:
    return file.readinto(place)  # type: ignore[attr-defined,no-any-return] # it is buffered, or unpacks


def write_segment(folder: Path, data: bytes) -> Path:
    """Write the bytes of a segment in place of the one before it."""
    place = folder / "segment"
    place.unlink(missing_ok=True)
    with open_new(place) as file:
        file.write(data)
    return place


def salvage(segment: Segment) -> Segment:
    """Leave out of a segment the records that are none, and measure the others. Slow: for damaged logs, and texts of
    megabytes in many lines, which are longer than any of their lines.
    """
    kind = CsvForm() if segment.format == "csvlog" else JsonForm()
    records = list(kind.records(segment.path.read_bytes()))
    if segment.format == "csvlog":
        good = [record for record in records if kind.columns(record) == segment.columns]
    else:
        good = [record for record in records if kind.is_whole(record)]
    segment.path.write_bytes(b"".join(good))
    return replace(segment, longest=max(segment.longest, *map(len, good), 0))


def count_records(segment: Segment) -> int:
    """Return how many records a segment has, before anything is left out of it."""
    if segment.format != "csvlog":
        return segment.records
    return CsvForm().count(segment.path.read_bytes())


def _is_ascii(data: mmap.mmap, end: int) -> bool:
    """Tell whether text is in ASCII, and has no NUL."""
    return bool(np.frombuffer(data, np.int8, end).min() > 0)


def longest_line(data: bytes | mmap.mmap, end: int) -> int:
    """Return what bounds the records of a segment in bytes: few megabytes, unless one is longer."""
    step = 4 << 20
    if all(data.find(b"\n", at, at + step // 2) >= 0 for at in range(0, end, step // 2)):
        return step
    return end


def _in_utf8(data: bytes, kind: CsvForm | JsonForm, encodings: Mapping[str, str], path: Path, line: int) -> bytes:
    """Return records in UTF-8: each is in the encoding of its database. Raises UsageError naming line and database."""
    if b"\0" in data:
        at = line + data.count(b"\n", 0, data.index(b"\0"))
        raise UsageError(f'log "{path}" line {at}: a NUL byte', hint="The log is damaged, or no log of PostgreSQL.")
    if data.isascii() or (not encodings and _is_utf8(data)):
        return data
    found = list[bytes]()
    for record in kind.records(data):
        whole = record
        if not record.isascii():
            database = kind.database(record)
            whole = recoded(record, database, encodings, f'log "{path}" line {line}')
        found.append(whole)
        line += record.count(b"\n")
    return b"".join(found)


def recoded(text: bytes, database: str, encodings: Mapping[str, str], where: str) -> bytes:
    """Return a record of a database in UTF-8. Raises UsageError that says where it stands.

    `text` is the record as logged, in the encoding of its `database` ("" where the log does not tell it). `encodings`
    has Python's names of encodings by database; one that is missing is UTF-8. `where` names log and line in the error.
    """
    encoding = encodings.get(database, "utf-8")
    try:
        return text.decode(encoding).encode()
    except UnicodeError:
        raise UsageError(
            f'{where}: not in {encoding}, database "{database}"',
            hint=f"Say the database's encoding: --encoding {database or 'DATABASE'}=LATIN1.",
        ) from None


def codec(name: str) -> str:
    """Return Python's name of an encoding of PostgreSQL. Raises UsageError for an unknown one."""
    asked = re.sub(r"^win", "cp", name.strip().lower()).replace("koi8r", "koi8-r").replace("koi8u", "koi8-u")
    try:
        return codecs.lookup(asked).name
    except (LookupError, ValueError):
        raise UsageError(
            f'encoding "{name}" is unknown', hint="Write it as the server does: LATIN1, WIN1252, EUC_JP ..."
        ) from None


def _is_utf8(data: bytes) -> bool:
    decode: Callable[..., str] = codecs.getincrementaldecoder("utf-8")().decode
    view = memoryview(data)
    try:
        for at in range(0, len(view), _BLOCK):
            decode(view[at : at + _BLOCK], final=at + _BLOCK >= len(view))
    except UnicodeDecodeError:
        return False
    return True
