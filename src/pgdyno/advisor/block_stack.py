"""Questions about what lies between a directory and its disks: mounts, volumes, devices. Pure.

Sources name a device in several ways (`edbvg-edb_data`, `/dev/mapper/edbvg-edb_data`, `/dev/edbvg/edb_data`, `dm-0`);
these functions take all of them that the inventory can tell apart.
"""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.advisor.case import Case, Missing, known
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import BlockDevice, HostInventory, LogicalVolume, Mount, Place, Purpose

KERNEL_READ_AHEAD_KB = 128
"""What a device has that nobody has set: VM_READAHEAD_PAGES of the kernel."""


def place_of(case: Case, purpose: Purpose) -> Place:
    """Return a place of the server. Raises Missing when it is unknown where it is."""
    places = known(case.host.places, "where the server's directories lie")
    found = next((place for place in places if place.purpose is purpose), None)
    if found is None:
        raise Missing(f"the place of {purpose}", "it is not among the places that were read")
    return found


def places_of(case: Case, *purposes: Purpose) -> tuple[Place, ...]:
    """Return all places of some purposes. Raises Missing when places are unknown."""
    return tuple(
        place for place in known(case.host.places, "where the server's directories lie") if place.purpose in purposes
    )


def disks_of(place: Place) -> frozenset[str]:
    """Return the disks below a place. Raises Missing."""
    return known(place.disks, f'which disks lie below "{place.path}"')


def top_name(place: Place) -> str:
    """Return the device that a place's file system is mounted from. Raises Missing."""
    stack = known(place.stack, f'the stack of devices below "{place.path}"')
    if not stack:
        raise Missing(f'the device of "{place.path}"', "its file system has none")
    return stack[0]


def device_of(host: HostInventory, name: str) -> BlockDevice:
    """Return a device by any of its names. Raises Missing."""
    known(host.devices, "the list of block devices")
    volume = volume_of(host, name)
    found = host.device(name) or (host.device(mapped_name(volume)) if volume else None)
    if found is None:
        raise Missing(f'the device "{name}"', "it is not among the block devices that were read")
    return found


def volume_of(host: HostInventory, name: str) -> LogicalVolume | None:
    """Return the logical volume of this name; None when it is none or volumes are unknown."""
    if isinstance(host.volumes, Unknown):
        return None
    device = host.device(name)
    names = {bare_name(name)} | ({device.mapper, device.name} if device else set())
    return next(
        (volume for volume in host.volumes if {mapped_name(volume), f"{volume.group}/{volume.name}"} & names), None
    )


def mapped_name(volume: LogicalVolume) -> str:
    """Return a volume's name below /dev/mapper, where a hyphen of a name is doubled: a single one parts the two."""
    return f"{volume.group.replace('-', '--')}-{volume.name.replace('-', '--')}"


def bare_name(name: str) -> str:
    """Return a device's name without its folder."""
    return name.removeprefix("/dev/").removeprefix("mapper/")


def volume_below(host: HostInventory, place: Place) -> LogicalVolume | None:
    """Return the first logical volume of a place's stack, which may lie below an encrypted device."""
    stack = () if isinstance(place.stack, Unknown) else place.stack
    return next((volume for name in stack if (volume := volume_of(host, name)) is not None), None)


def mount_of(case: Case, place: Place) -> Mount:
    """Return the mount that a place lies in. Raises Missing."""
    known(case.host.mounts, "the list of mounts")
    point = known(place.mount_point, f'the mount point of "{place.path}"')
    mount = case.host.mount(point)
    if mount is None:
        raise Missing(f'the file system at "{point}"', "it is not among the mounts that were read")
    return mount


def mounted_disks(host: HostInventory, mount: Mount) -> frozenset[str]:
    """Return the disks below a mount, as far as devices tell; empty when they do not."""
    return frozenset(_disks(host, mount.device, 0))


def unused_disks(host: HostInventory) -> tuple[str, ...]:
    """Return whole disks on which nothing is built and nothing mounted, as far as devices tell."""
    if isinstance(host.devices, Unknown) or isinstance(host.mounts, Unknown) or isinstance(host.volumes, Unknown):
        return ()
    used = {bare_name(mount.device) for mount in host.mounts}
    used |= {name for device in host.devices for name in device.below}
    used |= {bare_name(name) for volume in host.volumes for name in volume.devices}
    swap = () if isinstance(host.memory.swap, Unknown) else host.memory.swap
    used |= {bare_name(area.name) for area in swap}
    return tuple(
        device.name
        for device in host.devices
        if device.kind == "disk" and device.name not in used and device.size_bytes != 0 and device.storage != "zram"
    )


def automatic_read_ahead_kb(stripes: int, stripe_bytes: int) -> int:
    """Return what LVM's `auto` gives: two full stripes, the kernel's own default at least.

    Measured with lvm2 2.03: 512 KiB for 4 stripes of 64 KiB, 128 KiB for a linear volume.
    """
    return max(KERNEL_READ_AHEAD_KB, 2 * stripes * stripe_bytes // 1024)


def path_of(device: BlockDevice) -> str:
    """Return the path of a device node, that of device mapper where there is one: dm-0 may be another tomorrow."""
    return f"/dev/mapper/{device.mapper}" if device.mapper else f"/dev/{device.name}"


def _disks(host: HostInventory, name: str, depth: int) -> Iterator[str]:
    try:
        device = device_of(host, name)
    except Missing:
        return
    if not device.below or depth > 16:
        yield device.name
        return
    for lower in device.below:
        yield from _disks(host, lower, depth + 1)
