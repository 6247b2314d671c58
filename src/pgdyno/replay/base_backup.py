"""A base backup of a server that keeps the state: a copy that nobody loads, made when the capture began."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.owner.inherited import ProgramKind
from pgdyno.replay.tablespaces import Tablespace, mappings, tablespaces_of
from pgdyno.server.postgres import Postgres
from pgdyno.targets.target import Target


@dataclass(frozen=True, slots=True)
class BaseBackup:
    """A server that pg_basebackup can connect to; its state is taken at each restore."""

    keeper: Postgres

    @classmethod
    def of(cls, subject: str) -> BaseBackup:
        """Return the backup of the server that a conninfo names. Raises ConnectError on a malformed one."""
        return cls(Postgres(subject))

    @property
    def words(self) -> str:
        """Return whose backup it is; no secret is in it."""
        return f"pg_basebackup of {self.keeper.label}"

    def bytes_needed(self, target: Target) -> int:
        """Return the size of all its databases. Raises ConnectError where it does not answer."""
        query = "SELECT sum(pg_database_size(oid))::bigint AS bytes FROM pg_database"
        (row,) = self.keeper.fetch(query)
        return int(str(row["bytes"]))

    def fetch(self, target: Target, folder: Path) -> None:
        """Run pg_basebackup with the WAL that it needs; see `DirectorySource.fetch`."""
        environment = self.keeper.environment(whole=target.os_user is not None)
        words = self.argv(target.program("pg_basebackup"), folder, tablespaces_of(self.keeper))
        target.runner.run(words, env=environment, user=target.os_user, cwd=Path("/"), kind=ProgramKind.CLIENT)

    def argv(self, program: Path, folder: Path, tablespaces: Sequence[Tablespace] = ()) -> list[str]:
        """Return the words of pg_basebackup; how it connects is in its environment."""
        words = [str(program), "-D", str(folder), "-X", "stream", "-c", "fast", "--no-sync", "-w"]
        return words + [f"--tablespace-mapping={pair}" for pair in mappings(tablespaces, folder)]
