"""The files of a capture in the server's log folder: seen by the server's own account here, by SQL elsewhere.

Root itself neither lists, reads nor copies them: on this host the process that has become the server's owner does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.facts import Facts, Unknown
from pgdyno.model.guard import Absent, Failed, GuardPlan, GuardReading
from pgdyno.model.guard_table import CAPTURE_GUARDS
from pgdyno.probes.guards.reader import BY_SQL_ALONE, ELSEWHERE
from pgdyno.probes.guards.volumes import Volume, volume_of
from pgdyno.routes.sql_route import SqlRoute
from pgdyno.targets.server_log import READ_AT_MOST, LogFile, files_in, read_part
from pgdyno.targets.target import Target
from pgdyno.trace.capture_logging import files_of
from pgdyno.trial.guards import GuardStatus, judge
from pgdyno.trial.sentry import GuardBreached

_LISTED = """
SELECT name::text AS name, size::int8 AS size, extract(epoch FROM modification)::float8 AS changed
  FROM pg_catalog.pg_ls_logdir() WHERE name LIKE 'pgdyno-%'
"""
_READ = "SELECT pg_catalog.pg_read_binary_file(%s, %s, %s) AS block"


@dataclass(frozen=True, slots=True)
class LogFolder:
    """The folder that the server logs to. Listing raises EnvironmentUnsuitable with what is in the way."""

    target: Target
    path: PurePosixPath
    data: PurePosixPath

    @classmethod
    def of(cls, target: Target, facts: Facts) -> LogFolder:
        """Return the folder that the server's settings name. Raises EnvironmentUnsuitable where they are hidden."""
        data, row = facts.server.data_directory, facts.settings.get("log_directory")
        if isinstance(data, Unknown) or row is None:
            raise EnvironmentUnsuitable(
                f'the role on "{target.postgres.label}" may not see where the server logs to',
                hint="GRANT pg_read_all_settings to the role, or connect as a superuser.",
            )
        return cls(target, PurePosixPath(data) / row.setting, PurePosixPath(data))

    @property
    def is_here(self) -> bool:
        """Tell whether the files are on this host and the server's account is at hand."""
        return self.target.remote is None and self.target.local and self.target.directory is not None

    @property
    def is_watched(self) -> bool:
        """Tell whether a guard sees its file system: log-disk here, disk by an agent where it is the data volume."""
        return self.is_here or (self.target.remote is not None and self.path.is_relative_to(self.data))

    def files(self, capture: str, style: str) -> list[LogFile]:
        """Return the capture's files as they are now, oldest first."""
        found = self._here() if self.is_here else self._by_sql()
        names = {PurePosixPath(file.path).name: file for file in found}
        return [names[name] for name in files_of(capture, style, names)]

    def free(self) -> Volume | Absent | Failed:
        """Return the free space of its file system; absent where a guard of the data directory sees it already."""
        if not self.is_here:
            if not self.path.is_relative_to(self.data):
                return Absent(BY_SQL_ALONE if isinstance(self.target.route, SqlRoute) else ELSEWHERE)
            return Absent("it is on the data volume, which guard disk watches where it can")
        try:
            folder = Path(self.path)
            if folder.stat().st_dev == Path(self.data).stat().st_dev:
                return Absent("it is on the data volume, which guard disk watches")
            return volume_of(folder)
        except OSError as error:
            return Failed(f'"{self.path}": {error.strerror}')

    def free_bytes(self) -> int | None:
        """Return the free bytes of the file system that holds it, None where they cannot be seen from here."""
        try:
            return volume_of(Path(self.path)).free if self.is_here else None
        except OSError:
            return None

    def blocks(self, path: str, end: int) -> Iterator[bytes]:
        """Yield the bytes of a file up to `end`. Raises EnvironmentUnsuitable where they cannot be read."""
        at = 0
        while at < end:
            count = min(READ_AT_MOST, end - at)
            try:
                block = read_part(self.target, Path(path), at, count) if self.is_here else self._block(path, at, count)
            except OSError as error:
                raise EnvironmentUnsuitable(f'"{path}" cannot be read: {error.strerror}') from error
            if not block:
                raise EnvironmentUnsuitable(f'"{path}" has {at} bytes, and had {end}')
            at += len(block)
            yield block

    def _block(self, path: str, at: int, count: int) -> bytes:
        block = self.target.postgres.fetch(_READ, [path, at, count])[0]["block"]
        if not isinstance(block, bytes):
            raise EnvironmentUnsuitable(f'"{path}" cannot be read: the server answers with no bytes')
        return block

    def _here(self) -> list[LogFile]:
        found = files_in(self.target, Path(self.path), lambda name: name.startswith("pgdyno-"))
        if isinstance(found, Unknown):
            raise EnvironmentUnsuitable(f"the server's log cannot be seen: {found.reason}")
        return found

    def _by_sql(self) -> list[LogFile]:
        rows = self.target.postgres.fetch(_LISTED)
        return [LogFile(str(self.path / str(r["name"])), int(str(r["size"])), float(str(r["changed"]))) for r in rows]


def look_at_disk(
    free: Volume | Absent | Failed, guards: GuardPlan, before: Mapping[str, GuardStatus] | None = None
) -> dict[str, GuardStatus]:
    """Return how guard log-disk stands. Raises GuardBreached, and EnvironmentUnsuitable for a disk that hides."""
    if isinstance(free, Failed):
        raise EnvironmentUnsuitable(f"the free space on the log's disk cannot be read: {free.reason}")
    reading = GuardReading("log-disk", time.time(), free if isinstance(free, Absent) else float(free.free))
    if isinstance(free, Volume):
        reading = replace(reading, whole=float(free.size))
    statuses = judge([reading], guards, before, CAPTURE_GUARDS)
    breach = statuses["log-disk"].breach
    if breach is not None:
        raise GuardBreached(breach)
    return statuses
