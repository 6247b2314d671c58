"""A profile of tuned; the undo is to go back to the profile that was active."""

from __future__ import annotations

import shlex

from pgdyno.export.advice import ExportedAdvice, comment
from pgdyno.export.linux_items import (
    BlockChange,
    block_changes,
    files_below_sys,
    is_word,
    pool_notes,
    sysctls_of,
)
from pgdyno.model import linux
from pgdyno.model.finding import ChangeKind

PROFILE = "pgdyno"
NAME, UNDO = f"{PROFILE}/tuned.conf", f"{PROFILE}/undo.sh"
_KINDS = (ChangeKind.LINUX, ChangeKind.BLOCK)


def files(advice: ExportedAdvice) -> dict[str, str]:
    """Return the profile, on top of the active one, and its undo."""
    sections = _sections(advice)
    if not sections:
        return {}
    active = advice.inventory.host.kernel.tuned_profile
    known = active if isinstance(active, str) and is_word(active) and active != PROFILE else None
    text = advice.head(f"/etc/tuned/{NAME}", _KINDS) + comment([f"Make it active: tuned-adm profile {PROFILE}"])
    text += comment(pool_notes(sysctls_of(advice)))
    text += comment([f"not written: {name}: {reason}" for name, reason in sysctls_of(advice).listed.items()])
    text += "[main]\nsummary=Linux settings proposed by pgdyno\n" + (f"include={known}\n" if known else "")
    text += "".join(f"\n[{name}]\n{lines}" for name, lines in sections.items())
    undo = "#!/bin/sh\n" + advice.head("undo of the profile of tuned, as root", _KINDS)
    if known is None:
        undo += comment([f"Which profile was active is {active}; tuned-adm off puts the values back."])
    undo += f"tuned-adm profile {shlex.quote(known)}\n" if known else "tuned-adm off\n"
    return {NAME: text, UNDO: undo + f"rm -rf /etc/tuned/{PROFILE}\n"}


def _sections(advice: ExportedAdvice) -> dict[str, str]:
    sections: dict[str, str] = {}
    sysctls = sysctls_of(advice).written
    if sysctls:
        sections["sysctl"] = "".join(f"{name}={value}\n" for name, value in sysctls.items())
    early = files_below_sys(advice, (linux.THP_ENABLED, linux.THP_DEFRAG, linux.GOVERNOR))
    thp = {linux.THP_ENABLED: "transparent_hugepages", linux.THP_DEFRAG: "transparent_hugepage.defrag"}
    lines = "".join(f"{word}={early[name].value}\n" for name, word in thp.items() if name in early)
    if lines:
        sections["vm"] = lines
    if linux.GOVERNOR in early:
        sections["cpu"] = f"governor={early[linux.GOVERNOR].value}\n"
    by_device: dict[str, list[BlockChange]] = {}
    for change in block_changes(advice):
        by_device.setdefault(change.device, []).append(change)
    for number, (device, changes) in enumerate(by_device.items()):
        sections[f"disk_pgdyno_{number}"] = f"type=disk\ndevices={device}\n" + "".join(map(_disk_line, changes))
    return sections


def _disk_line(change: BlockChange) -> str:
    """Return a line of the disk plugin, whose read-ahead is in KiB unless an `s` says sectors."""
    return f"elevator={change.value}\n" if change.attribute == "scheduler" else f"readahead={change.value}\n"
