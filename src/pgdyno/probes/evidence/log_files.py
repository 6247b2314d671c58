"""Where a server's log is, and its last megabytes: files of this host, or through the server where the role may."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from psycopg import sql

from pgdyno.errors import PgdynoError
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Inventory
from pgdyno.outside.files import open_file
from pgdyno.server.postgres import Postgres
from pgdyno.targets.server_log import FILES_AT_MOST, LOG_KINDS, LogFile, log_files, log_kind
from pgdyno.targets.target import Target

if TYPE_CHECKING:
    from pgdyno.remote.host import RemoteHost

READ_AT_MOST = 64 << 20
"""Bytes of a log that are read by default, the newest: of gigabytes, what the server said last is what counts."""
UNPACKED_AT_MOST = 1 << 30
"""Bytes out of one packed file: a log packs tenfold to twentyfold, and a bomb a thousandfold."""
_BLOCK = 1 << 20
Fetch = Callable[[str, int, int], bytes]
"""Return up to so many bytes of a file from an offset."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """The part of one log file that is read: from byte `start` on; `blocks` streams it."""

    path: str
    size: int
    start: int
    fetch: Fetch | None = None
    """How blocks are fetched from where the file is; None reads it here."""

    @property
    def label(self) -> str:
        """Return the file's name, with what was left out."""
        if not self.start:
            return self.path
        return f"{self.path} (the last {_megabytes(self.size - self.start)} of {_megabytes(self.size)})"

    def blocks(self) -> Iterator[bytes]:
        """Stream the bytes. A file that cannot be read further ends there, without an error."""
        if self.fetch is not None:
            fetched = _fetched(self.fetch, self.path, self.start, self.size)
            yield from _unpacked(fetched) if self.path.endswith(".gz") else fetched
            return
        with open_file(Path(self.path)) as stream:
            try:
                blocks = _from(stream, self.start)
                yield from _unpacked(blocks) if self.path.endswith(".gz") else blocks
            except OSError:
                return


def _from(stream: BinaryIO, start: int) -> Iterator[bytes]:
    if start:  # a pipe has no other place than its beginning
        stream.seek(start)
    while block := stream.read(_BLOCK):
        yield block


def _unpacked(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Unpack gzip as far as the file goes: one that is still written or was cut has no end (RFC 1952)."""
    unpacker, unread, room = zlib.decompressobj(wbits=31), b"", UNPACKED_AT_MOST
    try:
        while room > 0 and (packed := unread or next(blocks, b"")):
            block = unpacker.decompress(packed, _BLOCK)
            room -= len(block) + 1  # empty members cost time, too
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
            with open_file(path) as file:
                status = os.fstat(file.fileno())
        except OSError as error:
            reasons.append(f'"{path}": {error.strerror}')
            continue
        found.append((status.st_mtime, str(path), status.st_size))
    if not found:
        return Unknown(f"the server's log cannot be read: {'; '.join(reasons) or 'there is no such file'}")
    return _newest(found, at_most, None)


def find_parts(target: Target, inventory: Inventory) -> list[LogPart] | Unknown:
    """Find the server's log: its collector's files, else the file that its standard error goes to. Reads only.

    Files are read on their host, by the agent where that is another one; where they cannot be, by the server, which
    needs the right to pg_read_binary_file.
    """
    found = files_on_host(target)
    if not isinstance(found, Unknown):
        names = [(file.changed, file.path, file.size) for file in found]
        return _newest(names, READ_AT_MOST, partial(by_agent, target.remote) if target.remote is not None else None)
    server = inventory.server
    if isinstance(server, Unknown) or server.text("logging_collector") != "on":
        return found
    by_server = _collected(target, {name: fact.setting for name, fact in server.settings.items()})
    return Unknown(f"{found.reason}; {by_server.reason}") if isinstance(by_server, Unknown) else by_server


def files_on_host(target: Target) -> list[LogFile] | Unknown:
    """Return the files of the log on the server's own host, read here or by the agent there."""
    try:
        if target.remote is not None:
            return target.remote.log_files()
        return log_files(target) if target.local else Unknown("the server's files are on another host")
    except PgdynoError as error:
        return Unknown(f"the server's log was not found: {error.message}")


def _collected(target: Target, settings: Mapping[str, str]) -> list[LogPart] | Unknown:
    kind = log_kind(settings)
    if isinstance(kind, Unknown):
        return kind
    folder = Path(settings.get("data_directory", "")) / settings.get("log_directory", "log")
    try:
        rows = target.postgres.fetch(
            "SELECT name, size, extract(epoch FROM modification)::float8 AS changed FROM pg_ls_logdir()"
        )
    except PgdynoError as error:
        return Unknown(f"the server does not list its logs: {error.message}")
    names = [
        (float(str(row["changed"])), str(folder / str(row["name"])), int(str(row["size"])))
        for row in rows
        if str(row["name"]).endswith(LOG_KINDS[kind]) and not str(row["name"]).endswith(".gz")
    ]
    if not names:
        return Unknown(f'there is no {kind} file in "{folder}"')
    return _through_server(target.postgres, sorted(names)[-FILES_AT_MOST:])


def _through_server(postgres: Postgres, names: Sequence[tuple[float, str, int]]) -> list[LogPart] | Unknown:
    parts = _newest(names, READ_AT_MOST, partial(_by_server, postgres))
    try:
        for part in parts[-1:]:
            next(part.blocks(), None)
    except PgdynoError as error:
        return Unknown(f"the server's log cannot be read here, nor through the server: {error.message}")
    return parts


def _newest(found: Sequence[tuple[float, str, int]], at_most: int, fetch: Fetch | None) -> list[LogPart]:
    parts, room = [], at_most
    for _, path, size in sorted(found, reverse=True):
        if room <= 0:
            break
        start = 0 if path.endswith(".gz") else max(0, size - room)
        parts.append(LogPart(path, size, start, fetch))
        room -= size - start
    return parts[::-1]


def _fetched(fetch: Fetch, path: str, start: int, size: int) -> Iterator[bytes]:
    while start < size:
        block = fetch(path, start, min(_BLOCK, size - start))
        if not block:
            return
        yield block
        start += len(block)


def _by_server(postgres: Postgres, path: str, start: int, count: int) -> bytes:
    rows = postgres.fetch(sql.SQL("SELECT pg_read_binary_file(%s, %s, %s, true) AS block"), (path, start, count))
    block = rows[0]["block"] if rows else None
    return block if isinstance(block, bytes) else b""


def by_agent(host: RemoteHost, path: str, start: int, count: int) -> bytes:
    """Return bytes of a log on another host.

    At most `count` bytes are read, from byte `start` on, of the file at `path` on `host`: one of its `log_files`.
    """
    return host.read_log(path, start, count)


def _megabytes(count: int) -> str:
    return f"{count / (1 << 20):,.1f} MB"
