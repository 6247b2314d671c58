"""Read block devices, network interfaces and cgroup limits from sysfs. Reads only; standard library only."""

from __future__ import annotations

import os
from pathlib import Path

from pgdyno.linux.cgroups import group_folders
from pgdyno.linux.kernel_tree import LIVE, Tree

_BLOCK = "sys/class/block"
BLOCK_FILES = (
    "dev",
    "size",
    "partition",
    "dm/name",
    "dm/uuid",
    "md/level",
    "loop/backing_file",
    "device/model",
    "device/vendor",
    "queue/scheduler",
    "queue/read_ahead_kb",
    "queue/rotational",
    "queue/logical_block_size",
    "queue/physical_block_size",
)
_NET = "sys/class/net"
NET_FILES = ("speed", "mtu", "operstate", "phys_port_name", "phys_port_id", "phys_switch_id", "device/card_type")
NET_LINKS = ("device", "device/driver", "device/physfn")
_LIMITS = {
    "memory": (
        *("memory.max", "memory.high", "memory.current", "memory.stat", "memory.events"),
        *("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.oom_control"),
    ),
    "cpu": ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"),
    "cpuset": ("cpuset.cpus.effective", "cpuset.effective_cpus"),
}


LIMITS = tuple(name for names in _LIMITS.values() for name in names)
"""Files of a cgroup that bound what is in it."""


def read_block_devices(tree: Tree = LIVE) -> dict[str, str]:
    """Return what sysfs says of every block device and partition, with what lies below each (`slaves.list`)."""
    texts: dict[str, str] = {}
    for name in tree.names(f"/{_BLOCK}"):
        base = f"{_BLOCK}/{name}"
        texts[f"{base}.link"] = tree.resolved(f"/{base}") + "\n"
        texts[f"{base}/slaves.list"] = "".join(f"{below}\n" for below in tree.names(f"/{base}/slaves"))
        if tree.exists(f"/{base}/device"):
            texts[f"{base}/device.link"] = tree.resolved(f"/{base}/device") + "\n"
        _keep_all(base, BLOCK_FILES, texts, tree)
    return texts


def read_network(tree: Tree = LIVE) -> dict[str, str]:
    """Return what sysfs says of every network interface, with the adapter, driver and physical function as links."""
    texts: dict[str, str] = {}
    for name in tree.names(f"/{_NET}"):
        base = f"{_NET}/{name}"
        texts[f"{base}.link"] = tree.resolved(f"/{base}") + "\n"
        _keep_all(base, NET_FILES, texts, tree)
        for link in NET_LINKS:
            if tree.exists(f"/{base}/{link}"):
                texts[f"{base}/{link}.link"] = tree.resolved(f"/{base}/{link}") + "\n"
    return texts


def read_cgroup(cgroups: str, mountinfo: str, tree: Tree = LIVE) -> dict[str, str]:
    """Return limits, use and kills on the way up from a process's groups; the two texts are of that process."""
    texts: dict[str, str] = {}
    for controller, files in _LIMITS.items():
        for folder in group_folders(cgroups, mountinfo, controller):
            _keep_all(os.path.normpath(folder).lstrip("/"), files, texts, tree)
    return texts


def _keep_all(base: str, files: tuple[str, ...], texts: dict[str, str], tree: Tree) -> None:
    for file in files:
        path = f"/{base}/{file}"
        if Path(file).name == "speed" and not _is_up(base, texts):
            continue  # the kernel answers EINVAL for a link that is down
        try:
            texts[f"{base}/{file}"] = tree.read(path)
        except OSError:
            continue


def _is_up(base: str, texts: dict[str, str]) -> bool:
    return texts.get(f"{base}/operstate", "up").strip() != "down"
