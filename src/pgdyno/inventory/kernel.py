"""The kernel: release, distribution, scheduler, sysctls and the files that set them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pgdyno.capture.texts import Capture
from pgdyno.inventory.machine import release_of, version_of
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Kernel, SchedulerGeneration

_COST = "kernel.sched_migration_cost_ns"
_COST_SYSCTL = "/proc/sys/kernel/sched_migration_cost_ns"
_COST_DEBUGFS = "sys/kernel/debug/sched/migration_cost_ns"
_SYSCTL_FILE = re.compile(r"^(?:etc/sysctl\.conf|(?:etc|run|usr/lib)/sysctl\.d/.*\.conf)$")
_SYSCTL_NAME = re.compile(r"[!-~]*[./][!-~]*")
"""A path below /proc/sys with dots or slashes; anything else is a damaged line."""


def read_kernel(capture: Capture) -> Kernel:
    """Return what the capture knows of the kernel."""
    release = release_of(capture)
    version = version_of(release)
    sysctls = _sysctls(capture)
    cost, interface = _migration_cost(capture, sysctls, version)
    return Kernel(
        release=release,
        version=version,
        distribution=_distribution(capture),
        scheduler=scheduler_of(version),
        sysctls=sysctls,
        migration_cost_ns=cost,
        migration_interface=interface,
        command_line=capture.word("proc/cmdline"),
        tuned_profile=_tuned(capture),
        sysctl_files=_sysctl_files(capture),
    )


def scheduler_of(version: tuple[int, int] | Unknown) -> SchedulerGeneration | Unknown:
    """Return the scheduler by the kernel's version: EEVDF since 6.6."""
    if isinstance(version, Unknown):
        return version
    return SchedulerGeneration.EEVDF if version >= (6, 6) else SchedulerGeneration.CFS


def parse_sysctls(text: str) -> dict[str, str]:
    """Return `name = value` lines, as `sysctl -a` prints and as sysctl.conf has them; other lines are left out."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        name = name.strip().removeprefix("-")
        if equals and name[:1] not in ("#", ";") and _SYSCTL_NAME.fullmatch(name):
            found[name if "." in name else name.replace("/", ".")] = value.strip()
    return found


def _sysctls(capture: Capture) -> Mapping[str, str] | Unknown:
    text = capture.text("commands/sysctl.txt")
    if isinstance(text, Unknown):
        return text
    return parse_sysctls(text) or Unknown("commands/sysctl.txt holds no sysctl")


def _migration_cost(
    capture: Capture, sysctls: Mapping[str, str] | Unknown, version: tuple[int, int] | Unknown
) -> tuple[int | Unknown, str | Unknown]:
    """Return the migration cost and the file that sets it: a sysctl until 5.12, a file of debugfs since."""
    if isinstance(sysctls, Mapping) and sysctls.get(_COST, "").isdecimal():
        return int(sysctls[_COST]), _COST_SYSCTL
    if isinstance(version, Unknown):
        return version, version
    if version < (5, 13):
        absent = sysctls if isinstance(sysctls, Unknown) else Unknown(f"this kernel has no {_COST}")
        return absent, absent
    found = _debugfs_cost(capture)
    return found, found if isinstance(found, Unknown) else f"/{_COST_DEBUGFS}"


def _debugfs_cost(capture: Capture) -> int | Unknown:
    if _COST_DEBUGFS in capture.texts:
        return capture.number(_COST_DEBUGFS)
    listed = re.search(r"migration_cost_ns:\s*(\d+)", capture.maybe("commands/sched_debugfs.txt") or "")
    if listed:
        return int(listed[1])
    lines = (capture.maybe("commands/migration_cost.txt") or "").split()
    if lines and lines[0].isdecimal():
        return int(lines[0])
    return capture.reason(_COST_DEBUGFS)


def _distribution(capture: Capture) -> str | Unknown:
    text = capture.text("etc/os-release")
    if isinstance(text, str):
        name = re.search(r'^PRETTY_NAME="?([^"\n]+)', text, re.MULTILINE)
        if name:
            return name[1]
    known = re.search(r"\b(Debian|Ubuntu)\b", capture.maybe("commands/uname.txt") or "")
    if known:
        return known[1]
    return text if isinstance(text, Unknown) else Unknown("etc/os-release has no PRETTY_NAME")


def _tuned(capture: Capture) -> str | Unknown:
    text = capture.text("commands/tuned_adm.txt")
    if isinstance(text, Unknown):
        return text
    active = re.search(r"active profile:\s*(\S+)", text)
    return active[1] if active else Unknown("tuned names no active profile")


def _sysctl_files(capture: Capture) -> Mapping[str, Mapping[str, str]] | Unknown:
    found = {f"/{key}": parse_sysctls(text) for key, text in capture.texts.items() if _SYSCTL_FILE.match(key)}
    if found or "commands/getconf_pagesize.txt" in capture.texts:
        return found
    return capture.reason("etc/sysctl.conf")
