"""What must be the same afterwards: configuration files to the last bit, settings in force, kernel values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg

_PROC_SYS = ("vm", "kernel/sched_autogroup_enabled", "kernel/shmmax", "kernel/sem")
_VOLATILE = {"stat_refresh", "compact_memory", "drop_caches"}
_THP = Path("/sys/kernel/mm/transparent_hugepage")
_SETTINGS = "SELECT name, setting, source, sourcefile, sourceline, pending_restart FROM pg_settings ORDER BY name"


@dataclass(frozen=True)
class State:
    """Each thing by its name, with what it is."""

    values: Mapping[str, str]

    def differences(self, other: State) -> list[str]:
        """Return a line for each thing that is not the same; a disk that came or went is not a value that changed."""
        names = sorted(self.values.keys() | other.values.keys())
        both = self.values.keys() & other.values.keys()
        names = [name for name in names if name in both or not name.startswith("queue")]
        pairs = ((name, self.values.get(name), other.values.get(name)) for name in names)
        return [f"{name}: was {before}, is {after}" for name, before, after in pairs if before != after]


def state_of(data_directory: Path, folder: Path, *, kernel: bool = True) -> State:
    """Read everything, or without `kernel` what is the server's. The server must answer: its settings are asked for."""
    values = _files(data_directory) | (_kernel() | _block_queues() if kernel else {})
    with connect(folder) as connection:
        for row in connection.execute(_SETTINGS):
            values[f"setting {row[0]}"] = repr(row[1:])
    return State(values)


def connect(folder: Path) -> psycopg.Connection[tuple[object, ...]]:
    """Open a session with the sandbox in this folder. Raises psycopg.OperationalError where it does not answer."""
    where = next(folder.rglob(".s.PGSQL.*[0-9]"), None)
    if where is None:
        raise psycopg.OperationalError(f"no socket below {folder}")
    return psycopg.connect(f"host={where.parent} port={where.name.split('.')[3]} user=postgres dbname=postgres")


def _files(data_directory: Path) -> dict[str, str]:
    found = {}
    for path in sorted(data_directory.iterdir()):
        if ".conf" in path.name or "pgdyno" in path.name:
            status = path.stat()
            digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
            # The sandbox writes its own file anew whenever its server is started.
            written = 0 if path.name == "pgdyno-sandbox.conf" else status.st_mtime_ns
            found[f"file {path.name}"] = f"{digest} {written} {status.st_uid} {status.st_mode:o}"
    return found


def _kernel() -> dict[str, str]:
    found = {}
    for part in _PROC_SYS:
        root = Path("/proc/sys") / part
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if path.name not in _VOLATILE and path.is_file():
                found[f"kernel {path}"] = _text(path)
    for path in (_THP / "enabled", _THP / "defrag"):
        found[f"kernel {path}"] = _text(path)
    return found


def _block_queues() -> dict[str, str]:
    names = ("scheduler", "read_ahead_kb", "nr_requests", "rq_affinity")
    paths = [path for name in names for path in sorted(Path("/sys/block").glob(f"*/queue/{name}"))]
    return {f"queue {path}": _text(path) for path in paths}


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        return f"unreadable: {error.strerror}"
