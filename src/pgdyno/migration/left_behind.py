"""What a rehearsal may leave when it and its guard are killed: publication and slot, and servers in its folder.

It is written down before the first of it is made, in pgdyno's state folder, and struck out when nothing is left. So
whoever comes next, `pgdyno cleanup` or another rehearsal, finds it and takes it away. docs/adr/0017 says why this is
not in an undo bundle.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from psycopg.conninfo import make_conninfo

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.linux.identity import ProcessIdentity, wait_until
from pgdyno.migration.movers.logical_link import ReplicationLink
from pgdyno.model.shapes import shaped
from pgdyno.outside.documents import load_json
from pgdyno.outside.files import read_bytes
from pgdyno.owner import durable
from pgdyno.owner.durable import Attributes
from pgdyno.server import places, postmaster_lock
from pgdyno.server.postgres import Postgres, secret_keywords

_LONGEST = 1 << 16
_STOP_S = 120.0
CLUSTERS = ("old", "new")
"""Folders of servers in that of a rehearsal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftRecord:
    """A rehearsal as it stands from before its first change until nothing is left. `link` is empty without one."""

    study: str
    folder: str
    link: str = ""
    source: str = ""
    target: str = ""
    owner: ProcessIdentity | None = None

    @property
    def is_running(self) -> bool:
        """Tell whether the process that makes the rehearsal lives."""
        return self.owner is not None and self.owner.is_alive()

    def servers(self) -> tuple[Path, ...]:
        """Return the folders of its servers that run: each proved by its working directory and its account."""
        folders = [Path(self.folder) / name for name in CLUSTERS]
        return tuple(one for one in folders if postmaster_lock.postmaster_pid(one) is not None)

    def found(self) -> tuple[str, ...]:
        """Return what is left, in words. Raises ConnectError where a server cannot be asked."""
        told = [f"a server runs in {one}" for one in self.servers()]
        return (*told, *([] if not self.link else self._replication.left()))

    def take_away(self) -> None:
        """Stop the servers and take the replication away. Raises EnvironmentUnsuitable or ConnectError; idempotent."""
        for one in self.servers():
            _stop(one)
        if self.link:
            self._replication.take_away()

    @property
    def _replication(self) -> ReplicationLink:
        return ReplicationLink(self.link, Postgres(self.source), Postgres(self.target))


def without_secrets(server: Postgres) -> str:
    """Return how a server is connected to, but for passwords: they are not written down."""
    hidden = secret_keywords()
    return make_conninfo(**{key: value for key, value in server.parameters.items() if key not in hidden})


def write_down(record: LeftRecord) -> Path:
    """Put it on disk, fsynced with its folder, as of this process, and return where."""
    folder = places.ensure(places.ensure(places.state_dir() / "migrations") / "left")
    owned = asdict(record) | {"owner": asdict(ProcessIdentity.own())}
    path = folder / f"{record.study}.json"
    durable.replace(path, (json.dumps(owned) + "\n").encode(), Attributes(os.geteuid(), os.getegid(), 0o600))
    return path


def all_left() -> Iterator[tuple[LeftRecord, Path]]:
    """Give the rehearsals of which something may be left, with where they stand; also those that run."""
    for path in sorted((places.state_dir() / "migrations" / "left").glob("*.json")):
        with suppress(OSError, ValueError):
            document = load_json(read_bytes(path, at_most=_LONGEST))
            yield shaped(LeftRecord, document, "what a rehearsal left", strict=False), path


def _stop(folder: Path) -> None:
    """Stop the server of a folder as pg_ctl does in mode fast."""
    pid = postmaster_lock.postmaster_pid(folder)
    if pid is None:
        return
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            if postmaster_lock.postmaster_pid(folder) == pid:  # asked again: the number may be of another one by now
                signal.pidfd_send_signal(descriptor, signal.SIGINT)
        finally:
            os.close(descriptor)
    if not wait_until(lambda: postmaster_lock.postmaster_pid(folder) is None, timeout_s=_STOP_S):
        raise EnvironmentUnsuitable(f'the server in "{folder}" does not stop', hint=f"Its PID is {pid}: stop it.")
