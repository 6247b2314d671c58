"""Turn a capture into an inventory. Pure: a section that cannot be read is unknown, and the others are not touched."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from pgdyno.capture.texts import ENVIRONMENT, Capture
from pgdyno.inventory.channel import read_adapters, read_channel_devices
from pgdyno.inventory.devices import read_devices
from pgdyno.inventory.kernel import read_kernel
from pgdyno.inventory.memory import read_memory
from pgdyno.inventory.mounts import read_mounts, read_places
from pgdyno.inventory.network import read_network
from pgdyno.inventory.processor import read_processor
from pgdyno.inventory.server import read_server
from pgdyno.inventory.system_v import read_foreign_ipc
from pgdyno.inventory.virtualization import read_virtualization
from pgdyno.model.environment import Environment
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import HostInventory, Inventory, Kernel, LogicalVolume, Memory, Processor, Virtualization
from pgdyno.model.shapes import inner

T = TypeVar("T")


def read_inventory(capture: Capture) -> Inventory:
    """Return all that a capture tells. Never raises: what does not read as expected is unknown, with the reason."""
    missing = dict(capture.missing)

    def section(name: str, read: Callable[[Capture], T], empty: Callable[[Unknown], T]) -> T:
        # A capture may be cut anywhere or made by hand: a fault in one file must not cost the other sections.
        try:
            return read(capture)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            reason = f"what was captured does not read as expected ({type(error).__name__}: {error})"
            missing[name] = reason
            return empty(Unknown(reason))

    devices = section("devices", read_devices, lambda why: why)
    return Inventory(
        host=HostInventory(
            processor=section("processor", read_processor, lambda _: Processor()),
            memory=section("memory", read_memory, lambda _: Memory()),
            kernel=section("kernel", read_kernel, lambda _: Kernel()),
            virtualization=section("virtualization", read_virtualization, lambda why: Virtualization(why, why)),
            devices=devices if isinstance(devices, Unknown) else tuple(devices.by_name.values()),
            volumes=section("volumes", read_volumes, lambda why: why),
            mounts=section("mounts", read_mounts, lambda why: why),
            places=section("places", lambda given: read_places(given, devices), lambda why: why),
            channel_devices=section("channel devices", read_channel_devices, lambda why: why),
            network=section("network", read_network, lambda why: why),
            adapters=section("adapters", read_adapters, lambda why: why),
            foreign_ipc=section("System V objects", read_foreign_ipc, lambda why: why),
        ),
        server=section("server", read_server, lambda why: why),
        environment=section("environment", read_environment, lambda why: why),
        taken_at=capture.taken_at,
        origin=capture.origin,
        missing=missing,
    )


def read_environment(capture: Capture) -> Environment | Unknown:
    """Return the environment as it was found with the texts; it is of values that not every capture has."""
    if ENVIRONMENT not in capture.texts and ENVIRONMENT not in capture.missing:
        return Unknown("the capture was made by hand, or by an earlier version")
    found = capture.document(ENVIRONMENT)
    if isinstance(found, Unknown):
        return found
    parts = found if isinstance(found, dict) else {}
    if not inner(parts, "host") or not inner(parts, "server"):
        return Unknown(f"{ENVIRONMENT} does not hold one")
    return Environment.of_image(parts)


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
