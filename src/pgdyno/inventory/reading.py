"""Turn a capture into an inventory. Pure: a section that cannot be read is unknown, and the others are not touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pgdyno.capture.texts import Capture
from pgdyno.inventory.channel import read_adapters, read_channel_devices
from pgdyno.inventory.devices import read_devices
from pgdyno.inventory.kernel import read_kernel
from pgdyno.inventory.lvm import read_volumes
from pgdyno.inventory.memory import read_memory
from pgdyno.inventory.mounts import read_mounts, read_places
from pgdyno.inventory.network import read_network
from pgdyno.inventory.processor import read_processor
from pgdyno.inventory.server import read_server
from pgdyno.inventory.system_v import read_foreign_ipc
from pgdyno.inventory.virtualization import read_virtualization
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import HostInventory, Inventory, Kernel, Memory, Processor, Virtualization

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
        taken_at=capture.taken_at,
        origin=capture.origin,
        missing=missing,
    )
