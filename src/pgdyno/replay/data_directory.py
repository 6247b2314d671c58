"""A data directory in the place of the target's: got while the server runs, exchanged while it is down, marked.

The directory itself, and whatever is not PostgreSQL's data (configuration, certificates, logs), stays the target's, so
that its settings are the same before and after. All of it is done by programs with the rights of the directory's owner.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pgdyno.control import control_record
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.owner.hands import hands_of
from pgdyno.replay import exchange
from pgdyno.replay.copy_proof import ReplayTarget
from pgdyno.replay.exchange import REPLACED, STAGED, ExchangeRecord
from pgdyno.replay.started import await_sessions, restarted_cache
from pgdyno.replay.tablespaces import PLACES, lead_inside
from pgdyno.targets.target import Target
from pgdyno.units import bytes_text

PREWARM_LIST = "autoprewarm.blocks"
_DATA = frozenset(
    {"base", "global", "PG_VERSION", "backup_label", "tablespace_map", PREWARM_LIST, *PLACES}
    | {
        f"pg_{name}"
        for name in (
            "commit_ts", "dynshmem", "logical", "multixact", "notify", "replslot", "serial", "snapshots", "stat",
            "stat_tmp", "subtrans", "tblspc", "twophase", "wal", "xact",
        )
    }
)  # fmt: skip
_SPARE = 1.05


class DirectorySource(Protocol):
    """Where a data directory comes from."""

    @property
    def words(self) -> str:
        """Return what it is."""

    def bytes_needed(self, target: Target) -> int:
        """Return how large it is, once it is one that can be had. Raises EnvironmentUnsuitable otherwise."""

    def fetch(self, target: Target, folder: Path) -> None:
        """Put it into a folder that is not there yet, with the rights of the target's owner."""


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """A restore by exchanging the files."""

    source: DirectorySource

    @property
    def words(self) -> str:
        """Return where the files come from."""
        return self.source.words

    @property
    def databases(self) -> None:
        """Return that all come back."""
        return

    def check(self, target: Target, known: ReplayTarget) -> None:
        """Refuse a directory that is not marked as a copy or has its WAL elsewhere, what cannot be had, a full disk."""
        directory = _directory_of(target)
        if not (known.disposable or known.is_marked):
            raise EnvironmentUnsuitable(
                f'the files of "{target.name}" are not replaced: nothing marks them as those of a copy',
                hint="Mark it with pgdyno replay --mark-copy, which proves beforehand that it is not the source.",
            )
        if target.control is None:
            raise EnvironmentUnsuitable(
                f"pgdyno does not know how to stop and start {target.name}",
                hint='Give --restart-command "ARGV ...", or --restore command:ARGV.',
            )
        hands = hands_of(directory)
        wal = hands.look(directory / "pg_wal")
        if wal is not None and stat.S_ISLNK(wal.st_mode):
            raise EnvironmentUnsuitable(
                f'the WAL of "{target.name}" lies outside of its data directory, and a restore would put it inside',
                detail="Runs would not be those of its disks.",
                hint="Restore by --restore template:DATABASE=NAME, or by a program of yours: --restore command:ARGV.",
            )
        needed = round(_SPARE * self.source.bytes_needed(target))
        names = hands.names(directory)
        filesystem = os.statvfs(directory)
        free = filesystem.f_bavail * filesystem.f_frsize
        if needed > free and not {STAGED, REPLACED} & set(names):  # what a kill left goes before
            raise EnvironmentUnsuitable(
                f"{self.words} needs {bytes_text(needed)} beside the files that are there, {bytes_text(free)} are free",
                hint="Free some space, or restore by --restore template:DATABASE or command:ARGV.",
            )

    def restore(self, target: Target, known: ReplayTarget) -> str:
        """Get the files, stop the server, exchange them, mark the directory, start it. See `Restore.restore`."""
        directory, control = _directory_of(target), target.control
        assert control is not None, "checked before"
        staged, replaced = directory / STAGED, directory / REPLACED
        _as_owner(target, "rm", "-rf", "--", str(staged), str(replaced))
        try:
            self.source.fetch(target, staged)
            lead_inside(target, staged, directory)
        except BaseException:
            _as_owner(target, "rm", "-rf", "--", str(staged))
            raise
        hands = hands_of(directory)
        got, there = (_DATA.intersection(hands.names(folder)) for folder in (staged, directory))
        if not {"base", "global", "PG_VERSION"} <= got:
            raise EnvironmentUnsuitable(f"{self.words} is no whole data directory")
        listed = _blocks_listed(hands.read(staged / PREWARM_LIST, at_most=100)) if PREWARM_LIST in got else None
        how = control_record.to_record(control)
        assert how is not None, "there is a control"
        record = ExchangeRecord(
            str(directory), target.name, tuple(sorted(there)), tuple(sorted(got)), target.os_user, how
        )
        kept = exchange.keep(record)
        try:
            control.stop()
        except BaseException:
            kept.unlink()  # nothing was moved
            raise
        exchange.finish(record, kept, control, hands, target.runner)
        await_sessions(target.postgres)
        return restarted_cache(target.postgres, listed)


def _blocks_listed(head: bytes) -> int | None:
    """Return the number in the first line of a list of pages, `<<N>>`."""
    first = head.partition(b"\n")[0].strip(b"<>")
    return int(first) if first.isdigit() else None


def _directory_of(target: Target) -> Path:
    if target.directory is None or target.remote is not None:
        raise EnvironmentUnsuitable(
            f'the data directory of "{target.name}" cannot be reached',
            hint="Run pgdyno on its host, as root or as the owner of the directory, or use --restore command:ARGV.",
        )
    return target.directory


def _as_owner(target: Target, *argv: str) -> None:
    target.runner.run(argv, user=target.os_user, cwd=Path("/"))
