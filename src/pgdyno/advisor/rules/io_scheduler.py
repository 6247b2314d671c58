"""Judge the I/O scheduler of the disks at the bottom of the server's stacks by the type of device."""

from __future__ import annotations

from pgdyno.advisor.block_stack import device_of, disks_of, place_of, places_of
from pgdyno.advisor.case import Case, known
from pgdyno.advisor.judgement import CannotTell, Fires, InOrder, Judgement
from pgdyno.errors import UsageError
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Change, ChangeKind, Resolution, Severity
from pgdyno.model.inventory import BlockDevice, Purpose

NEW_NAME: dict[str, str | None] = {
    "noop": "none",
    "deadline": "mq-deadline",
    "cfq": "bfq",
    "as": None,
    "anticipatory": None,
}
"""What the single-queue schedulers, gone with kernel 5.0, are called today; the anticipatory one has no successor."""
CURRENT = ("none", "mq-deadline", "kyber", "bfq")
_NAMES = {
    "nvme": "NVMe",
    "virtio": "virtual disks",
    "xen": "virtual disks",
    "dasd": "a storage server",
    "fcp": "a storage server",
    "iscsi": "a storage server",
}
_SCSI = ("scsi", "sas", "sata", "usb")
_LOCAL = ("sas", "sata", "usb")
"""Disks that are what they say; `scsi` alone may be a virtual one, which says that it turns whatever lies below."""
_FAIR = ("none", "mq-deadline")


def current_name(name: str) -> str | None:
    """Return today's name of a scheduler, None for one without a successor. Raises UsageError on an unknown name."""
    if name in CURRENT:
        return name
    if name in NEW_NAME:
        return NEW_NAME[name]
    known_names = ", ".join((*CURRENT, *NEW_NAME))
    raise UsageError(f'I/O scheduler "{name}" is not known', hint=f"Known are {known_names}.")


def io_scheduler(case: Case) -> Judgement:
    """Fire where a disk below data or log has a scheduler that is only for single spindles, or none that exists."""
    places = places_of(case, Purpose.DATA, Purpose.WAL, Purpose.TABLESPACE) or (place_of(case, Purpose.DATA),)
    names = sorted({disk for place in places for disk in disks_of(place)})
    if not names:
        return CannotTell("the disks below the server are unknown (none was read)")
    wrong: list[tuple[BlockDevice, str]] = []
    right: list[tuple[BlockDevice, str]] = []
    unknown: list[str] = []
    for device in (device_of(case.host, name) for name in names):
        scheduler = known(device.scheduler, f"the I/O scheduler of {device.name}")
        try:
            today = current_name(scheduler)
        except UsageError as error:
            unknown.append(f"{device.name}: {error.message}")
            continue
        suits = today in _FAIR and not _unordered(device, scheduler)
        (right if suits else wrong).append((device, scheduler))
    if not wrong and unknown:
        return CannotTell("; ".join(unknown))
    if not wrong:
        said = ", ".join(f"{device.name}: {scheduler}" for device, scheduler in right)
        return InOrder(
            f"The disks leave the order of requests to the device or to deadlines ({said}).", (_decided(right),)
        )
    devices = [device for device, _ in wrong]
    return Fires(
        changes=tuple(_change(device, scheduler) for device, scheduler in wrong),
        current=", ".join(f"{device.name}: {scheduler}" for device, scheduler in wrong),
        proposed=", ".join(f"{device.name}: {proposed(device)}" for device in devices),
        evidence=(*(_sentence(device, scheduler) for device, scheduler in wrong), *unknown),
        alternatives=tuple(
            f"{device.name} turns: bfq or kyber may share it more evenly, at a price that an experiment tells."
            for device in devices
            if _spindle(device)
        ),
        resolutions=(_decided(wrong),),
        severity=Severity.NOTE if all(_unordered(device, scheduler) for device, scheduler in wrong) else None,
    )


def proposed(device: BlockDevice) -> str:
    """Return the scheduler for a device, under the name that its kernel offers."""
    wanted = ("mq-deadline", "deadline") if _spindle(device) or device.storage in _SCSI else ("none", "noop")
    return next((name for name in wanted if name in device.schedulers), wanted[0])


def kind_of(device: BlockDevice) -> str:
    """Return what a device is, in words."""
    if isinstance(device.storage, str) and device.storage in _NAMES:
        return _NAMES[device.storage]
    return "a single spindle's throughput" if _spindle(device) else "this type of disk"


def _spindle(device: BlockDevice) -> bool:
    """A local disk that turns. Virtual disks say `rotational` whatever lies below them, so theirs does not count."""
    behind = isinstance(device.storage, str) and device.storage in _NAMES
    return device.rotational is True and not behind


def _unordered(device: BlockDevice, scheduler: str) -> bool:
    """A disk that turns, whose requests nobody puts in the order of their places."""
    return current_name(scheduler) == "none" and device.rotational is True and device.storage in _LOCAL


def _change(device: BlockDevice, scheduler: str) -> Change:
    file = f"/sys/block/{device.name}/queue/scheduler"
    name = proposed(device)
    return Change(
        ChangeKind.BLOCK,
        knob="scheduler",
        value=name,
        current=scheduler,
        device=f"/dev/{device.name}",
        commands=(f"echo {name} > {file}",),
        undo=(f"echo {scheduler} > {file}",),
    )


def _sentence(device: BlockDevice, scheduler: str) -> str:
    storage = "of unknown type" if isinstance(device.storage, Unknown) else f"of type {device.storage}"
    offered = f"; the kernel offers {', '.join(device.schedulers)}" if device.schedulers else ""
    today = current_name(scheduler)
    called = "" if today == scheduler else f" (today {today})" if today else " (without a successor)"
    order = "; it turns, and nothing orders its requests by their place" if _unordered(device, scheduler) else ""
    return f"{device.name} is {storage} and has {scheduler}{called}{offered}{order}."


def _decided(rows: list[tuple[BlockDevice, str]]) -> Resolution:
    said = ", ".join(f"{device.name} ({kind_of(device)}) has {scheduler}" for device, scheduler in rows)
    return Resolution(
        "CON-25",
        "Today's names decide: none or mq-deadline for storage servers and NVMe, mq-deadline for disks that turn and "
        f"other SCSI disks, bfq and kyber only by experiment. {said}.",
    )
