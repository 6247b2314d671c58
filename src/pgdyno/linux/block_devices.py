"""Which block devices lie below the data directory and the log: from the mount down to the disks. Reads /sys only.

Read-ahead is a matter of the device that the file system is mounted from, the scheduler one of the disks below it
(device mapper and md have none of their own). A partition has neither: its disk's queue counts. Standard library only.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pgdyno.linux.kernel_tree import LIVE, Tree

DeviceNumber = Callable[[Path], tuple[int, int]]
SWAP_FOLDER = Path("/var/lib/pgdyno")
"""Root's own: a swap file beside the data directory would lie where the server's account can put something else."""


@dataclass(frozen=True, slots=True)
class KernelPlaces:
    """Where the block knobs of one server apply, by the kernel's names of devices.

    `mounted` are the devices below data directory and log, `disks` those at the bottom. `problem` says why they are
    unknown; both are empty then. `swap_file` is where a swap file may be made, None when that is unknown. `postmaster`
    is the server's process, for bounds around it; None where nobody looked.
    """

    mounted: tuple[str, ...] = ()
    disks: tuple[str, ...] = ()
    problem: str | None = None
    swap_file: str | None = None
    postmaster: int | None = None
    digest: str = ""
    """Names the server's data directory in few letters."""


def nowhere(problem: str) -> KernelPlaces:
    """Return the places of a server whose devices cannot be known."""
    return KernelPlaces(problem=problem)


def find_places(data_directory: Path, *, tree: Tree = LIVE, device_number: DeviceNumber | None = None) -> KernelPlaces:
    """Return the devices below a data directory and its `pg_wal`, which may be a link to another disk.

    Never raises: what cannot be found out is the `problem`.
    """
    number = device_number or number_of
    digest = hashlib.sha256(os.fsencode(data_directory)).hexdigest()[:10]
    swap_file = str(SWAP_FOLDER / f"{digest}.swap")
    mounted: list[str] = []
    log = data_directory / "pg_wal"
    try:
        for folder in (data_directory, *([log] if log.exists() else [])):
            device = _device(*number(folder), tree)
            if device is None:
                problem = f'the file system of "{folder}" is not on one block device'
                return KernelPlaces(problem=problem, swap_file=swap_file, digest=digest)
            mounted.append(device)
    except OSError as error:
        problem = f'"{error.filename or data_directory}": {(error.strerror or str(error)).lower()}'
        return KernelPlaces(problem=problem, digest=digest)
    disks = [disk for device in mounted for disk in disks_below(device, tree)]
    return KernelPlaces(tuple(dict.fromkeys(mounted)), tuple(dict.fromkeys(disks)), swap_file=swap_file, digest=digest)


def number_of(folder: Path) -> tuple[int, int]:
    """Return major and minor number of the device of a folder; links are followed."""
    device = folder.stat().st_dev
    return os.major(device), os.minor(device)


def disks_below(device: str, tree: Tree = LIVE) -> list[str]:
    """Return the disks below a device mapper, md or LVM device, in order; a disk is below itself."""
    slaves = tree.names(f"/sys/block/{device}/slaves")
    found = [disk for name in slaves for disk in disks_below(_whole(name, tree), tree)]
    return list(dict.fromkeys(found)) or [device]


def _device(major: int, minor: int, tree: Tree) -> str | None:
    path = f"/sys/dev/block/{major}:{minor}"
    return _of_folder(tree.resolved(path), tree) if tree.exists(path) else None


def _whole(name: str, tree: Tree) -> str:
    """Return the disk of a partition, else the device itself."""
    return _of_folder(tree.resolved(f"/sys/class/block/{name}"), tree)


def _of_folder(folder: str, tree: Tree) -> str:
    place = Path(folder)
    return place.parent.name if tree.exists(f"{folder}/partition") else place.name
