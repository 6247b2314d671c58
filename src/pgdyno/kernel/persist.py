"""Files that make Linux knobs survive a reboot: made here as text, written by `pgdyno persist --apply` only.

/etc/sysctl.d/90-pgdyno.conf              sysctls; never /etc/sysctl.conf, which newer distributions do not read
/etc/tmpfiles.d/pgdyno.conf               files below /sys that are there early: transparent huge pages, governor
/etc/udev/rules.d/90-pgdyno.rules         block devices, by a name that lasts: they appear when they like
/etc/systemd/system/pgdyno-kernel.service what is there late or needs more than one write: debugfs, SMT
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.kernel import kernel_smt
from pgdyno.kernel.kernel_knobs import MIGRATION_COST_FILE, uses_debugfs
from pgdyno.linux.block_devices import KernelPlaces
from pgdyno.linux.kernel_tree import LIVE, Tree
from pgdyno.model import linux
from pgdyno.outside.files import open_file
from pgdyno.owner.durable import Attributes, replace

MARK = "# Written by pgdyno persist."
_HEAD = f"{MARK} Remove this file to undo it at the next boot.\n"
_SYSCTL = "/etc/sysctl.d/90-pgdyno.conf"
_TMPFILES = "/etc/tmpfiles.d/pgdyno.conf"
_UDEV = "/etc/udev/rules.d/90-pgdyno.rules"
_UNIT = "/etc/systemd/system/pgdyno-kernel.service"
_POOL_NOTE = (
    "# Huge pages are found for certain only early: hugepages=N on the kernel's command line is safer.\n"
    "# PostgreSQL uses them from its next start, with huge_pages = try or on.\n"
)
_PLAIN_NAME = re.compile(r"[\w.:+/ -]+")
"""Names without the letters that a rule of udev would take for a pattern."""


@dataclass(frozen=True, slots=True)
class Artefact:
    """A file to be written: `path` on the machine that it is for, `load` and `remove` are commands of a shell."""

    path: str
    text: str
    load: tuple[str, ...]
    remove: tuple[str, ...]


def artefacts(knobs: Mapping[str, str], places: KernelPlaces, *, tree: Tree = LIVE) -> tuple[Artefact, ...]:
    """Return the files that persist these Linux knobs on this machine; reads names of devices and the release.

    Raises EnvironmentUnsuitable when a block knob's devices are not known, UsageError for a swap area, which belongs
    into /etc/fstab by a person's own hand.
    """
    if linux.SWAP_AREA in knobs:
        raise UsageError(
            f'knob "{linux.SWAP_AREA}" is not persisted: a swap file that lasts is made by hand',
            hint="Leave it out; fstab(5) and swapon(8) say how a swap file is mounted at boot.",
        )
    made = (_sysctl(knobs, tree), _tmpfiles(knobs), _udev(knobs, places, tree), _unit(knobs, tree))
    return tuple(artefact for artefact in made if artefact is not None)


def write_artefacts(files: Iterable[Artefact], root: Path = Path("/")) -> list[Path]:
    """Write the files below a root, folders included, mode 0644; return their paths.

    Raises UsageError, before anything is written, when one exists that pgdyno did not write; EnvironmentUnsuitable
    when one cannot be written.
    """
    placed = [(root / file.path.lstrip("/"), file) for file in files]
    for path, _ in placed:
        _refuse_foreign(path)
    for path, file in placed:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            folder = path.parent.stat()
            replace(path, file.text.encode(), Attributes(folder.st_uid, folder.st_gid, 0o644))
        except OSError as error:
            raise EnvironmentUnsuitable(
                f'"{path}" cannot be written: {(error.strerror or str(error)).lower()}',
                hint="Run it as root, or name another --root.",
            ) from error
    return [path for path, _ in placed]


def _refuse_foreign(path: Path) -> None:
    try:
        with open_file(path) as file:
            is_ours = file.read(len(MARK.encode())).decode(errors="replace") == MARK
    except FileNotFoundError:
        return
    except OSError as error:
        raise EnvironmentUnsuitable(
            f'"{path}" cannot be read: {(error.strerror or str(error)).lower()}', hint="Do it as root."
        ) from error
    if not is_ours:
        raise UsageError(
            f'"{path}" exists and was not written by pgdyno persist',
            hint="Move it away, or copy the lines that are printed without --apply into it yourself.",
        )


def _sysctl(knobs: Mapping[str, str], tree: Tree) -> Artefact | None:
    names = [name for name in knobs if linux.LINUX[name].is_sysctl]
    if uses_debugfs(tree):
        names = [name for name in names if name != linux.MIGRATION_COST]
    note = _POOL_NOTE if linux.NR_HUGEPAGES in names else ""
    lines = "".join(f"{name} = {knobs[name]}\n" for name in names)
    return _artefact(_SYSCTL, note + lines, (f"sysctl -p {_SYSCTL}",)) if names else None


def early_lines(knobs: Mapping[str, str]) -> str:
    """Return the lines of tmpfiles.d for the knobs among these that are there early at boot."""
    early = [name for name, knob in linux.LINUX.items() if knob.is_early and name in knobs]
    return "".join(f"w {linux.LINUX[name].path} - - - - {knobs[name]}\n" for name in early)


def _tmpfiles(knobs: Mapping[str, str]) -> Artefact | None:
    lines = early_lines(knobs)
    return _artefact(_TMPFILES, lines, (f"systemd-tmpfiles --create {_TMPFILES}",)) if lines else None


def _udev(knobs: Mapping[str, str], places: KernelPlaces, tree: Tree) -> Artefact | None:
    wanted = [name for name in (linux.SCHEDULER, linux.READ_AHEAD) if name in knobs]
    if not wanted:
        return None
    if places.problem is not None or not places.disks:
        raise EnvironmentUnsuitable(
            f"the block devices of {' and '.join(wanted)} are not known",
            detail=places.problem,
            hint="Name the server's data directory with --data-directory.",
        )
    rules = [(device, "scheduler", linux.SCHEDULER) for device in places.disks]
    rules += [(device, "read_ahead_kb", linux.READ_AHEAD) for device in places.mounted]
    lines = [_rule(device, attribute, knobs[name], tree) for device, attribute, name in rules if name in knobs]
    reload = ("udevadm control --reload", "udevadm trigger --subsystem-match=block --action=change")
    return _artefact(_UDEV, "".join(lines), reload)


def _rule(device: str, attribute: str, value: str, tree: Tree) -> str:
    return block_rule(_lasting_name(device, tree), attribute, value)


def block_rule(which: str, attribute: str, value: str) -> str:
    """Return the udev rule that sets an attribute of a queue; `which` is the match that tells the device."""
    match = f'ACTION=="add|change", SUBSYSTEM=="block", ENV{{DEVTYPE}}=="disk", {which}'
    return f'{match}, ATTR{{queue/{attribute}}}="{value}"\n'


def _lasting_name(device: str, tree: Tree) -> str:
    """Return what tells a device after a reboot too: a mapping's name, a world-wide or serial number, or its own."""
    for file, key in (("dm/name", "ATTR{dm/name}"), ("wwid", "ATTR{wwid}"), ("serial", "ATTR{serial}")):
        path = f"/sys/block/{device}/{file}"
        text = tree.read(path).strip() if tree.exists(path) else ""
        if _PLAIN_NAME.fullmatch(text):
            return f'{key}=="{text}"'
    return f'KERNEL=="{device}"'


