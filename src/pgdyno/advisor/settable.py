"""What a session can set of a finding's changes, and what is left for people. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pgdyno.knobs.policy import Durability, class_x_set_in, ruling_of
from pgdyno.model.finding import Change, ChangeKind, Finding
from pgdyno.model.linux import is_linux_knob

SECTORS = 2
"""Sectors of 512 bytes in one KiB."""


@dataclass(frozen=True, slots=True)
class SettableParts:
    """A finding in parts: settings of a session, commands and their undo for people, and what the policy refuses."""

    settings: Mapping[str, str]
    found: Mapping[str, str]
    commands: tuple[str, ...]
    undo: tuple[str, ...]
    refused: Mapping[str, str]


def parts_of(findings: Iterable[Finding]) -> SettableParts:
    """Sort the changes of these findings: class A, B and C and the Linux knobs of the catalogue can be set.

    Class X is refused. What is not a performance setting, or unknown to the policy, is for people.
    """
    settings: dict[str, str] = {}
    found: dict[str, str] = {}
    refused: dict[str, str] = {}
    commands: list[str] = []
    undo: list[str] = []
    for finding in findings:
        for change in finding.changes:
            if change.kind is ChangeKind.POSTGRESQL:
                ruling = ruling_of(change.knob)
                if ruling is not None and ruling.durability is Durability.X:
                    refused[change.knob] = ruling.why
                    continue
                can_be_set = ruling is not None and ruling.settable
            else:
                can_be_set = change.kind is ChangeKind.LINUX and is_linux_knob(change.knob)
            if can_be_set:
                settings.setdefault(change.knob, change.value)
                if change.current is not None:
                    found.setdefault(change.knob, change.current)
            elif (name := _class_x_in(change)) is not None:
                refused[name] = "a command of the finding sets it"
            else:
                forth, back = _by_hand(change)
                commands += forth
                undo = [*back, *undo]
    return SettableParts(settings, found, tuple(commands), tuple(undo), refused)


def _class_x_in(change: Change) -> str | None:
    lines = (*change.commands, *change.undo)
    return next((name for line in lines if (name := class_x_set_in(line)) is not None), None)


def _by_hand(change: Change) -> tuple[list[str], list[str]]:
    """Return what a person does and how it is taken back; knobs without commands get the one that sets them."""
    if change.commands:
        return list(change.commands), list(change.undo)
    if not change.knob:
        return [], list(change.undo)
    forth = _set(change, change.value)
    back = [] if change.current is None else _set(change, change.current)
    return forth, list(change.undo) or back


def _set(change: Change, value: str) -> list[str]:
    attribute = change.knob.removeprefix("block.")
    device = change.device.removeprefix("/dev/")
    if change.kind is ChangeKind.BLOCK and attribute == "read_ahead_kb" and value.isdigit():
        return [f"blockdev --setra {int(value) * SECTORS} {shlex.quote(f'/dev/{device}')}"]
    if change.kind is ChangeKind.BLOCK:
        return [f"echo {shlex.quote(value)} > /sys/block/{shlex.quote(device)}/queue/{attribute}"]
    if change.kind is ChangeKind.LINUX:
        return [f"sysctl -w {shlex.quote(f'{change.knob}={value}')}"]
    return [f"by hand: {change.knob} = {value}"]


def can_be_applied(finding: Finding, *, may_set_linux: bool = True) -> bool:
    """Tell whether `pgdyno apply` and `experiment --rule` have something to set of this finding, and refuse nothing.

    Without `may_set_linux` they refuse Linux knobs, which only root may change.
    """
    parts = parts_of([finding])
    is_refused = parts.refused or (not may_set_linux and any(map(is_linux_knob, parts.settings)))
    return bool(parts.settings) and not is_refused
