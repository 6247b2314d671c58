"""Judge file systems, sector sizes and encryption below the server's places."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.advisor.block_stack import device_of, disks_of, mount_of, places_of
from pgdyno.advisor.case import Case, known
from pgdyno.advisor.judgement import CannotTell, Fires, InOrder, Judgement
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Change, ChangeKind, Resolution, Severity
from pgdyno.model.inventory import BlockDevice, Mount, Place, Purpose
from pgdyno.units import bytes_text

_SERVER = (Purpose.DATA, Purpose.WAL, Purpose.TABLESPACE)
_LOST_AT_REBOOT = ("tmpfs", "ramfs", "devtmpfs")
_NOT_FOR_DATA = {
    "overlay": "a container's layer copies a file when it is first written and goes with the container",
    "overlayfs": "a container's layer copies a file when it is first written and goes with the container",
    "aufs": "a container's layer copies a file when it is first written and goes with the container",
    "vfat": "it has no journal and no rights",
    "fuseblk": "a user process stands between server and disk",
}
_WITHOUT_BARRIERS = ("nobarrier", "barrier=0")
_SECTORS = (512, 4096)


def filesystem(case: Case) -> Judgement:
    """Report type, options and block size of each mount; fire on what loses data and on blocks larger than a page."""
    places = places_of(case, *_SERVER)
    mounts = {mount.point: mount for place in places if (mount := mount_of(case, place))}
    if not mounts:
        return CannotTell("the file systems of the server are unknown (no place of it was read)")
    page = case.number("block_size")
    decided = (_resolution(case, mounts[next(iter(mounts))]),)
    said = [_described(mount, page) for mount in mounts.values()]
    problems = sorted(
        (problem for mount in mounts.values() for problem in _problems(case, mount, page)), key=lambda one: one[0].rank
    )
    if not problems:
        return InOrder(" ".join(said), decided)
    severity, _, proposed = problems[0]
    return Fires(
        changes=(Change(ChangeKind.MANUAL, value=proposed),) if severity is not Severity.NOTE else (),
        current=", ".join(f"{mount.point}: {mount.filesystem}" for mount in mounts.values()),
        proposed=proposed,
        evidence=(*(text for _, text, _ in problems), *said),
        resolutions=decided,
        severity=severity,
    )


def sector_size(case: Case) -> Judgement:
    """Report the sectors of the server's disks; fire on 4096 and on disks of both kinds below one place."""
    said, odd = [], []
    for place in places_of(case, *_SERVER):
        disks = [device_of(case.host, name) for name in sorted(disks_of(place))]
        sizes = {_sectors(disk) for disk in disks}
        for logical, physical in sizes:
            if logical not in _SECTORS or physical < logical:
                return CannotTell(
                    f"the sector size of the disks below {place.path} is unknown (it was read as {logical} and "
                    f"{physical} bytes, and sectors have {' or '.join(map(str, _SECTORS))})"
                )
        said += [f"{disk.name}: {_sectors(disk)[0]} logical, {_sectors(disk)[1]} physical" for disk in disks]
        if len(sizes) > 1:
            odd.append(f"The disks below {place.path} have sectors of different sizes.")
        if any(logical == 4096 for logical, _ in sizes):
            odd.append(f"Disks below {place.path} take requests of 4096 bytes only, which direct I/O has to respect.")
    if not said:
        return CannotTell("the disks below the server are unknown (none was read)")
    listed = f"Sectors in bytes: {', '.join(dict.fromkeys(said))}."
    decided = (Resolution("CON-33", f"Sectors are counted in bytes; 512 KB was a misprint. {listed}"),)
    if not odd:
        return InOrder(listed, decided)
    return Fires(current=", ".join(dict.fromkeys(said)), evidence=(*dict.fromkeys(odd), listed), resolutions=decided)


