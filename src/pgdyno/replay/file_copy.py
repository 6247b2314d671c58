"""A data directory that was put aside: copied file by file, without taking room where the file system can share it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.replay.tablespaces import linked, require_inside
from pgdyno.targets.target import Target


@dataclass(frozen=True, slots=True)
class FileCopy:
    """The directory of a server that is down, on this host; its files are readable by the target's owner."""

    snapshot: Path

    @classmethod
    def of(cls, subject: str) -> FileCopy:
        """Return the copy of a folder. Raises UsageError on a relative path."""
        path = Path(subject)
        if not path.is_absolute():
            raise UsageError(f'"{subject}" is not the whole path of a data directory')
        return cls(path)

    @property
    def words(self) -> str:
        """Return what is copied."""
        return f"a copy of {self.snapshot}"

    def bytes_needed(self, target: Target) -> int:
        """Return the size of the files. Refuses another version, a running server, and files that lie elsewhere."""
        run, user = target.runner.run, target.os_user
        found = run(["cat", "--", str(self.snapshot / "PG_VERSION")], user=user, cwd=Path("/"), check=False)
        if found.returncode != 0:
            raise EnvironmentUnsuitable(
                f'"{self.snapshot}" is no data directory that {user or "we"} can read',
                detail=found.stderr.strip() or None,
                hint="Let the owner of the target's files own the copy as well.",
            )
        (row,) = target.postgres.fetch("SELECT current_setting('server_version_num')::int / 10000 AS major")
        if found.stdout.strip() != str(row["major"]):
            raise EnvironmentUnsuitable(
                f'"{self.snapshot}" is of PostgreSQL {found.stdout.strip()[:20]}, and {target.name} of {row["major"]}',
                hint="Use a copy of the same version.",
            )
        if run(["test", "-L", str(self.snapshot / "pg_wal")], user=user, cwd=Path("/"), check=False).returncode == 0:
            raise EnvironmentUnsuitable(
                f'"{self.snapshot / "pg_wal"}" leads out of the copy: the target would work on the files of another '
                "server",
                hint="Use a copy with its WAL inside.",
            )
        require_inside(target, linked(target, self.snapshot), self.snapshot)
        if (
            run(["test", "-e", str(self.snapshot / "postmaster.pid")], user=user, cwd=Path("/"), check=False).returncode
            == 0
        ):
            raise EnvironmentUnsuitable(
                f'a server runs in "{self.snapshot}", or was killed there: its files are not consistent',
                hint="Stop it first (pg_ctl stop), or take a base backup: --restore basebackup:CONNINFO.",
            )
        return int(run(["du", "-sb", "--", str(self.snapshot)], user=user, cwd=Path("/")).stdout.split()[0])

    def fetch(self, target: Target, folder: Path) -> None:
        """Copy the files; see `DirectorySource.fetch`."""
        target.runner.run(self.argv(folder), user=target.os_user, cwd=Path("/"))

    def argv(self, folder: Path) -> list[str]:
        """Return the words of the copy."""
        return ["cp", "-a", "--reflink=auto", "--no-target-directory", "--", str(self.snapshot), str(folder)]
