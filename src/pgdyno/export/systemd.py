"""tmpfiles.d for what is below /sys early, a unit for debugfs and SMT, a timer for a scheduled VACUUM.

The undo of each is a shell script that removes the file and writes the values as they were found.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from pgdyno.export.advice import SCHEDULE, ExportedAdvice, comment
from pgdyno.export.linux_items import EARLY, files_below_sys, in_debugfs, is_word
from pgdyno.kernel.kernel_knobs import MIGRATION_COST_FILE
from pgdyno.kernel.kernel_smt import CONTROL
from pgdyno.kernel.persist import early_lines, kernel_unit
from pgdyno.model import linux
from pgdyno.model.finding import Change, ChangeKind

TMPFILES, UNIT, UNDO = "pgdyno-advice-tmpfiles.conf", "pgdyno-advice-kernel.service", "pgdyno-advice-systemd.undo.sh"
VACUUM_UNIT, VACUUM_TIMER = "pgdyno-vacuum.service", "pgdyno-vacuum.timer"
_DAILY = "*-*-* 03:00:00"
_KINDS = (ChangeKind.LINUX, ChangeKind.COMMAND)
_CALENDAR = re.compile(r"[\w*,:./ ~-]+")


def files(advice: ExportedAdvice) -> dict[str, str]:
    """Return the files that are needed and one script that takes all of them back."""
    early = files_below_sys(advice, EARLY)
    late = _late(advice)
    vacuum = [item.change for item in advice.of(ChangeKind.COMMAND) if is_scheduled_vacuum(item.change)]
    made: dict[str, str] = {}
    undo: list[str] = []
    if early:
        lines = early_lines({name: change.value for name, change in early.items()})
        made[TMPFILES] = advice.head(f"/etc/tmpfiles.d/{TMPFILES}", _KINDS, about=_is_here) + lines
        undo.append(f"rm -f /etc/tmpfiles.d/{TMPFILES}")
        undo += [_write(change.current, linux.LINUX[name].path) for name, change in early.items()]
    if late:
        made[UNIT] = advice.head(f"/etc/systemd/system/{UNIT}", _KINDS, about=_is_here) + kernel_unit(
            [now for now, _ in late]
        )
        undo += [f"systemctl disable {UNIT}", f"rm -f /etc/systemd/system/{UNIT}", *(back for _, back in late)]
    if vacuum:
        made |= _vacuum(advice, vacuum)
        undo += [f"systemctl disable --now {VACUUM_TIMER}"]
        undo += [f"rm -f /etc/systemd/system/{VACUUM_TIMER} /etc/systemd/system/{VACUUM_UNIT}"]
    if not made:
        return {}
    if late or vacuum:
        undo.append("systemctl daemon-reload")
    head = "#!/bin/sh\n" + advice.head("undo of the files for systemd, as root", _KINDS, about=_is_here)
    return {**made, UNDO: head + "".join(f"{line}\n" for line in undo)}


def is_scheduled_vacuum(change: Change) -> bool:
    """Tell whether a command is a VACUUM that is to be run by a timer."""
    return bool(change.commands) and all(command.split()[:1] == ["vacuumdb"] for command in change.commands)


def _is_here(change: Change) -> bool:
    return change.knob in (*EARLY, linux.SMT, linux.MIGRATION_COST) or is_scheduled_vacuum(change)


def _late(advice: ExportedAdvice) -> list[tuple[str, str]]:
    """Return commands with their undo for what a unit must write."""
    found: list[tuple[str, str]] = []
    host = advice.inventory.host
    for item in advice.of(ChangeKind.LINUX):
        change = item.change
        if not is_word(change.value):
            continue
        if change.knob == linux.MIGRATION_COST and in_debugfs(host):
            place = str(host.kernel.migration_interface)
            path = place if place.startswith("/") else MIGRATION_COST_FILE
            found.append((f"echo {shlex.quote(change.value)} > {path}", _write(change.current, path)))
        elif change.knob == linux.SMT:
            by_thread = change.value.isdecimal()
            now = f"ppc64_cpu --smt={change.value}" if by_thread else f"echo {shlex.quote(change.value)} > {CONTROL}"
            if by_thread and change.current is not None:
                found.append((now, f"ppc64_cpu --smt={shlex.quote(change.current)}"))
            else:
                found.append((now, _write(change.current, CONTROL)))
    return found


def _write(value: str | None, path: str) -> str:
    if value is None or not is_word(value):
        return f"# {path} is not known as it was found"
    if "*" in path:
        return f'for file in {path}; do echo {shlex.quote(value)} > "$file"; done'
    return f"echo {shlex.quote(value)} > {path}"


def _vacuum(advice: ExportedAdvice, changes: Iterable[Change]) -> dict[str, str]:
    commands = [command for change in changes for command in change.commands]
    events = [change.value for change in changes if change.knob == SCHEDULE and _CALENDAR.fullmatch(change.value)]
    # A unit is no shell: % is a specifier and $ a variable there (systemd.service(5)).
    lines = "".join(
        f"ExecStart={command.replace('%', '%%').replace('$', '$$')}\n" for command in map(_one_line, commands)
    )
    unit = (
        f"[Unit]\nDescription=Scheduled VACUUM proposed by pgdyno\nAfter=postgresql.service\n\n"
        f"[Service]\nType=oneshot\nUser=postgres\n{lines}"
    )
    timer = (
        f"[Unit]\nDescription=When the scheduled VACUUM runs\n\n"
        f"[Timer]\nOnCalendar={events[0] if events else _DAILY}\nPersistent=true\n\n[Install]\nWantedBy=timers.target\n"
    )
    note = comment(["The window of the timer is a guess: choose one in which the load is low."]) if not events else ""
    return {
        VACUUM_UNIT: advice.head(f"/etc/systemd/system/{VACUUM_UNIT}", _KINDS, about=_is_here) + unit,
        VACUUM_TIMER: advice.head(f"/etc/systemd/system/{VACUUM_TIMER}", _KINDS, about=_is_here) + note + timer,
    }


def _one_line(command: str) -> str:
    return " ".join(command.split())
