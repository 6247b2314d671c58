"""What must be the same afterwards: configuration files to the last bit, settings in force, kernel values, the process.

Read with nothing of the product's code, so that a mistake in it cannot hide itself here.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg
from bounded import head
from kernel_values import kernel_values

_PROC = Path("/proc")
_SHOWN = 120
_STATUS = ("Uid", "Gid", "Groups", "Umask", "SigIgn", "SigBlk", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp")
_OF_PG_CTL = {"PG_GRANDPARENT_PID"}
"""What pg_ctl itself puts into the environment, another value at each start."""
_SETTINGS = "SELECT name, setting, source, sourcefile, sourceline, pending_restart FROM pg_settings ORDER BY name"


@dataclass(frozen=True)
class State:
    """Each thing by its name, with what it is."""

    values: Mapping[str, str]

    def differences(self, other: State) -> list[str]:
        """Return a line for each thing that is not the same; a disk that came or went is not a value that changed."""
        names = sorted(self.values.keys() | other.values.keys())
        both = self.values.keys() & other.values.keys()
        names = [name for name in names if name in both or not name.startswith("kernel /sys/block")]
        pairs = ((name, self.values.get(name), other.values.get(name)) for name in names)
        return [_difference(*each) for each in pairs if each[1] != each[2]]


def _difference(name: str, before: str | None, after: str | None) -> str:
    """Return what it was and is, of long texts from a little before the first place that differs."""
    if before is None or after is None:
        return f"{name}: was {str(before)[:_SHOWN]}, is {str(after)[:_SHOWN]}"
    same = next((at for at, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), 0)
    begin = max(0, same - 20)
    return f"{name}: was {'...' * (begin > 0)}{before[begin:][:_SHOWN]}, is {after[begin:][:_SHOWN]}"


def state_of(data_directory: Path, folder: Path, *, kernel: bool = True) -> State:
    """Read everything, or without `kernel` what is the server's. The server must answer: its settings are asked for."""
    values = _files(data_directory) | process_of(data_directory) | (_kernel() if kernel else {})
    with connect(folder) as connection:
        for row in connection.execute(_SETTINGS):
            values[f"setting {row[0]}"] = repr(row[1:])
    return State(values)


def postmaster_of(data_directory: Path) -> int | None:
    """Return the number of the live process that postmaster.pid names and that works there, None without one."""
    try:
        pid = int(head(data_directory / "postmaster.pid").split(b"\n", 1)[0])
        runs = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        return pid if runs and (_PROC / str(pid) / "cwd").samefile(data_directory) else None
    except (OSError, ValueError):
        return None


def process_of(data_directory: Path) -> dict[str, str]:
    """Return what the postmaster is as a process: environment, limits, priority, rights, places."""
    pid = postmaster_of(data_directory)
    if pid is None:
        return {"process": "down"}
    folder = _PROC / str(pid)
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    found = {"nice": fields[16], "realtime priority": fields[37], "policy": fields[38]}
    found["affinity"] = ",".join(map(str, sorted(os.sched_getaffinity(pid))))
    found["working directory"] = str((folder / "cwd").readlink())
    found["program"] = str((folder / "exe").readlink())
    found["command line"] = repr((folder / "cmdline").read_bytes().rstrip(b"\0"))
    found["oom_score_adj"] = _text(folder / "oom_score_adj")
    found["session"] = "its own" if fields[3] == fields[2] else "another's"
    for line in _text(folder / "cgroup").splitlines():
        _, controllers, place = line.split(":", 2)
        found[f"cgroup {controllers}"] = place
    for line in _text(folder / "limits").splitlines()[1:]:
        name, *values = re.split(r"  +", line.strip())
        found[f"limit {name}"] = " ".join(values)
    status = dict(line.partition(":")[::2] for line in _text(folder / "status").splitlines())
    found |= {f"status {name}": status[name].strip() for name in _STATUS if name in status}
    for item in (folder / "environ").read_bytes().split(b"\0"):
        name, _, value = item.decode(errors="backslashreplace").partition("=")
        if name and name not in _OF_PG_CTL:
            found[f"variable {name}"] = hashlib.sha256(value.encode()).hexdigest()[:8]  # it may be a secret
    return {f"process {name}": value for name, value in found.items()}


def told_of(secret: bytes, data_directory: Path) -> list[str]:
    """Return which processes of a server have a word in their environment: what it inherited, children can read."""
    pid = postmaster_of(data_directory)
    if pid is None:
        return []
    found = []
    for other in [pid, *children_of(pid)]:
        try:
            if secret in (_PROC / str(other) / "environ").read_bytes():
                found.append(f"secret: {_command(other)} has a variable of the tuner's")
        except OSError:
            continue
    return found


def children_of(pid: int) -> list[int]:
    """Return the direct children of a process."""
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            if parent == pid:
                found.append(int(entry.name))
    return found


def running_with(*words: str) -> dict[int, str]:
    """Return the live processes in whose argument list all of these words are, with that list."""
    found = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            command = _command(int(entry.name))
            if all(word in command for word in words):
                found[int(entry.name)] = command
    return found


def end_watchdogs(folder: Path) -> None:
    """End those that watch over a session of this folder: they try for a day, and what they watch is gone before."""
    while found := running_with("pgdyno.undo.watchdog", str(folder)):  # each of a pair starts the other again
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


def _command(pid: int) -> str:
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


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
            digest = hashlib.sha256(head(path)).hexdigest()[:16]
            # The sandbox writes its own file anew whenever its server is started.
            # The server writes postgresql.auto.conf itself, when a line of it is put back.
            written = 0 if path.name in ("pgdyno-sandbox.conf", "postgresql.auto.conf") else status.st_mtime_ns
            found[f"file {path.name}"] = f"{digest} {written} {status.st_uid} {status.st_mode:o}"
    return found


def _kernel() -> dict[str, str]:
    return {f"kernel {path}": text for path, text in kernel_values().items()}


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        return f"unreadable: {error.strerror}"
