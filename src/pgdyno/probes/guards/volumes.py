"""Free space where the server writes: the data directory, pg_wal, and what temporary files hold now."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pgdyno.model.guard import Absent


@dataclass(frozen=True, slots=True)
class Volume:
    """Bytes free for an ordinary user, of how many, on the file system of `path`."""

    free: int
    size: int
    path: Path


@dataclass(frozen=True, slots=True)
class VolumesReading:
    """The volumes at one moment. `temp_bytes` is the size of the temporary files that exist now."""

    data: Volume
    wal: Volume | Absent
    temp_bytes: int


def read_volumes(data_directory: Path) -> VolumesReading:
    """Read now. Raises OSError for what cannot be read. pg_wal may be a symbolic link to another file system."""
    wal = data_directory / "pg_wal"
    shared = data_directory.stat().st_dev == wal.stat().st_dev
    return VolumesReading(
        data=volume_of(data_directory),
        wal=Absent("pg_wal is on the data volume, which guard disk watches") if shared else volume_of(wal),
        temp_bytes=_size_of(f"{data_directory}/base/pgsql_tmp"),
    )


def volume_of(path: Path) -> Volume:
    """Return the space of the file system that a path is on, as an ordinary user has it. Raises OSError."""
    system = os.statvfs(path)
    return Volume(system.f_bavail * system.f_frsize, system.f_blocks * system.f_frsize, path)


def _size_of(folder: str) -> int:
    """Return the bytes of all files below; those of parallel sorts are in folders of their own (*.fileset)."""
    total = 0
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:  # made with the first temporary file, and a fileset goes with its query
        return 0
    for entry in entries:
        try:
            total += _size_of(entry.path) if entry.is_dir() else entry.stat().st_size
        except FileNotFoundError:
            continue
    return total