def _unit(knobs: Mapping[str, str], tree: Tree) -> Artefact | None:
    commands: list[str] = []
    if linux.MIGRATION_COST in knobs and uses_debugfs(tree):
        commands.append(f"echo {knobs[linux.MIGRATION_COST]} > {MIGRATION_COST_FILE}")
    if linux.SMT in knobs:
        by_thread = kernel_smt.is_by_thread(tree)
        level = knobs[linux.SMT]
        commands.append(f"ppc64_cpu --smt={level}" if by_thread else f"echo {level} > {kernel_smt.CONTROL}")
    if not commands:
        return None
    name = Path(_UNIT).name
    remove = (f"systemctl disable {name}", f"rm {_UNIT}", "systemctl daemon-reload")
    load = ("systemctl daemon-reload", f"systemctl enable --now {name}")
    return Artefact(_UNIT, _HEAD + kernel_unit(commands), load, remove)


def kernel_unit(commands: Sequence[str]) -> str:
    """Return the unit that runs these commands of a shell once at boot, when debugfs is there."""
    # systemd reads % as a specifier and $ as a variable before the shell sees them (systemd.service(5)).
    words = [shlex.quote(command).replace("%", "%%").replace("$", "$$") for command in commands]
    starts = "".join(f"ExecStart=/bin/sh -c {word}\n" for word in words)
    return (
        "[Unit]\nDescription=Linux settings kept by pgdyno\nAfter=sys-kernel-debug.mount\n"
        "Wants=sys-kernel-debug.mount\nBefore=postgresql.service\n\n"
        f"[Service]\nType=oneshot\nRemainAfterExit=yes\n{starts}\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )


def _artefact(path: str, text: str, load: Sequence[str]) -> Artefact:
    return Artefact(path, _HEAD + text, tuple(load), (f"rm {path}",))
