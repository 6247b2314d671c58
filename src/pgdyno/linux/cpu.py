"""CPU time of the server and of the driver: exact by a cgroup of our own where there can be one, else a walk of /proc.

Accounting by /proc races with processes that exit, and costs a read per backend. A cgroup's counter keeps what its
dead members used. Only accounting is wanted, so a group is made where none of its ancestors hands it a CPU controller
by our doing: in the cgroup v2 tree directly below our own group, or in a v1 `cpuacct` tree that is mounted without
`cpu`. Either way the group changes no scheduling.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.linux import processes
from pgdyno.linux.cgroups import CgroupTree, cgroup_trees
from pgdyno.linux.small_files import read_small
from pgdyno.model.facts import Unknown

PREFIX = "pgdyno-"


@dataclass(frozen=True, slots=True)
class CpuGroup:
    """A cgroup that counts the CPU time of every process that was ever in it."""

    version: int
    path: Path

    @classmethod
    def create(cls, label: str) -> CpuGroup | Unknown:
        """Make the group `pgdyno-<label>` below our own, or adopt the one that is there; else say why not.

        `label` holds letters, digits and dashes. Side effect on the host: one cgroup directory, until `remove`.
        """
        reasons = []
        for tree in accounting_trees():
            parent = own_group(tree, "self")
            path = parent / f"{PREFIX}{label}"
            try:
                path.mkdir(exist_ok=True)
                group = cls(tree.version, path)
                group.seconds()
                _check_enterable(path, parent)
            except (OSError, ValueError) as error:
                reasons.append(f"cgroup v{tree.version}: {error}")
                continue
            return group
        return Unknown("; ".join(reasons) or "no cgroup tree that counts CPU is mounted")

    @classmethod
    def holding(cls, pid: int) -> CpuGroup | None:
        """Return the group of ours that this process is in, so that a later session can go on with it."""
        for tree in accounting_trees():
            path = own_group(tree, str(pid))
            if path.name.startswith(PREFIX) and path.is_dir():
                return cls(tree.version, path)
        return None

    @classmethod
    def dedicated(cls, pid: int) -> CpuGroup | None:
        """Return the group that a service manager gave to this postmaster alone, such as its systemd unit's."""
        family = {pid, *(stat.pid for stat in processes.children_of(pid))}
        for tree in accounting_trees():
            path = own_group(tree, str(pid))
            if path in (tree.folder, own_group(tree, "self")):
                continue
            try:
                group, members = cls(tree.version, path), (path / "cgroup.procs").read_text().split()
                group.seconds()
            except (OSError, ValueError):
                continue
            if {int(member) for member in members} <= family:
                return group
        return None

    def holds(self, pid: int, trees: Sequence[CgroupTree] | None = None) -> bool:
        """Tell whether the process is in this very group. `trees` are read again where none are given."""
        every = accounting_trees() if trees is None else trees
        return any(own_group(tree, str(pid)) == self.path for tree in every if tree.version == self.version)

    @property
    def paths(self) -> tuple[Path, ...]:
        """Return the directories that a process must enter, for `Runner.start(cgroups=...)`."""
        return (self.path,)

    def seconds(self) -> float:
        """Return the CPU seconds used so far, user and system. Raises OSError when the group is gone."""
        if self.version == 1:
            return int(read_small(self.path / "cpuacct.usage")) / 1e9
        return _usage_usec(read_small(self.path / "cpu.stat")) / 1e6

    def remove(self) -> bool:
        """Remove the group; False when processes are still in it."""
        try:
            self.path.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True


class ServerCpu:
    """CPU seconds of a server, from before the first moment it is asked; only differences mean something.

    `postmaster` returns the pid, None while the server is down. `group` is the cgroup that the server was started
    in, when there is one. `source` says which way is in use, for the report, `reason` why there may be no
    process to look at.
    """

    def __init__(
        self,
        postmaster: Callable[[], int | None],
        group: CpuGroup | None = None,
        *,
        reason: str = "the server is down",
    ) -> None:
        self._postmaster = postmaster
        self._group = group
        self.reason = reason
        self._known: processes.ProcessStat | None = None
        self._trees: Sequence[CgroupTree] = ()
        self._judged: processes.ProcessStat | None = None
        self._is_in_group = False

    @classmethod
    def unavailable(cls, reason: str) -> ServerCpu:
        """Return one for a server whose processes cannot be seen from here, such as one on another host."""
        return cls(lambda: None, reason=reason)

    def postmaster(self) -> int | None:
        """Return the postmaster's pid, None when it is down or on another host.

        It is looked for once: later, a process of that pid and that start is the same one, as long as it is alive.
        """
        known = self._known
        now = None if known is None else processes.read_stat(known.pid)
        if known is not None and now is not None and not now.has_ended and now.started_ticks == known.started_ticks:
            return known.pid
        pid = self._postmaster()
        self._known = None if pid is None else processes.read_stat(pid)
        self._trees = accounting_trees() if self._group is not None and pid is not None else ()
        return pid

    @property
    def source(self) -> str:
        """Return `cgroup v1`, `cgroup v2` or `proc`, that with the reason where it costs a walk of all of /proc."""
        if self._covers() and self._group is not None:
            return f"cgroup v{self._group.version}"
        pid = self.postmaster()
        is_walk = pid is not None and processes.child_pids(pid) is None
        return f"proc, by every process of the machine: {processes.NO_LISTS}" if is_walk else "proc"

    def seconds(self) -> float | Unknown:
        """Return the CPU seconds used so far, or why they cannot be had.

        By cgroup the figure goes on across restarts; by /proc it starts again with each postmaster.
        """
        if self._covers() and self._group is not None:
            try:
                return self._group.seconds()
            except OSError as error:
                return Unknown(f'cgroup "{self._group.path}" cannot be read: {error.strerror}')
        pid = self.postmaster()
        if pid is None:
            return Unknown(self.reason)
        used = processes.tree_cpu_s(pid)
        return Unknown("the server's processes changed during every reading") if used is None else used

    def _covers(self) -> bool:
        if self._group is None:
            return False
        if self.postmaster() is None or self._known is None:
            return True
        if self._judged != self._known:  # a tick does not ask again of a postmaster that it knows
            self._is_in_group = self._group.holds(self._known.pid, self._trees)
            self._judged = self._known
        return self._is_in_group


def accounting_trees(mountinfo: str | None = None) -> list[CgroupTree]:
    """Return the mounted trees that count CPU without scheduling it, v2 first."""
    text = (processes.PROC / "self/mountinfo").read_text() if mountinfo is None else mountinfo
    found = [tree for tree in cgroup_trees(text) if tree.may_bound("cpuacct") and "cpu" not in tree.controllers]
    return sorted(found, key=lambda tree: -tree.version)


def own_group(tree: CgroupTree, pid: str, text: str | None = None) -> Path:
    """Return the directory of the group that a process is in, the tree's own where that is not shown."""
    try:
        lines = (processes.PROC / pid / "cgroup").read_text() if text is None else text
    except OSError:
        return tree.folder
    return tree.group_of(lines, "cpuacct") or tree.folder


def _check_enterable(path: Path, parent: Path) -> None:
    # Moving a process needs write access to the common ancestor too (kernel: admin-guide/cgroup-v2, delegation).
    for folder in (path, parent):
        if not os.access(folder / "cgroup.procs", os.W_OK):
            path.rmdir()
            raise PermissionError(f'"{folder / "cgroup.procs"}" cannot be written')


def _usage_usec(text: str) -> int:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "usage_usec":
            return int(value)
    raise ValueError("cpu.stat has no usage_usec")