def encrypted_volumes(case: Case) -> Judgement:
    """Compare what is encrypted with what is not."""
    places = places_of(case, *_SERVER, Purpose.TEMP)
    states = {place.path: known(place.encrypted, f'whether "{place.path}" is encrypted') for place in places}
    if not states:
        return CannotTell("the places of the server are unknown (none was read)")
    secret = [path for path, encrypted in states.items() if encrypted]
    plain = [path for path, encrypted in states.items() if not encrypted]
    if not secret:
        return InOrder("No volume below the server is encrypted by this host.")
    devices = ", ".join(sorted({name for place in places for name in _crypt(case, place)})) or "dm-crypt"
    if not plain:
        return InOrder(f"All places of the server are encrypted ({devices}); the CPUs of this host do that work.")
    return Fires(
        changes=(Change(ChangeKind.MANUAL, value=f"encrypted volumes for {', '.join(plain)}"),),
        current=f"plain: {', '.join(plain)}",
        proposed="all encrypted, or none",
        evidence=(f"Encrypted ({devices}): {', '.join(secret)}.", f"Not encrypted: {', '.join(plain)}."),
    )


def _crypt(case: Case, place: Place) -> Iterator[str]:
    stack = () if isinstance(place.stack, Unknown) else place.stack
    for name in stack:
        device = case.host.device(name)
        if device is not None and device.kind == "crypt":
            yield device.mapper or device.name


def _sectors(disk: BlockDevice) -> tuple[int, int]:
    return (
        known(disk.logical_sector, f"the logical sector size of {disk.name}"),
        known(disk.physical_sector, f"the physical sector size of {disk.name}"),
    )


def _described(mount: Mount, page: float) -> str:
    options = ",".join(mount.options) or "no options"
    if isinstance(mount.block_size, Unknown):
        return f"{mount.point}: {mount.filesystem} ({options}), block size unknown ({mount.block_size.reason})."
    relation = "equal to" if mount.block_size == page else "smaller than" if mount.block_size < page else "larger than"
    size = f"blocks of {bytes_text(mount.block_size)}, {relation} a page of {bytes_text(page)}"
    return f"{mount.point}: {mount.filesystem} ({options}), {size}."


def _problems(case: Case, mount: Mount, page: float) -> Iterator[tuple[Severity, str, str]]:
    if mount.filesystem in _LOST_AT_REBOOT:
        severity = Severity.NOTE if case.server.disposable else Severity.CRITICAL
        yield (
            severity,
            f"{mount.point} is in memory ({mount.filesystem}) and gone after a reboot",
            "a file system on disk",
        )
    if mount.filesystem in _NOT_FOR_DATA:
        why = _NOT_FOR_DATA[mount.filesystem]
        yield Severity.WARNING, f"{mount.point} is {mount.filesystem}: {why}", "a volume with ext4 or XFS"
    if mount.filesystem.startswith("nfs") and "soft" in mount.options:
        yield Severity.CRITICAL, f"{mount.point} is an NFS mount that gives up (soft)", "the option hard"
    off = [option for option in mount.options if option in _WITHOUT_BARRIERS]
    if off:
        text = f"{mount.point} is mounted with {off[0]}: a power failure loses what fsync promised"
        yield Severity.CRITICAL, text, "write barriers, which are the default"
    if not isinstance(mount.block_size, Unknown) and mount.block_size > page:
        text = f"{mount.point} has blocks of {bytes_text(mount.block_size)}, larger than a page of {bytes_text(page)}"
        yield Severity.NOTE, text, "blocks no larger than a page, when the file system is recreated"


def _resolution(case: Case, mount: Mount) -> Resolution:
    size = "unknown" if isinstance(mount.block_size, Unknown) else bytes_text(mount.block_size)
    memory_page = case.host.memory.page_size
    pages = "unknown" if isinstance(memory_page, Unknown) else bytes_text(memory_page)
    return Resolution(
        "CON-32",
        f"The block size is that of the mount point: {size} at {mount.point}. A device node would give the page size "
        f"of /dev, here {pages}.",
    )
