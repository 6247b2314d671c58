"""Hosts with storage for rules: the volumes of a captured s390x machine, and the devices that rules ask for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from advisor_case import GB, make_host
from pgdyno.model.evidence import DeviceActivity
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import (
    BlockDevice,
    HostInventory,
    LogicalVolume,
    Mount,
    Place,
    Purpose,
)

DATA = Path(__file__).parent / "data" / "storage"
STORAGE_THEMES = (
    "device_load",
    "filesystem",
    "hot_tables",
    "io_scheduler",
    "placement",
    "read_ahead",
    "storage_server",
    "wal_direct_io",
    "wal_placement",
)
"""The rule files on storage, without their ending."""
COLUMNS = {
    "r/s": "reads_s",
    "w/s": "writes_s",
    "rkB/s": "read_kb_s",
    "wkB/s": "write_kb_s",
    "r_await": "read_await_ms",
    "w_await": "write_await_ms",
    "aqu-sz": "queue",
    "rareq-sz": "read_request_kb",
    "wareq-sz": "write_request_kb",
    "svctm": "service_ms",
    "%util": "util_pct",
}


def captured_volumes() -> tuple[LogicalVolume, ...]:
    """Return the volumes of the captured machine: edb_data over four disks, edb_logs over two of them."""
    found: dict[str, LogicalVolume] = {}
    for row in json.loads((DATA / "lvs_s390x.json").read_text())["report"][0]["lv"]:
        devices = tuple(part.partition("(")[0] for part in row["devices"].split(","))
        before = found.get(row["lv_name"])
        found[row["lv_name"]] = LogicalVolume(
            group=row["vg_name"],
            name=row["lv_name"],
            stripes=int(row["stripes"]),
            stripe_bytes=int(row["stripe_size"].rstrip("B")),
            read_ahead=row["lv_read_ahead"],
            effective_read_ahead_kb=int(row["lv_kernel_read_ahead"].rstrip("B")) // 1024,
            devices=(*(before.devices if before else ()), *devices),
        )
    return tuple(found.values())


def disk(name: str, storage: str = "virtio", **fields: object) -> BlockDevice:
    """Make a disk."""
    values: dict[str, object] = {
        "size_bytes": 96 << 20,
        "scheduler": "mq-deadline",
        "schedulers": ("none", "mq-deadline", "kyber", "bfq"),
        "read_ahead_kb": 128,
        "rotational": True,
        "logical_sector": 512,
        "physical_sector": 512,
        "storage": storage,
    }
    return BlockDevice(name, "disk", **{**values, **fields})


def mount(point: str, device: str, filesystem: str = "ext4", **fields: object) -> Mount:
    """Make a mount with blocks of 4 KiB."""
    values = {"options": ("rw", "relatime"), "block_size": 4096, "size_bytes": 100 * GB, "free_bytes": 50 * GB}
    return Mount(point, device, filesystem, **{**values, **fields})


def place(purpose: Purpose, path: str, disks: Iterable[str], **fields: object) -> Place:
    """Make a place on disks; without a stack it is mounted from the first of them."""
    names = tuple(disks)
    values: dict[str, object] = {"mount_point": path, "stack": names[:1], "disks": frozenset(names), "encrypted": False}
    return Place(purpose, path, **{**values, **fields})


def dark_place(purpose: Purpose, path: str, mount_point: str) -> Place:
    """Make a place of which the mount point is known and nothing below it."""
    unknown = Unknown("sysfs could not be read")
    return Place(purpose, path, mount_point=mount_point, stack=unknown, disks=unknown, encrypted=unknown)


def simple_host(data: BlockDevice, wal: BlockDevice | None = None, **parts: object) -> HostInventory:
    """Make a host with the data directory on one disk and the log on another, or on the same."""
    log = wal or data
    values: dict[str, object] = {
        "devices": tuple(dict.fromkeys((data, log))),
        "mounts": (
            mount("/", "/dev/root"),
            mount("/pgdata", f"/dev/{data.name}"),
            mount("/pgwal", f"/dev/{log.name}"),
        ),
        "places": (
            place(Purpose.DATA, "/pgdata/main", [data.name], mount_point="/pgdata"),
            place(Purpose.WAL, "/pgwal/pg_wal", [log.name], mount_point="/pgwal"),
        ),
    }
    return make_host(**{**values, **parts})


def lvm_host(**changed: object) -> HostInventory:
    """Make the captured s390x machine: data and log on volumes of their own, which share /dev/vda and /dev/vdb.

    `changed` are fields of the data volume.
    """
    data, logs = captured_volumes()
    data = replace(data, **changed)
    disks = tuple(disk(name) for name in ("vda", "vdb", "vdc", "vdd"))

    def mapped(volume: LogicalVolume) -> BlockDevice:
        below = tuple(name.removeprefix("/dev/") for name in volume.devices)
        ahead = volume.effective_read_ahead_kb
        number, mapper = ("dm-0", "dm-1")[volume is logs], f"{volume.group}-{volume.name}"
        sectors = {"logical_sector": 512, "physical_sector": 512}
        return BlockDevice(number, "lvm", below, read_ahead_kb=ahead, mapper=mapper, **sectors)

    def lies(purpose: Purpose, volume: LogicalVolume, path: str, point: str) -> Place:
        below = [name.removeprefix("/dev/") for name in volume.devices]
        return place(purpose, path, below, stack=(("dm-0", "dm-1")[volume is logs], *below), mount_point=point)

    return make_host(
        architecture="s390x",
        layer="KVM",
        devices=(*disks, mapped(data), mapped(logs)),
        volumes=(data, logs),
        mounts=(
            mount("/", "/dev/vde1"),
            mount("/edb_data", "/dev/mapper/edbvg-edb_data"),
            mount("/edb_logs", "/dev/mapper/edbvg-edb_logs"),
        ),
        places=(
            lies(Purpose.DATA, data, "/edb_data/main", "/edb_data"),
            lies(Purpose.WAL, logs, "/edb_logs/pg_wal", "/edb_logs"),
        ),
    )


def iostat_rows(name: str) -> tuple[DeviceActivity, ...]:
    """Return the rows of a file of the guide of 2023, columns by their names."""
    lines = [line.split() for line in (DATA / f"iostat_{name}.txt").read_text().splitlines() if line.strip()]
    header = next(line for line in lines if line[0] == "Device")
    rows = lines[lines.index(header) + 1 :]
    return tuple(
        DeviceActivity(
            row[0], **{COLUMNS[column]: float(cell) for column, cell in zip(header[1:], row[1:], strict=True)}
        )
        for row in rows
    )
