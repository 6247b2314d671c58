"""Where a server's log is, and its last megabytes: files of this host, or through the server where the role may."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from psycopg import sql

from pgdyno.errors import PgdynoError
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Inventory
from pgdyno.target.postgres import Postgres
from pgdyno.target.target import Target

READ_AT_MOST = 64 << 20
"""Bytes of a log that are read by default, the newest: of gigabytes, what the server said last is what counts."""
_BLOCK = 1 << 20
_ORDER = ("csvlog", "jsonlog", "stderr")
_ENDINGS = {"csvlog": (".csv", ".csv.gz"), "jsonlog": (".json", ".json.gz"), "stderr": (".log", ".log.gz", ".gz")}
_FILES_AT_MOST = 50


@dataclass(frozen=True, slots=True)
class LogPart:
    """The part of one log file that is read: from byte `start` on; `blocks` streams it."""

    path: str
    size: int
    start: int
    server: Postgres | None = None
    """Set when the file is read by the server, with pg_read_binary_file."""

    @property
    def label(self) -> str:
        """Return the file's name, with what was left out."""
        if not self.start:
            return self.path
        return f"{self.path} (the last {_megabytes(self.size - self.start)} of {_megabytes(self.size)})"

    def blocks(self) -> Iterator[bytes]:
        """Stream the bytes. A file that cannot be read further ends there, without an error."""
        if self.server is not None:
            yield from _by_server(self.server, self.path, self.start, self.size)
            return
        with Path(self.path).open("rb") as stream:
            try:
                yield from _unpacked(stream) if self.path.endswith(".gz") else _from(stream, self.start)
            except OSError:
                return


def _from(stream: BinaryIO, start: int) -> Iterator[bytes]:
    stream.seek(start)
    while block := stream.read(_BLOCK):
        yield block


def _unpacked(stream: BinaryIO) -> Iterator[bytes]:
    """Unpack gzip as far as the file goes: one that is still written or was cut has no end (RFC 1952)."""
    unpacker, unread = zlib.decompressobj(wbits=31), b""
    try:
        while packed := unread or stream.read(_BLOCK):
            block = unpacker.decompress(packed, _BLOCK)
            unread = unpacker.unconsumed_tail
            if block:
                yield block
            if unpacker.eof:  # files may be written one behind the other
                unread, unpacker = unpacker.unused_data, zlib.decompressobj(wbits=31)
    except zlib.error:
        return


def local_parts(paths: Sequence[Path], at_most: int = READ_AT_MOST) -> list[LogPart] | Unknown:
    """Return the parts of local files to read, oldest first: the newest `at_most` bytes, by time of last change.

    A packed file counts with its packed size and is read from its beginning.
    """
    found: list[tuple[float, str, int]] = []
    reasons = []
    for path in paths:
        try:
            with path.open("rb"):
                status = path.stat()
        except OSError as error:
            reasons.append(f'"{path}": {error.strerror}')
            continue
        if path.is_file():
            found.append((status.st_mtime, str(path), status.st_size))
    if not found:
        return Unknown(f"the server's log cannot be read: {'; '.join(reasons) or 'there is no such file'}")
    return _newest(found, at_most, None)


def find_parts(target: Target, inventory: Inventory, at_most: int = READ_AT_MOST) -> list[LogPart] | Unknown:
    """Find the server's log: its collector's files, else the file that its standard error goes to. Reads only.

    Files are read on this host where they can be, else by the server, which needs the right to pg_read_binary_file.
    """
    server = inventory.server
    if isinstance(server, Unknown):
        return server
    if server.text("logging_collector") == "on":
        return _collected(target, inventory, at_most)
    standard_error = _standard_error(target)
    if isinstance(standard_error, Unknown):
        return standard_error
    return local_parts([standard_error], at_most)


def _standard_error(target: Target) -> Path | Unknown:
    if target.directory is not None and target.disposable:
        return target.directory.parent / "server.log"
    pid = target.cpu.postmaster() if target.local else None
    if pid is None:
        return Unknown("the server writes its log to its standard error, on another host; --log FILE names a copy")
    try:
        goes_to = Path(f"/proc/{pid}/fd/2").readlink()
    except OSError as error:
        return Unknown(f"where the server's standard error goes cannot be seen ({error.strerror}); --log FILE names it")
    if goes_to.is_file():
        return goes_to
    return Unknown(f'the server\'s standard error goes to "{goes_to}", which is no file; --log FILE names a copy')


def _collected(target: Target, inventory: Inventory, at_most: int) -> list[LogPart] | Unknown:
    settings = {} if isinstance(inventory.server, Unknown) else inventory.server.settings
    texts = {name: fact.setting for name, fact in settings.items()}
    written = [kind.strip() for kind in texts.get("log_destination", "stderr").split(",")]
    kind = next((kind for kind in _ORDER if kind in written), None)
    if kind is None:
        return Unknown(f"the server logs to {', '.join(written)}; --log FILE names a copy")
    folder = Path(texts.get("data_directory", "")) / texts.get("log_directory", "log")
    names: list[tuple[float, str, int]] | Unknown
    try:
        rows = target.postgres.fetch(
            "SELECT name, size, extract(epoch FROM modification)::float8 AS changed FROM pg_ls_logdir()"
        )
        names = [
            (float(str(row["changed"])), str(folder / str(row["name"])), int(str(row["size"])))
            for row in rows
            if str(row["name"]).endswith(_ENDINGS[kind])
        ]
    except PgdynoError as error:
        names = Unknown(f"the server does not list its logs: {error.message}")
    if isinstance(names, Unknown):
        return names
    newest = sorted(names)[-_FILES_AT_MOST:]
    if not newest:
        return Unknown(f'there is no {kind} file in "{folder}"')
    if target.local:
        parts = local_parts([Path(path) for _, path, _ in newest], at_most)
        if not isinstance(parts, Unknown):
            return parts
    return _through_server(target.postgres, [name for name in newest if not name[1].endswith(".gz")], at_most)


def _through_server(
    postgres: Postgres, names: Sequence[tuple[float, str, int]], at_most: int
) -> list[LogPart] | Unknown:
    parts = _newest(names, at_most, postgres)
    try:
        for part in parts[-1:]:
            next(part.blocks(), None)
    except PgdynoError as error:
        return Unknown(f"the server's log cannot be read here, nor through the server: {error.message}")
    return parts


def _newest(found: Sequence[tuple[float, str, int]], at_most: int, server: Postgres | None) -> list[LogPart]:
    parts, room = [], at_most
    for _, path, size in sorted(found, reverse=True):
        if room <= 0:
            break
        start = 0 if path.endswith(".gz") else max(0, size - room)
        parts.append(LogPart(path, size, start, server))
        room -= size - start
    return parts[::-1]


def _by_server(postgres: Postgres, path: str, start: int, size: int) -> Iterator[bytes]:
    query = sql.SQL("SELECT pg_read_binary_file(%s, %s, %s, true) AS block")
    while start < size:
        rows = postgres.fetch(query, (path, start, min(_BLOCK, size - start)))
        block = rows[0]["block"] if rows else None
        if not isinstance(block, bytes) or not block:
            return
        yield block
        start += len(block)


def _megabytes(count: int) -> str:
    return f"{count / (1 << 20):,.1f} MB"
