"""Logical volumes from `lvs --reportformat json --units b`. Pure."""

from __future__ import annotations

import re
from dataclasses import replace

from pgdyno.capture.texts import Capture
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import LogicalVolume

_ABSENT = "is not installed"


def read_volumes(capture: Capture) -> tuple[LogicalVolume, ...] | Unknown:
    """Return every logical volume, the segments of each joined; none where LVM is not installed."""
    found = capture.document("commands/lvs.json")
    if isinstance(found, Unknown):
        return () if found.reason.endswith(_ABSENT) else found
    reports = found.get("report") if isinstance(found, dict) else None
    if not isinstance(reports, list):
        return Unknown("commands/lvs.json has no report")
    volumes: dict[tuple[str, str], LogicalVolume] = {}
    for report in reports:
        for row in report.get("lv", []) if isinstance(report, dict) else []:
            if isinstance(row, dict) and row.get("vg_name") and row.get("lv_name"):
                volume = _volume(row)
                earlier = volumes.get((volume.group, volume.name))
                volumes[volume.group, volume.name] = volume if earlier is None else _joined(earlier, volume)
    return tuple(volumes.values())


def _volume(row: dict[str, object]) -> LogicalVolume:
    text = {name: str(value) for name, value in row.items()}
    ahead = text.get("lv_read_ahead", "")
    kib = _bytes(ahead, "lv_read_ahead")
    effective = _bytes(text.get("lv_kernel_read_ahead", ""), "lv_kernel_read_ahead")
    devices = tuple(re.sub(r"\(\d+\)$", "", part) for part in text.get("devices", "").split(",") if part)
    return LogicalVolume(
        group=text["vg_name"],
        name=text["lv_name"],
        stripes=_bytes(text.get("stripes", ""), "stripes"),
        stripe_bytes=_bytes(text.get("stripe_size", ""), "stripe_size"),
        read_ahead=ahead if ahead == "auto" else kib if isinstance(kib, Unknown) else str(kib // 1024),
        effective_read_ahead_kb=effective if isinstance(effective, Unknown) else effective // 1024,
        devices=devices,
        segments=(devices,) if devices else (),
    )


def _joined(one: LogicalVolume, other: LogicalVolume) -> LogicalVolume:
    devices = tuple(dict.fromkeys((*one.devices, *other.devices)))
    return replace(one, devices=devices, segments=(*one.segments, *other.segments))


def _bytes(text: str, name: str) -> int | Unknown:
    match = re.fullmatch(r"(\d+)B?", text)
    return int(match[1]) if match else Unknown(f'lvs shows "{text}" for {name}')
