"""Who holds a SQLite file, as the kernel's list of locks says.

SQLite locks bytes of the file, or in write-ahead mode of its `-shm` file, with fcntl(2), and `/proc/locks` names the
process of each lock by its number and the file by its inode (proc(5)). A lock that no other process waits for in vain
is shared, so only write locks count.
"""

from __future__ import annotations

import os
from pathlib import Path

_LOCKS, _PROC = Path("/proc/locks"), Path("/proc")


def holder_text(path: str) -> str | None:
    """Return the processes other than ours that hold a SQLite file for writing, as words; None when it is unknown."""
    named = []
    for pid in _holders(path):
        try:
            command = (_PROC / str(pid) / "comm").read_text().strip()
        except OSError:
            command = ""
        named.append(f"process {pid} ({command})" if command.isprintable() and command else f"process {pid}")
    return ", ".join(named) or None


def _holders(path: str) -> list[int]:
    inodes = set()
    for name in (path, f"{path}-shm"):
        try:
            inodes.add(Path(name).stat().st_ino)
        except (OSError, ValueError):
            continue
    try:
        text = _LOCKS.read_text()
    except OSError:
        return []
    found = {pid for pid, inode in parse_locks(text) if inode in inodes and pid != os.getpid()}
    return sorted(pid for pid in found if _has_open(pid, path))


def parse_locks(text: str) -> list[tuple[int, int]]:
    """Return process and inode of each write lock of `/proc/locks`; of locks of another namespace there is no process.

    `1: POSIX  ADVISORY  WRITE 3568 fd:00:2531452 120 120`; a line with `->` is of one who waits.
    """
    found = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 6 or fields[1] == "->" or fields[3] != "WRITE":
            continue
        inode = fields[5].rpartition(":")[2]
        if fields[4].isdecimal() and inode.isdecimal() and int(fields[4]) > 0:
            found.append((int(fields[4]), int(inode)))
    return found


def _has_open(pid: int, path: str) -> bool:
    """Tell whether a process has the file open, as far as we may see: another file system has the same inodes."""
    try:
        opened = [str(entry.readlink()) for entry in (_PROC / str(pid) / "fd").iterdir()]
    except OSError:
        return True
    return any(name.startswith(os.path.realpath(path)) for name in opened)
