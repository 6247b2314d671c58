"""The block devices, from sysfs; where it was not captured, from lsblk's JSON or a hand-made table. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from pgdyno.capture.texts import Capture, whole_number
from pgdyno.linux.kernel_tree import choices
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import BlockDevice

_BLOCK = "sys/class/block"
_KINDS_BY_UUID = (("LVM-", "lvm"), ("CRYPT-", "crypt"), ("mpath-", "mpath"), ("part", "part"))
_KINDS_BY_NAME = (("loop", "loop"), ("sr", "rom"), ("zram", "disk"))
_STORAGE_BY_NAME = (
    ("nvme", "nvme"),
    ("vd", "virtio"),
    ("dasd", "dasd"),
    ("loop", "loop"),
    ("zram", "zram"),
    ("xvd", "xen"),
    ("mmcblk", "mmc"),
    ("pmem", "pmem"),
    ("nbd", "nbd"),
    ("rbd", "rbd"),
)
_STORAGE_BY_PATH = (
    ("/rport-", "fcp"),
    ("/ata", "sata"),
    ("/usb", "usb"),
    ("/session", "iscsi"),
    ("/end_device-", "sas"),
)
_LINE = re.compile(r"^/sys/block/(\S+) sched=(.*?) ra_kb=(\d+) rot=(\d) lbs=(\d+) pbs=(\d+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Devices:
    """The block devices by kernel name, and their names by `major:minor`."""

    by_name: Mapping[str, BlockDevice]
    by_number: Mapping[str, str]

    def named(self, source: str) -> BlockDevice | None:
        """Return the device of a path such as /dev/sda1 or /dev/mapper/vg-lv."""
        bare = source.removeprefix("/dev/").removeprefix("mapper/")
        found = self.by_name.get(bare)
        # /dev/VG/LV is /dev/mapper/VG-LV with every dash of a name doubled
        joined = "-".join(part.replace("-", "--") for part in bare.split("/"))
        return found or next((device for device in self.by_name.values() if device.mapper in (bare, joined)), None)

    def stack(self, name: str) -> tuple[str, ...]:
        """Return a device and all that lies below it, from the top down."""
        found: dict[str, None] = {}
        self._descend(name, found)
        return tuple(found)

    def disks(self, name: str) -> frozenset[str]:
        """Return the devices at the bottom."""
        return frozenset(below for below in self.stack(name) if not self._below(below))

    def _below(self, name: str) -> tuple[str, ...]:
        device = self.by_name.get(name)
        return () if device is None else device.below

    def _descend(self, name: str, found: dict[str, None]) -> None:
        if name in found:
            return  # a capture that was made by hand may go round in a circle
        found[name] = None
        for below in self._below(name):
            self._descend(below, found)


def read_devices(capture: Capture) -> Devices | Unknown:
    """Return the block devices; unknown when no source of them was captured."""
    names = capture.members(_BLOCK)
    if names:
        found = {name: _of_sysfs(capture, name) for name in names}
        numbers = {str(capture.word(f"{_BLOCK}/{name}/dev")): name for name in names}
        return Devices(_with_queues(found), numbers)
    listed = capture.document("commands/lsblk.json")
    if isinstance(listed, dict) and isinstance(listed.get("blockdevices"), list):
        return _of_lsblk(listed["blockdevices"])
    lines = list(_LINE.finditer(capture.maybe("commands/block.txt") or ""))
    if lines:
        return Devices({line[1]: _of_line(line) for line in lines}, {})
    return listed if isinstance(listed, Unknown) else Unknown("commands/lsblk.json has no blockdevices")


def kind_of(name: str, dm_uuid: str, md_level: str, is_partition: bool) -> str:
    """Return lsblk's TYPE of a device by the kernel's `name` and what sysfs says of it.

    `dm_uuid` and `md_level` are the texts of its `dm/uuid` and `md/level`, "" where there is none. `is_partition` tells
    whether it has a file `partition`, and decides before the others.
    """
    if is_partition:
        return "part"
    if md_level:
        return md_level
    if name.startswith("dm-"):
        return next((kind for start, kind in _KINDS_BY_UUID if dm_uuid.startswith(start)), "dm")
    return next((kind for start, kind in _KINDS_BY_NAME if name.startswith(start)), "disk")


def storage_of(name: str, path: str) -> str | Unknown:
    """Return how a disk is attached, from its name and its place in /sys/devices."""
    by_name = next((kind for start, kind in _STORAGE_BY_NAME if name.startswith(start)), None)
    if by_name is not None:
        return by_name
    if name.startswith("sd"):
        return next((kind for sign, kind in _STORAGE_BY_PATH if sign in path), "scsi")
    return Unknown("it is made of other devices" if name.startswith(("dm-", "md")) else "nothing tells it")


def _of_sysfs(capture: Capture, name: str) -> BlockDevice:
    base = f"{_BLOCK}/{name}"
    link = (capture.maybe(f"{base}.link") or "").strip()
    is_partition = f"{base}/partition" in capture.texts
    slaves = (capture.maybe(f"{base}/slaves.list") or "").split()
    sectors = capture.number(f"{base}/size")
    words = [(capture.maybe(f"{base}/device/{part}") or "").strip() for part in ("vendor", "model")]
    if words[0].startswith("0x"):
        words[0] = ""  # virtio has the number of the vendor
    shown = capture.text(f"{base}/queue/scheduler")
    rotational = capture.number(f"{base}/queue/rotational")
    return BlockDevice(
        name=name,
        kind=kind_of(
            name,
            capture.maybe(f"{base}/dm/uuid") or "",
            (capture.maybe(f"{base}/md/level") or "").strip(),
            is_partition,
        ),
        below=(PurePosixPath(link).parent.name,) if is_partition and link else tuple(slaves),
        size_bytes=sectors * 512 if isinstance(sectors, int) else sectors,
        scheduler=shown if isinstance(shown, Unknown) else chosen_scheduler(shown),
        schedulers=() if isinstance(shown, Unknown) else choices(shown),
        read_ahead_kb=capture.number(f"{base}/queue/read_ahead_kb"),
        rotational=rotational == 1 if isinstance(rotational, int) else rotational,
        logical_sector=capture.number(f"{base}/queue/logical_block_size"),
        physical_sector=capture.number(f"{base}/queue/physical_block_size"),
        model=" ".join(word for word in words if word) or Unknown("the device does not name itself"),
        storage=storage_of(name, (capture.maybe(f"{base}/device.link") or link).strip()),
        mapper=(capture.maybe(f"{base}/dm/name") or "").strip(),
    )


def chosen_scheduler(text: str) -> str | Unknown:
    """Return the word in brackets, or the only word there is."""
    match = re.search(r"\[([\w-]+)\]", text)
    words = text.split()
    return match[1] if match else words[0] if len(words) == 1 else Unknown("the kernel does not show the choice")


def _with_queues(found: Mapping[str, BlockDevice]) -> dict[str, BlockDevice]:
    """Give partitions what their disk's queue says: they have none of their own."""
    whole: dict[str, BlockDevice] = {}
    for name, device in found.items():
        disk = found.get(device.below[0]) if device.kind == "part" and device.below else None
        whole[name] = device
        if disk is not None:
            whole[name] = replace(
                device,
                scheduler=disk.scheduler,
                schedulers=disk.schedulers,
                read_ahead_kb=disk.read_ahead_kb,
                rotational=disk.rotational,
                logical_sector=disk.logical_sector,
                physical_sector=disk.physical_sector,
                storage=disk.storage,
            )
    return whole


