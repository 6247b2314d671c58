"""Files of sysctl: lines that this kernel does not have, lines that nobody reads, and what this kernel has in place."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.advisor.case import Case, known
from pgdyno.advisor.judgement import CannotTell, DoesNotApply, Fires, InOrder, Judgement
from pgdyno.advisor.kernel_table import changes_until, dotted, gone_from
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Severity

COMPLETE = 200
"""A listing with fewer names was not all of `sysctl -a`, so that a name missing from it says nothing."""
_OLD_FILE = "/etc/sysctl.conf"
_LINKED = "99-sysctl.conf"
_OURS = (
    "vm.", "net.core.", "net.ipv4.tcp_", "net.ipv6.tcp_", "fs.aio-max-nr", "fs.file-max", "fs.nr_open", "kernel.msg",
    "kernel.numa_balancing", "kernel.sched_", "kernel.sem", "kernel.shm",
)  # fmt: skip
"""Families of sysctls that a database server depends on; what others are set to is not advice about PostgreSQL."""


def names(case: Case) -> Judgement:
    """List names that files set and this kernel does not have; they are never written."""
    files = known(case.host.kernel.sysctl_files, "what the files of sysctl set")
    version = known(case.host.kernel.version, "the kernel's version")
    sysctls = case.host.kernel.sysctls
    found = []
    for path, values in files.items():
        for name in values:
            entry = gone_from(name, version)
            has = None if isinstance(sysctls, Unknown) else name in sysctls
            if entry is not None and not has:
                found.append((name, f"{path}: {name} is gone since {dotted(entry.since)}; now {entry.now}."))
            elif entry is None and has is False and not isinstance(sysctls, Unknown) and len(sysctls) > COMPLETE:
                found.append(
                    (name, f"{path}: this kernel shows no {name} (gone, a module not loaded, or not readable).")
                )
    if not found:
        if not any(files.values()):
            return DoesNotApply("no file of sysctl sets anything")
        if isinstance(sysctls, Unknown):
            return CannotTell(f"which sysctls this kernel has is unknown ({sysctls.reason})")
        if len(sysctls) <= COMPLETE:
            return InOrder(
                f"No name in {_files(files)} of sysctl is among those that left the kernel before {dotted(version)}; "
                f"only {len(sysctls)} names of this kernel were captured."
            )
        return InOrder(f"Every name in {_files(files)} of sysctl is known to this kernel, {dotted(version)}.")
    return Fires(
        current=", ".join(dict.fromkeys(name for name, _ in found)),
        proposed="take the lines out; they do nothing",
        evidence=tuple(sentence for _, sentence in found),
    )


def files(case: Case) -> Judgement:
    """Find values that only /etc/sysctl.conf sets, and values of files that are not in force."""
    found = known(case.host.kernel.sysctl_files, "what the files of sysctl set")
    old = next((values for path, values in found.items() if path.endswith(_OLD_FILE)), {})
    linked = any(path.endswith(_LINKED) for path in found)
    elsewhere = {name for path, values in found.items() if not path.endswith(_OLD_FILE) for name in values}
    alone = [name for name in old if name not in elsewhere and name.startswith(_OURS)] if not linked else []
    differing = _not_in_force(case, found)
    if not any(found.values()):
        return DoesNotApply("no file of sysctl sets anything")
    if not alone and not differing and isinstance(case.host.kernel.sysctls, Unknown):
        return CannotTell(f"whether the files are in force is unknown ({case.host.kernel.sysctls.reason})")
    if not alone and not differing:
        return InOrder(
            "What the files of sysctl.d set for memory, scheduler, network and files is in force, and none of it "
            "stands in /etc/sysctl.conf alone."
        )
    evidence = [
        f"{_OLD_FILE} sets {name} = {old[name]}, and no file of sysctl.d does: systemd from 207 on does not read it."
        for name in alone
    ]
    return Fires(
        current=", ".join([*alone, *(name for name, _ in differing)]),
        proposed="the lines in a file of /etc/sysctl.d, and `sysctl -p FILE` or `sysctl --system`",
        evidence=(*evidence, *(sentence for _, sentence in differing)),
        severity=Severity.WARNING if differing else Severity.NOTE,
    )


def _not_in_force(case: Case, found: object) -> list[tuple[str, str]]:
    """Return names whose value in files differs from the kernel's, unless files contradict each other."""
    sysctls, files_ = case.host.kernel.sysctls, case.host.kernel.sysctl_files
    if isinstance(sysctls, Unknown) or isinstance(files_, Unknown):
        return []
    wanted: dict[str, list[tuple[str, str]]] = {}
    for path, values in files_.items():
        for name, value in values.items():
            wanted.setdefault(name, []).append((path, value))
    return [
        (name, f"{places[-1][0]} sets {name} = {places[-1][1]}, and {sysctls[name].strip()} is in force.")
        for name, places in wanted.items()
        if name.startswith(_OURS)
        and name in sysctls
        and all(value.split() != sysctls[name].split() for _, value in places)
    ]


def generation(case: Case) -> Judgement:
    """Say which interfaces this kernel has; never a finding."""
    version = known(case.host.kernel.version, "the kernel's version")
    found = "; ".join(f"{change.topic}: {change.text}" for change in changes_until(version))
    return InOrder(f"Kernel {dotted(version)}: {found or 'none of the changes that advice depends on'}.")


def _files(files: Mapping[str, object]) -> str:
    return f"{len(files)} file{'' if len(files) == 1 else 's'}"
