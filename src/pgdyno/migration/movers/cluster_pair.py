"""The two clusters of an upgrade, in the rehearsal's folder: a copy of the source's files, and the new one.

All that runs and writes there does so as the account of the loads, never as root. The configuration of the copy is not
the source's: that may name files, libraries, archives and publishers that a copy must not touch.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from psycopg.conninfo import make_conninfo

from pgdyno.errors import EnvironmentUnsuitable, PgdynoError
from pgdyno.migration.mover import MigrationSide, MovePlace
from pgdyno.migration.movers.client_program import ProgramFailed, run_client
from pgdyno.migration.movers.upgrade_words import HBA, PORT, ClusterShape, settings_text
from pgdyno.outside.files import is_file, open_file
from pgdyno.owner.account import Account
from pgdyno.owner.durable import Attributes
from pgdyno.owner.hands import Hands, hands_for
from pgdyno.owner.runner import LocalRunner
from pgdyno.replay.base_backup import BaseBackup
from pgdyno.replay.copy_proof import MARKER, CopyMarker
from pgdyno.replay.file_copy import FileCopy
from pgdyno.sandbox.cluster import choose_socket_dir, ensure_socket_dir
from pgdyno.server.binaries import Build, find_build
from pgdyno.server.postgres import Postgres, redact
from pgdyno.targets.target import Target

OLD_PROGRAMS = ("postgres", "pg_ctl", "pg_controldata", "pg_resetwal")
NEW_PROGRAMS = (*OLD_PROGRAMS, "initdb", "pg_dump", "pg_dumpall", "pg_restore", "psql", "vacuumdb", "pg_upgrade")
_DEBIAN = Path("/usr/lib/postgresql")
_START_S = 3600
_LINES = 8
_SHAPE = """
SELECT (SELECT rolname FROM pg_catalog.pg_roles WHERE oid = 10) AS superuser,
  pg_catalog.pg_encoding_to_char(d.encoding) AS encoding, d.datcollate AS collation, d.datctype AS type,
  coalesce(pg_catalog.to_jsonb(d) ->> 'datlocprovider', 'c') AS provider,
  coalesce(pg_catalog.to_jsonb(d) ->> 'datlocale', pg_catalog.to_jsonb(d) ->> 'daticulocale') AS locale,
  pg_catalog.current_setting('data_checksums') AS checksums,
  (SELECT setting::int8 FROM pg_catalog.pg_settings WHERE name = 'wal_segment_size') AS segment,
  pg_catalog.current_setting('max_locks_per_transaction')::int4 AS locks
