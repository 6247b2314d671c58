"""Commands for review: read-ahead by LVM and blockdev, schedulers, and what findings bring; each with its undo."""

from __future__ import annotations

import shlex

from pgdyno.advisor.block_stack import automatic_read_ahead_kb
from pgdyno.export.advice import ExportedAdvice, comment
from pgdyno.export.linux_items import BlockChange, block_changes, is_block
from pgdyno.export.systemd import is_scheduled_vacuum
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Change, ChangeKind
from pgdyno.model.inventory import LogicalVolume

NAME, UNDO = "pgdyno-advice.sh", "pgdyno-advice.undo.sh"
_KINDS = (ChangeKind.BLOCK, ChangeKind.LINUX, ChangeKind.COMMAND, ChangeKind.MANUAL)
_SECTORS = 2
"""Sectors of 512 bytes in one KiB: the unit of blockdev --setra and of lvchange --readahead."""


def files(advice: ExportedAdvice) -> dict[str, str]:
    """Return the commands and their undo, as scripts that stop at the first error; nothing runs them."""
    forth, back = _block_lines(advice)
    for item in advice.of(ChangeKind.COMMAND, ChangeKind.MANUAL):
        change = item.change
        if is_scheduled_vacuum(change):
            continue
        by_hand = change.kind is ChangeKind.MANUAL
        note = comment([f"{item.rule}: {item.title}"])
        forth.append(note + _lines(change.commands, by_hand=by_hand))
        undo = _lines(tuple(change.undo), by_hand=by_hand)
        back.append(note + (undo or comment(["There is no command that takes this back."])))
    if not forth:
        return {}
    begin = "#!/bin/sh\nset -eu\n"
    return {
        NAME: begin + advice.head("commands for review, as root", _KINDS, about=_is_here) + "".join(forth),
        UNDO: begin + advice.head("undo of the commands, as root", _KINDS, about=_is_here) + "".join(reversed(back)),
    }


def _is_here(change: Change) -> bool:
    by_people = change.kind in (ChangeKind.COMMAND, ChangeKind.MANUAL) and not is_scheduled_vacuum(change)
    return by_people or is_block(change)


def _lines(commands: tuple[str, ...], *, by_hand: bool) -> str:
    if by_hand:
        return comment([f"by hand: {command}" for command in commands] or ["by hand: see the report"])
    return "".join(f"{command}\n" for command in commands)


def _block_lines(advice: ExportedAdvice) -> tuple[list[str], list[str]]:
    forth: list[str] = []
    back: list[str] = []
    volumes = advice.inventory.host.volumes
    for change in block_changes(advice):
        volume = None if isinstance(volumes, Unknown) else _volume(change.device, volumes)
        forth.append(_set(change, change.value, volume))
        if change.found is None:
            back.append(comment([f"{change.attribute} of {change.device} is not known as it was found"]))
        else:
            back.append(_set(change, change.found, volume, is_undo=True))
    return forth, back


def _set(change: BlockChange, value: str, volume: LogicalVolume | None, *, is_undo: bool = False) -> str:
    device = f"/dev/{change.device}"
    if change.attribute == "scheduler":
        return f"echo {shlex.quote(value)} > /sys/block/{shlex.quote(change.device)}/queue/scheduler\n"
    if not value.isdecimal():
        return comment([f"read-ahead of {change.device} cannot be written: {value} is not a number of KiB"])
    sectors = int(value) * _SECTORS
    note = comment([f"{change.rule}: {value} KiB are {sectors} sectors of 512 bytes"])
    if volume is None:
        return note + f"blockdev --setra {sectors} {shlex.quote(device)}\n"
    automatic = volume.read_ahead == "auto" if is_undo else int(value) == _automatic_kb(volume)
    last = "auto" if automatic else f"{sectors}"
    line = f"lvchange --readahead {last} {shlex.quote(volume.path)}\n"
    return note + line + f"blockdev --setra {sectors} {shlex.quote(volume.path)}\n"


def _automatic_kb(volume: LogicalVolume) -> int | None:
    """Return what `auto` gives a volume, None when its stripes are not known."""
    if isinstance(volume.stripes, Unknown) or isinstance(volume.stripe_bytes, Unknown):
        return None
    return automatic_read_ahead_kb(volume.stripes, volume.stripe_bytes)


def _volume(device: str, volumes: tuple[LogicalVolume, ...]) -> LogicalVolume | None:
    """Return the logical volume that a device is; device mapper doubles the dashes of its names."""
    for volume in volumes:
        mapped = f"{volume.group.replace('-', '--')}-{volume.name.replace('-', '--')}"
        if device in (volume.path.removeprefix("/dev/"), f"mapper/{mapped}", mapped):
            return volume
    return None
