"""The processes of a server, read from /proc: the postmaster, its children, and the CPU time that they used."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pgdyno.linux.small_files import read_small_bytes

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_UIDS = re.compile(rb"^Uid:\s+\d+\s+(\d+)", re.MULTILINE)
NO_LISTS = "this kernel has no lists of children (CONFIG_PROC_CHILDREN)"
_NUMBER = re.compile(r"[0-9]{1,10}")
_HUGE = re.compile(rb"^HugetlbPages:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """Some fields of `/proc/PID/stat` (proc(5)). Times in clock ticks; `reaped` is that of waited-for children."""

    pid: int
    command: str
    state: str
    parent: int
    own_ticks: int
    reaped_ticks: int
    started_ticks: int

    @property
    def has_ended(self) -> bool:
        """Tell a process that is gone and waits to be reaped."""
        return self.state in ("Z", "X")


def parse_stat(text: str) -> ProcessStat:
    """Read one line of `/proc/PID/stat`; the command may hold spaces and parentheses."""
    head, _, tail = text.rpartition(")")
    pid, _, command = head.partition("(")
    fields = tail.split()
    utime, stime, cutime, cstime = (int(field) for field in fields[11:15])
    return ProcessStat(
        pid=int(pid),
        command=command,
        state=fields[0],
        parent=int(fields[1]),
        own_ticks=utime + stime,
        reaped_ticks=cutime + cstime,
        started_ticks=int(fields[19]),
    )


def read_stat(pid: int, proc: Path = PROC) -> ProcessStat | None:
    """Return the process's numbers, or None when it is gone."""
    try:
        return parse_stat(read_small_bytes(f"{proc}/{pid}/stat").decode(errors="surrogateescape"))
    except (FileNotFoundError, ProcessLookupError):
        return None


def all_pids(proc: Path = PROC) -> list[int]:
    """Return the pids of this machine, in order."""
    with os.scandir(proc) as entries:
        return sorted(int(entry.name) for entry in entries if entry.name.isdigit())


def children_of(pid: int, proc: Path = PROC) -> list[ProcessStat]:
    """Return the direct children that are alive or not yet reaped, in order of pid.

    Reads them alone where the kernel lists them, else every process of this machine (`NO_LISTS`).
    """
    listed = child_pids(pid, proc)
    stats = (read_stat(other, proc) for other in (all_pids(proc) if listed is None else listed))
    return [stat for stat in stats if stat is not None and stat.parent == pid]


def child_pids(pid: int, proc: Path = PROC) -> list[int] | None:
    """Return the pids of the direct children in order, empty when the process is gone; None where none are listed.

    `/proc/PID/task/TID/children` (proc(5)): one file for each thread, of what that thread started.
    """
    tasks = proc / str(pid) / "task"
    try:
        words = [word for task in tasks.iterdir() for word in read_small_bytes(f"{task}/children").split()]
    except (FileNotFoundError, ProcessLookupError):
        return [] if not tasks.exists() or _has_lists(proc) else None
    return sorted(map(int, words))


def _has_lists(proc: Path) -> bool:
    return (proc / "self" / "task" / str(os.getpid()) / "children").exists()


def alive(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and waits to be reaped does not."""
    stat = read_stat(pid)
    return stat is not None and not stat.has_ended


def number_in(text: str) -> int | None:
    """Return the number of a process or a port that a file of somebody else's holds, None for whatever else it is."""
    found = _NUMBER.fullmatch(text.strip())
    return None if found is None else int(found[0])


def command_words(pid: int) -> list[bytes]:
    """Return the words of a process's command line, an empty one last. Raises OSError when it is gone."""
    return read_small_bytes(f"{PROC}/{pid}/cmdline").split(b"\0")


def account_of(pid: int, proc: Path = PROC) -> int | None:
    """Return the effective user id that a process runs with, None when it is gone."""
    try:
        status = read_small_bytes(f"{proc}/{pid}/status")  # of every process in turn; any account gives it any name
    except OSError:
        return None
    found = _UIDS.search(status)
    return None if found is None else int(found[1])


def processes_in(data_directory: Path) -> list[int]:
    """Return the pids of the owner's processes whose working directory this is: backends that outlive a postmaster.

    Raises OSError when the directory cannot be seen.
    """
    found = []
    owner = data_directory.stat().st_uid
    for pid in all_pids():
        try:
            if account_of(pid) == owner and alive(pid) and (PROC / str(pid) / "cwd").samefile(data_directory):
                found.append(pid)
        except OSError:
            continue
    return found


def tree_cpu_s(pid: int, *, tries: int = 5, stats: Callable[[int], list[ProcessStat]] | None = None) -> float | None:
    """Return the CPU seconds of a postmaster, its children and those that it has reaped; None when it is gone.

    A child that exits while we read would be counted live and again through its parent, or not at all, so the pids are
    listed before the numbers are read, and all is done again until both find the same pids. The reading of the parent
    lies between the two scans of the children, and so does not miss one that was reaped before the first. Resolution:
    one clock tick (10 ms) a process.
    """
    read = stats or _postmaster_and_children
    listed = child_pids(pid) if stats is None else None
    before = {stat.pid for stat in read(pid)} if listed is None else {pid, *listed}
    for _ in range(tries):
        after = read(pid)
        if not after:
            return None
        found = {stat.pid for stat in after}
        if before == found:
            return sum(stat.own_ticks + stat.reaped_ticks for stat in after) / TICKS_PER_S
        before = found
    return None


def _postmaster_and_children(pid: int) -> list[ProcessStat]:
    stat = read_stat(pid)
    return [] if stat is None else [stat, *children_of(pid)]


def huge_pages_mapped(pid: int) -> bool | None:
    """Tell whether a process has touched huge pages of the kernel's pool; None when the kernel does not say.

    Every user may read that, where the mappings themselves are for root and the owner. A postmaster touches its
    shared memory when it sets it up.
    """
    try:
        found = _HUGE.search(read_small_bytes(f"{PROC}/{pid}/status"))
    except OSError:
        return None
    return None if found is None else int(found[1]) > 0