FROM pg_catalog.pg_database AS d WHERE d.datname = 'template0'
"""


@dataclass(frozen=True)
class ClusterPair:
    """The clusters of one rehearsal; `place` says whose programs and which folder."""

    place: MovePlace

    @property
    def old(self) -> Path:
        """Return the folder of the copy."""
        return self.place.folder / "old"

    @property
    def new(self) -> Path:
        """Return the folder of the new cluster."""
        return self.place.folder / "new"

    @property
    def user(self) -> str | None:
        """Return the name of the account that programs run as, None for ours. Raises EnvironmentUnsuitable for root."""
        account = self.place.account
        if os.geteuid() == 0 and (account is None or account.uid == 0 or account.name is None):
            raise EnvironmentUnsuitable("PostgreSQL does not run as root, and no other account is known")
        return None if account is None else account.name

    @cached_property
    def old_build(self) -> Build:
        """Return the programs of the source's version. Raises EnvironmentUnsuitable where they are not on this host."""
        named, major = self.place.options.get("old_programs"), self.place.source.major
        folders = [Path(named)] if named else [self.place.source.target.bin_dir, _DEBIAN / str(major) / "bin"]
        for folder in folders:
            if all(is_file(folder / name) for name in OLD_PROGRAMS):
                with suppress(PgdynoError):
                    found = find_build(LocalRunner(), folder, self.user)
                    if found.major == major:
                        return found
        raise EnvironmentUnsuitable(
            f"no programs of PostgreSQL {major} were found in {', '.join(map(str, folders))}",
            hint=f"pg_upgrade runs the old server, {', '.join(OLD_PROGRAMS)}: install that version on this host, "
            "or name its folder by old_programs in [mover].",
        )

    @cached_property
    def new_build(self) -> Build:
        """Return the programs of the target's version. Raises EnvironmentUnsuitable where one is missing."""
        folder, major = Path(self.place.program("pg_upgrade")).parent, self.place.target.major
        missing = [name for name in NEW_PROGRAMS if not is_file(folder / name)]
        found = None if missing else find_build(LocalRunner(), folder, self.user)
        if found is None or found.major != major:
            what = f"has no {', '.join(missing)}" if found is None else f"is of PostgreSQL {found.major}"
            raise EnvironmentUnsuitable(
                f'folder "{folder}" {what}',
                hint=f"Install the server of PostgreSQL {major} on this host, or name its folder by programs.",
            )
        return found

    def require_programs(self) -> None:
        """Raise EnvironmentUnsuitable where programs of one version are missing."""
        for build in (self.old_build, self.new_build):
            self.place.tell(f"programs of PostgreSQL {build.version} in {build.bin_dir}")

    @cached_property
    def sockets(self) -> Path:
        """Return the folder of both servers' sockets; it is made when a server starts."""
        return choose_socket_dir(self.place.folder)

    @cached_property
    def source_row(self) -> Mapping[str, object]:
        """Return what the source says of itself. Raises EnvironmentUnsuitable where it has no template0."""
        rows = self.place.source.server.fetch(_SHAPE)
        if not rows:
            raise EnvironmentUnsuitable('the source has no database "template0", which pg_upgrade needs')
        return rows[0]

    @property
    def shape(self) -> ClusterShape:
        """Return what both clusters have alike."""
        row = self.source_row
        return ClusterShape(
            superuser=str(row["superuser"]), encoding=str(row["encoding"]), collation=str(row["collation"]),
            type=str(row["type"]), provider=str(row["provider"]),
            locale=None if row["locale"] is None else str(row["locale"]),
            checksums=row["checksums"] == "on", segment=int(str(row["segment"])),
        )  # fmt: skip

    def as_owner(self) -> Target:
        """Return the source's server as the rooms of replays take a target: whose programs and account copy it."""
        return replace(
            self.place.source.target, runner=LocalRunner(), os_user=self.user, bin_dir=self.new_build.bin_dir
        )

    def run(self, name: str, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> bool:
        """Run a program to its end; False where `halt` ended it. The detail is what it said last, on either channel."""
        try:
            return run_client(self.place, argv, {**self._libraries, **(environment or {})}, name)
        except ProgramFailed as error:
            with suppress(OSError), open_file(self.place.folder / f"log-{name}.out", follow=False) as file:
                said = deque((line.decode(errors="replace").strip() for line in file), maxlen=_LINES)
                told = "; ".join(line for line in (*said, error.detail or "") if line)
                raise ProgramFailed(error.message, detail=redact(told) or None) from error
            raise

    def copy(self) -> bool:
        """Copy the source's files, in place of what a killed run has copied; False where `halt` ended it."""
        self._clear(self.old)
        snapshot = self.place.options.get("snapshot")
        if snapshot:
            return self.run("copy", FileCopy(Path(snapshot)).argv(self.old)) and self._settle()
        source = self.place.source.server
        argv = BaseBackup(source).argv(self.new_build.bin_dir / "pg_basebackup", self.old)
        return self.run("copy", argv, source.environment(whole=self.place.account is not None)) and self._settle()

    def recover(self) -> bool:
        """Let the old version bring the copy to rest: pg_upgrade takes only a cluster that was shut down."""
        self._start(self.old_build, self.old)
        self._control(self.old_build, self.old, "stop", "-m", "fast")
        return True

    def make_new(self, argv: Sequence[str]) -> bool:
        """Run initdb, in place of what a killed run has made; False where `halt` ended it."""
        self._clear(self.new)
        if not self.run("initdb", argv):
            return False
        main = self.new / "postgresql.conf"
        self._put(main, self._hands.read(main).decode() + self._settings)
        return True

    def start_new(self) -> bool:
        """Let the new cluster run, marked as a copy."""
        if not self.upgraded.server.answers():
            self._start(self.new_build, self.new)
        (row,) = self.upgraded.server.fetch("SELECT system_identifier::text AS id FROM pg_catalog.pg_control_system()")
        found = self._hands.look(self.new)
        assert found is not None, "a server runs in it"
        self._put(self.new / MARKER, CopyMarker(str(row["id"]), found.st_dev, found.st_ino).text())
        return True

    @property
    def upgraded(self) -> MigrationSide:
        """Return the new cluster as a side to be validated; it need not run."""
        database, target = self.place.source.database, self.place.target.target
        user = self.shape.superuser
        conninfo = make_conninfo(host=str(self.sockets), port=PORT, user=user, dbname=database)
        name = f"the upgraded copy in {self.new}"
        made = replace(target, name=name, postgres=Postgres(conninfo, name=name), control=None, directory=self.new,
                       os_user=self.user, route=None, no_control="it is a copy of a rehearsal")  # fmt: skip
        return MigrationSide(made, database, self.new_build.version_num)

    def stop(self) -> None:
        """Stop what runs in either folder, whoever started it; idempotent, and nothing fails for it."""
        for folder in (self.old, self.new):
            with suppress(PgdynoError, OSError):
                if self._hands.look(folder / "postmaster.pid") is not None:
                    build = self.old_build if folder == self.old else self.new_build
                    self._control(build, folder, "stop", "-m", "fast")
        with suppress(OSError):
            self.sockets.rmdir()  # it may be a short one, outside of the rehearsal's folder

    def make_sockets(self) -> None:
        """Make the folder of the sockets, or prove that the one that is there is the owner's alone."""
        ensure_socket_dir(self.sockets, self.user)

    def note(self, name: str) -> None:
        """Leave a file that says what was begun."""
        self._put(self.place.folder / name, "")

    def is_noted(self, name: str) -> bool:
        """Tell whether it was."""
        return self._hands.look(self.place.folder / name) is not None

    @property
    def _account(self) -> Account:
        return self.place.account or Account.of_user(os.geteuid())

    @property
    def _hands(self) -> Hands:
        return hands_for(self._account)

    @property
    def _settings(self) -> str:
        return settings_text(self.sockets, self.place.tag, int(str(self.source_row["locks"])))

    @property
    def _libraries(self) -> dict[str, str]:
        """Return what both builds' programs need to find their libraries; pg_upgrade starts those of both."""
        paths = [path for build in (self.new_build, self.old_build) for _, path in build.env]
        return {"LD_LIBRARY_PATH": ":".join(dict.fromkeys(paths))} if paths else {}

    def _settle(self) -> bool:
        """Give the copy a configuration of its own, and let it be no standby."""
        for name, text in (("postgresql.conf", self._settings), ("postgresql.auto.conf", ""), ("pg_hba.conf", HBA)):
            self._put(self.old / name, text)
        for name in ("standby.signal", "recovery.signal"):
            self._hands.remove(self.old / name)
        return True

    def _put(self, path: Path, text: str) -> None:
        self._hands.replace(path, text.encode(), Attributes(self._account.uid, self._account.gid, 0o600))

    def _clear(self, folder: Path) -> None:
        LocalRunner().run(["rm", "-rf", "--", str(folder)], user=self.user, cwd=Path("/"))

    def _start(self, build: Build, folder: Path) -> None:
        self.make_sockets()
        self._control(build, folder, "start", "-l", str(self.place.folder / f"log-server-{folder.name}"))

    def _control(self, build: Build, folder: Path, *words: str) -> None:
        argv = [str(build.bin_dir / "pg_ctl"), "-D", str(folder), "-w", "-t", str(_START_S), *words]
        LocalRunner().run(argv, env={**dict(build.env), "LC_ALL": "C"}, user=self.user, cwd=Path("/"))
