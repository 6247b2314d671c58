"""The Linux changes of an advice, sorted by where they can be written: sysctls, early files, a unit, block devices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.export.advice import ExportedAdvice
from pgdyno.model import linux
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Change, ChangeKind
from pgdyno.model.inventory import HostInventory, Place, Purpose

EARLY = tuple(name for name, knob in linux.LINUX.items() if knob.is_early)
_NOT_SYSCTLS = frozenset(name for name, knob in linux.LINUX.items() if not knob.is_sysctl)
_VALUE = re.compile(r"[\w.,:+/ \t-]+")
_DEBUGFS = "/sys/kernel/debug/"


@dataclass(frozen=True, slots=True)
class Sysctls:
    """Sysctls to be written, in order, their undo, and what is listed only: name and reason.

    A value of None in `undo` is one that was not known.
    """

    written: Mapping[str, str]
    undo: Mapping[str, str | None]
    listed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class BlockChange:
    """One attribute of the queue of one device, now and as found."""

    device: str
    attribute: str
    value: str
    found: str | None
    rule: str


def is_sysctl(change: Change) -> bool:
    """Tell whether a change is of a name that sysctl knows, or knew."""
    return change.kind is ChangeKind.LINUX and change.knob not in _NOT_SYSCTLS


def is_block(change: Change) -> bool:
    """Tell whether a change is of a block device's queue."""
    return change.kind is ChangeKind.BLOCK or change.knob in (linux.READ_AHEAD, linux.SCHEDULER)


def is_word(value: str) -> bool:
    """Tell whether a value is one that no reader of lines takes for more than a value."""
    return _VALUE.fullmatch(value) is not None


def in_debugfs(host: HostInventory) -> bool:
    """Tell whether the scheduler's migration cost is a file of debugfs on this kernel (from 5.13)."""
    place = host.kernel.migration_interface
    return isinstance(place, str) and place.startswith(_DEBUGFS)


def sysctls_of(advice: ExportedAdvice) -> Sysctls:
    """Sort the sysctls: only names that this kernel has are written, and one of two counterparts."""
    host = advice.inventory.host
    here = host.kernel.sysctls
    written: dict[str, str] = {}
    undo: dict[str, str | None] = {}
    listed: dict[str, str] = {}
    for item in advice.of(ChangeKind.LINUX):
        change = item.change
        name = change.knob.replace("/", ".")
        if not is_sysctl(change):
            continue
        if name == linux.MIGRATION_COST and in_debugfs(host):
            listed["the migration cost"] = "it is in debugfs here, which no sysctl reaches: see the systemd unit"
        elif isinstance(here, Unknown):
            listed[name] = f"whether this kernel has it is unknown ({here.reason})"
        elif name not in here:
            listed[name] = "this kernel does not have it"
        elif linux.COUNTERPARTS.get(name) in written:
            listed[name] = f"it is the counterpart of {linux.COUNTERPARTS[name]}: the kernel keeps the last one only"
        elif not is_word(change.value):
            listed[name] = "its value is not a word or a number"
        else:
            written[name] = change.value
            undo_name, value = _as_found(name, here)
            undo[undo_name] = value
    return Sysctls(written, undo, listed)


def pool_notes(sysctls: Sysctls) -> list[str]:
    """Return what a reader has to know of a pool of huge pages beside its number."""
    if linux.NR_HUGEPAGES not in sysctls.written:
        return []
    return [
        f"{linux.NR_HUGEPAGES}: long after boot the kernel may find fewer pages than asked for: compare "
        "HugePages_Total of /proc/meminfo. The server takes them at its start: restart it then."
    ]


def _as_found(name: str, here: Mapping[str, str]) -> tuple[str, str | None]:
    """Return what to write to have the old value: of two counterparts the one that was in force, as 0 is refused."""
    other = linux.COUNTERPARTS.get(name)
    if other is not None and here.get(name) == "0" and here.get(other, "0") != "0":
        return other, here[other]
    return name, here.get(name)


def files_below_sys(advice: ExportedAdvice, names: tuple[str, ...]) -> dict[str, Change]:
    """Return the changes of these knobs, by name."""
    found = {item.change.knob: item.change for item in advice.of(ChangeKind.LINUX) if item.change.knob in names}
    return {name: change for name, change in found.items() if is_word(change.value)}


def block_changes(advice: ExportedAdvice) -> list[BlockChange]:
    """Return every change of a block device; the catalogue's block knobs are meant for the server's own devices."""
    changes: list[BlockChange] = []
    for item in advice.of(ChangeKind.BLOCK, ChangeKind.LINUX):
        change = item.change
        attribute = change.knob.removeprefix("block.")
        if attribute not in ("read_ahead_kb", "scheduler") or not is_word(change.value):
            continue
        devices = [change.device] if change.device else _server_devices(advice.inventory.host, attribute)
        for device in devices:
            name = device.removeprefix("/dev/")
            found = _found_on(advice.inventory.host, name, attribute) or change.current
            changes.append(BlockChange(name, attribute, change.value, found, item.rule))
    return changes


def _found_on(host: HostInventory, device: str, attribute: str) -> str | None:
    known = host.device(device)
    value = None if known is None else (known.read_ahead_kb if attribute == "read_ahead_kb" else known.scheduler)
    return None if value is None or isinstance(value, Unknown) else str(value)


def _server_devices(host: HostInventory, attribute: str) -> list[str]:
    """Return the mounted devices below data and WAL for read-ahead, the disks at the bottom for the scheduler."""
    places = () if isinstance(host.places, Unknown) else host.places
    found = [name for place in places if place.purpose in (Purpose.DATA, Purpose.WAL) for name in _of(place, attribute)]
    return list(dict.fromkeys(found))


def _of(place: Place, attribute: str) -> list[str]:
    if attribute == "scheduler":
        return [] if isinstance(place.disks, Unknown) else sorted(place.disks)
    return [] if isinstance(place.stack, Unknown) else list(place.stack[:1])
