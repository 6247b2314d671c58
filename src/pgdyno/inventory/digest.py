"""A hash of an inventory: finer than the name of the environment, which has what trials are held against. Pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Inventory, LogicalVolume, Purpose, ServerInventory

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_MOVING = (
    "fs.aio-nr",
    "fs.dentry-state",
    "fs.file-nr",
    "fs.inode-nr",
    "fs.inode-state",
    "fs.quota.",
    "kernel.ns_last_pid",
    "kernel.perf_event_max_sample_rate",
    "kernel.pty.nr",
    "kernel.random.",
    "kernel.tainted",
    "net.netfilter.nf_conntrack_count",
)
"""Sysctls that are counters of the kernel's, and no settings."""


def inventory_hash(inventory: Inventory) -> str:
    """Return 12 hex digits of host and server; two readings of an unchanged pair share them.

    Covers what lasts and no setting of PostgreSQL changes: processors, memory, page sizes,
    kernel with every sysctl, virtualization, volumes, the devices, mounts and places of the server's directories,
    and the server's version and data checksums. Free space, used memory, statistics, uptime, sizes of databases,
    and what comes and goes beside the server (loop devices, other mounts, virtual interfaces) are left out. What
    is unknown counts as unknown, whatever the reason, so that a reading with fewer rights has another hash.
    """
    text = json.dumps(_stable(inventory), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _stable(inventory: Inventory) -> dict[str, object]:
    host, server = inventory.host, inventory.server
    # The layout is left out, its counts stay: a hypervisor may move a CPU while nothing else changes. Neither it nor
    # the hundreds of sysctls are copied value by value.
    processor, memory = _plain(replace(host.processor, layout=())), _plain(host.memory)
    kernel = _plain(replace(host.kernel, sysctls=Unknown("they follow")))
    processor.pop("layout")
    moving = ("available_bytes", "huge_pages_free", "huge_pages_reserved", "page_cache_bytes", "swap")
    for name in (*moving, "group_oom_kills", "group_available_bytes"):
        memory.pop(name)
    if not isinstance(host.memory.swap, Unknown):
        memory["swap"] = [(area.name, area.kind, area.bytes, area.priority) for area in host.memory.swap]
    if not isinstance(host.kernel.sysctls, Unknown):
        kernel["sysctls"] = {name: value for name, value in host.kernel.sysctls.items() if not name.startswith(_MOVING)}
    places = () if isinstance(host.places, Unknown) else host.places
    stacks = {name for place in places if not isinstance(place.stack, Unknown) for name in place.stack}
    points = {place.mount_point for place in places}
    return {
        "processor": processor,
        "memory": memory,
        "kernel": kernel,
        "virtualization": _plain(host.virtualization),
        "places": [_plain(place) for place in places if place.purpose is not Purpose.LOG],
        "devices": [_plain(device) for device in host.devices if device.name in stacks]
        if not isinstance(host.devices, Unknown)
        else None,
        "mounts": [
            (mount.point, mount.device, mount.filesystem, mount.options, str(mount.block_size))
            for mount in host.mounts
            if mount.point in points
        ]
        if not isinstance(host.mounts, Unknown)
        else None,
        "volumes": None if isinstance(host.volumes, Unknown) else [_volume(volume) for volume in host.volumes],
        "server": None
        if isinstance(server, Unknown)
        else (server.version, server.version_num, server.flavour, _checksums(server)),
    }


def _volume(volume: LogicalVolume) -> dict[str, object]:
    values = _plain(volume)
    values.pop("segments")  # its devices say where it lies
    return values


def _checksums(server: ServerInventory) -> bool | str:
    return "unknown" if isinstance(server.data_checksums, Unknown) else server.data_checksums


def _plain(part: DataclassInstance) -> dict[str, object]:
    """Return the fields of a part; unknown ones without their reason, sets in order."""
    values: dict[str, object] = asdict(part)
    for name in list(values):
        value = getattr(part, name)
        values[name] = (
            "unknown" if isinstance(value, Unknown) else sorted(value) if isinstance(value, frozenset) else values[name]
        )
    return values
