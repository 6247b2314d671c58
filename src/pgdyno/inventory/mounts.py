"""Mounted file systems, and the places of the server with the devices below each. Pure."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from pgdyno.capture.texts import Capture
from pgdyno.inventory.devices import Devices, bytes_of
from pgdyno.linux.mountinfo import mount_lines
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Mount, Place, Purpose

_OF_THE_KERNEL = re.compile(
    "autofs|binfmt_misc|bpf|cgroup2?|configfs|debugfs|devpts|devtmpfs|efivarfs|fusectl|hugetlbfs|mqueue|nsfs|proc"
    "|pstore|ramfs|rpc_pipefs|securityfs|selinuxfs|sysfs|tracefs"
)


def read_mounts(capture: Capture) -> tuple[Mount, ...] | Unknown:
    """Return the mounted file systems but the kernel's own, in the order of mounting."""
    text = capture.text("proc/self/mountinfo")
    if isinstance(text, Unknown):
        return _of_lsblk(capture) or text
    sizes = capture.document("commands/statvfs.json")
    of_places = _asked_of_places(capture)
    mounts = []
    for mount in mount_lines(text):
        if _OF_THE_KERNEL.fullmatch(mount.kind):
            continue
        asked = (sizes.get(mount.point) if isinstance(sizes, dict) else None) or of_places.get(mount.point)
        told = asked if isinstance(asked, dict) else {}
        why = Unknown(str(told.get("error") or sizes if isinstance(sizes, Unknown) else "this mount was not asked"))
        options = tuple(dict.fromkeys((*mount.options, *mount.of_filesystem)))
        figures = (_whole(told, name, why) for name in ("block_size", "size_bytes", "free_bytes"))
        mounts.append(Mount(mount.point, mount.source, mount.kind, options, *figures))
    return tuple(mounts)


def read_places(capture: Capture, devices: Devices | Unknown) -> tuple[Place, ...] | Unknown:
    """Return the server's directories, each with the devices below it."""
    listed = capture.document("commands/places.json")
    if isinstance(listed, Unknown):
        shown = _data_directory(capture)
        if shown is None:
            return listed
        listed = [{"purpose": "data", "path": shown}]
    if not isinstance(listed, list):
        return Unknown("commands/places.json is not a list")
    mounts = read_mounts(capture)
    found = []
    for row in listed:
        if isinstance(row, dict) and row.get("path") and row.get("purpose") in set(Purpose):
            found.append(_place(row, mounts, devices))
    return tuple(found)


def mount_of(path: str, mounts: tuple[Mount, ...]) -> Mount | None:
    """Return the mount that holds a path; of two at one point, the later one covers the other."""
    place, best = PurePosixPath(path), None
    for mount in mounts:
        if place.is_relative_to(mount.point) and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def _place(row: dict[str, object], mounts: tuple[Mount, ...] | Unknown, devices: Devices | Unknown) -> Place:
    purpose, path, name = Purpose(str(row["purpose"])), str(row["path"]), str(row.get("name") or "")
    if row.get("error"):
        why = Unknown(str(row["error"]))
        return Place(purpose, path, name, why, why, why, why)
    if isinstance(mounts, Unknown):
        return Place(purpose, path, name, mounts, mounts, mounts, mounts)
    mount = mount_of(str(row.get("real") or path), mounts)
    if mount is None:
        none = Unknown("no captured mount holds it")
        return Place(purpose, path, name, none, none, none, none)
    if isinstance(devices, Unknown):
        return Place(purpose, path, name, mount.point, devices, devices, devices)
    top = devices.by_number.get(str(row.get("device")))
    device = devices.by_name.get(top) if top is not None else devices.named(mount.device)
    if device is None:
        why = Unknown(f"{mount.filesystem} of {mount.device} is not on one block device that was captured")
        return Place(purpose, path, name, mount.point, why, why, why)
    stack = devices.stack(device.name)
    lower = [devices.by_name.get(part) for part in stack]
    encrypted = any(part is not None and part.kind == "crypt" for part in lower)
    return Place(purpose, path, name, mount.point, stack, devices.disks(device.name), encrypted)


def _asked_of_places(capture: Capture) -> dict[str, dict[str, object]]:
    """Return what statvfs of the server's own directories said, by mount point."""
    listed = capture.document("commands/places.json")
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    points = [mount.point for mount in mount_lines(capture.maybe("proc/self/mountinfo") or "")]
    found: dict[str, dict[str, object]] = {}
    for row in rows:
        path = PurePosixPath(str(row.get("real") or row.get("path")))
        holders = [point for point in points if path.is_relative_to(point)]
        if holders and "block_size" in row:
            found[max(holders, key=len)] = row
    return found


def _data_directory(capture: Capture) -> str | None:
    rows = capture.rows("settings")
    for row in [] if isinstance(rows, Unknown) else rows:
        if row.get("name") == "data_directory" and row.get("setting"):
            return str(row["setting"])
    return None


def _of_lsblk(capture: Capture) -> tuple[Mount, ...]:
    listed = capture.document("commands/lsblk.json")
    rows = listed.get("blockdevices") if isinstance(listed, dict) else None
    return tuple(_mounts_of_rows(rows))


def _mounts_of_rows(rows: object) -> list[Mount]:
    found = []
    for row in rows if isinstance(rows, list) else []:
        if not isinstance(row, dict):
            continue
        points = row.get("mountpoints") if isinstance(row.get("mountpoints"), list) else [row.get("mountpoint")]
        asked = Unknown("lsblk does not show the block size of a file system")
        for point in points or []:
            if isinstance(point, str) and point.startswith("/"):
                kind, size, free = (row.get(name) for name in ("fstype", "fssize", "fsavail"))
                path = str(row.get("path") or f"/dev/{row.get('name')}")
                found.append(Mount(point, path, str(kind or ""), (), asked, bytes_of(size), bytes_of(free)))
        found += _mounts_of_rows(row.get("children"))
    return found


def _whole(told: dict[str, object], name: str, why: Unknown) -> int | Unknown:
    value = told.get(name)
    if isinstance(value, int) and (value < 0 or (value == 0 and name == "block_size")):
        return Unknown(f"statvfs was told to give {value}, which no file system has")
    return value if isinstance(value, int) else why