def _of_line(line: re.Match[str]) -> BlockDevice:
    return BlockDevice(
        name=line[1],
        kind=kind_of(line[1], "", "", False),
        scheduler=chosen_scheduler(line[2]),
        schedulers=choices(line[2]),
        read_ahead_kb=int(line[3]),
        rotational=line[4] == "1",
        logical_sector=int(line[5]),
        physical_sector=int(line[6]),
        storage=storage_of(line[1], ""),
    )


def _of_lsblk(tree: list[object]) -> Devices:
    """Read lsblk's tree, in which a device stands below each of its parents: the disk is the root, a volume a leaf."""
    found: dict[str, BlockDevice] = {}
    numbers: dict[str, str] = {}
    for row, parent in _rows(tree, None):
        name = str(row.get("kname") or row.get("name"))
        known = found.get(name)
        below = (*(known.below if known else ()), *([parent] if parent else []))
        found[name] = replace(known or _of_row(name, row), below=tuple(dict.fromkeys(below)))
        numbers[str(row.get("maj:min"))] = name
    return Devices(found, numbers)


def _rows(tree: object, parent: str | None) -> Iterator[tuple[dict[str, object], str | None]]:
    for row in tree if isinstance(tree, list) else []:
        if isinstance(row, dict) and (row.get("kname") or row.get("name")):
            yield row, parent
            yield from _rows(row.get("children"), str(row.get("kname") or row.get("name")))


def _of_row(name: str, row: dict[str, object]) -> BlockDevice:
    sched, rota, tran = row.get("sched"), row.get("rota"), row.get("tran")
    shown = str(row.get("name") or "")
    return BlockDevice(
        name=name,
        kind=str(row.get("type") or "disk"),
        size_bytes=bytes_of(row.get("size")),
        scheduler=str(sched) if sched else Unknown("lsblk shows no scheduler"),
        read_ahead_kb=_number(row, "ra"),
        rotational=str(rota) in ("True", "1", "true") if rota is not None else Unknown("lsblk does not show it"),
        logical_sector=_number(row, "log-sec"),
        physical_sector=_number(row, "phy-sec"),
        model=str(row["model"]) if row.get("model") else Unknown("the device does not name itself"),
        storage="fcp" if tran == "fc" else str(tran) if tran else storage_of(name, ""),
        mapper=shown if shown != name else "",
    )


def _number(row: dict[str, object], name: str) -> int | Unknown:
    value = row.get(name)
    return Unknown(f"lsblk does not show {name}") if value is None else whole_number(str(value), name)


def bytes_of(value: object) -> int | Unknown:
    """Return a size of lsblk's as bytes: a number of bytes with -b, else one with a unit of 1024."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([BKMGTP]?)", str(value if value is not None else "").strip())
    if match is None:
        return Unknown("lsblk does not show the size")
    return int(float(match[1]) * 1024 ** "BKMGTP".index(match[2] or "B"))
