"""The mounted cgroup trees of both versions, and the groups of a process in them (cgroups(7)). Pure but for limits.

`cgroups` is everywhere the text of /proc/PID/cgroup, `mountinfo` that of /proc/self/mountinfo.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pgdyno.linux.mountinfo import mount_lines
from pgdyno.linux.small_files import read_leniently


@dataclass(frozen=True, slots=True)
class CgroupTree:
    """A mounted tree: `version` 1 or 2, its folder, the path inside that the folder shows, version 1's controllers."""

    version: int
    folder: Path
    shown: str
    controllers: frozenset[str] = frozenset()

    def may_bound(self, controller: str) -> bool:
        """Tell whether groups of this tree can have the controller; which ones do their files tell in version 2."""
        return self.version == 2 or controller in self.controllers

    def group_of(self, cgroups: str, controller: str) -> Path | None:
        """Return the folder of the process's group, the tree's own where the text names none.

        None for a group outside of what this mount shows.
        """
        path = path_of(cgroups, "" if self.version == 2 else controller)
        relative = os.path.relpath(path or self.shown, self.shown)
        return None if Path(relative).parts[:1] == ("..",) else self.folder / relative

    def upwards(self, group: Path) -> list[Path]:
        """Return a group's folder and those around it, the tree's own last."""
        return [group, *(part for part in group.parents if part.is_relative_to(self.folder))]


@lru_cache(maxsize=4)
def cgroup_trees(mountinfo: str) -> tuple[CgroupTree, ...]:
    """Return the mounted trees in the order of mounting; kept by the text, as the lines are."""
    return tuple(
        CgroupTree(2, Path(mount.point), mount.shown)
        if mount.kind == "cgroup2"
        else CgroupTree(1, Path(mount.point), mount.shown, frozenset(mount.of_filesystem))
        for mount in mount_lines(mountinfo)
        if mount.kind in ("cgroup", "cgroup2")
    )


def path_of(cgroups: str, controller: str) -> str | None:
    """Return a process's group in the tree of a controller of version 1; "" is the tree of version 2."""
    for line in filter(None, cgroups.split("\n")):  # not splitlines: who makes a group may put others' ends in its name
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path
    return None


def group_folders(cgroups: str, mountinfo: str, controller: str) -> list[Path]:
    """Return the folders of a process's groups that a controller may bound, nearest group first."""
    return [folder for _, folder in _groups(cgroups, mountinfo, controller)]


def memory_limits(cgroups: str, mountinfo: str, read: Mapping[Path, str] | None = None) -> list[int]:
    """Return every memory limit on the way up from a process's group, v1 and v2; see `group_limits`."""
    return group_limits(cgroups, mountinfo, "memory", "memory.max", "memory.limit_in_bytes", read)


def group_limits(
    cgroups: str, mountinfo: str, controller: str, file_v2: str, file_v1: str, read: Mapping[Path, str] | None = None
) -> list[int]:
    """Return the numbers in a controller's file on the way up from a process's group, nearest group first.

    `cgroups` is the text of /proc/PID/cgroup, `mountinfo` that of /proc/self/mountinfo. The file is called `file_v2` in
    a tree of version 2 and `file_v1` in one of version 1; the numbers are in its unit, such as bytes or processes, and
    `max` adds none. `read` takes the place of the file system: texts by path; None reads the files.
    """
    limits = []
    for version, folder in _groups(cgroups, mountinfo, controller):
        path = folder / (file_v2 if version == 2 else file_v1)
        text = read_leniently(path) if read is None else read.get(path)
        if text is not None and text.strip().isdigit():
            limits.append(int(text))
    return limits


def _groups(cgroups: str, mountinfo: str, controller: str) -> Iterator[tuple[int, Path]]:
    for tree in cgroup_trees(mountinfo):
        if tree.may_bound(controller):
            # Of a group outside of what the mount shows the tree's own bounds hold all the same.
            group = tree.group_of(cgroups, controller) or tree.folder
            yield from ((tree.version, folder) for folder in tree.upwards(group))
