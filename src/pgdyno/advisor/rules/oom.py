"""Kills by the out-of-memory killer, in the server's log, the kernel's log and the cgroup."""

from __future__ import annotations

from pgdyno.advisor.case import Case
from pgdyno.advisor.judgement import CannotTell, Fires, InOrder, Judgement
from pgdyno.advisor.planned import MEMORY_SETTINGS, kills_in_group
from pgdyno.model import linux
from pgdyno.model.evidence import HostActivity, LogEvidence
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Severity
from pgdyno.units import binary_text, percent_text


def oom_kills(case: Case) -> Judgement:
    """Count kills from every source that could be read; one that tells of a kill is enough."""
    seen: dict[str, int] = {}
    log, host, kernel = case.evidence.log, case.evidence.host, case.evidence.kernel_oom_kills
    if isinstance(log, LogEvidence):
        seen["terminated by signal 9 in the server's log"] = log.killed_by_9
    if isinstance(kernel, int):
        seen[f"kills of PostgreSQL's processes in the kernel's log {case.evidence.kernel_oom_since}"] = kernel
    in_group, earlier = kills_in_group(case)
    if isinstance(case.host.memory.group_oom_kills, int) and not earlier:
        seen["kills in the server's cgroup (memory.events)"] = in_group
    if isinstance(host, HostActivity) and isinstance(host.oom_kills, int):
        seen["OOM kills counted by the kernel in the window"] = host.oom_kills
    if not seen:
        return CannotTell("neither the server's log nor the kernel's counters could be read")
    if not any(seen.values()):
        return InOrder(f"None: {', '.join(f'{count} {what}' for what, count in seen.items())}{_before(case, earlier)}.")
    evidence = [f"{count} {what}." for what, count in seen.items() if count]
    if isinstance(log, LogEvidence):
        evidence += [f"The log says: {log.quotes[name]}" for name in ("killed_by_9", "oom") if name in log.quotes]
    in_log = isinstance(log, LogEvidence) and log.killed_by_9 > 0
    are_ours = in_log or (isinstance(kernel, int) and kernel > 0)
    if in_log and not any(count for what, count in seen.items() if "signal 9" not in what):
        evidence.append("Signal 9 can also come from a person; the kernel's log tells the two apart.")
    if not in_log:
        evidence.append(_not_in_log(case))
    evidence += _memory(case)
    return Fires(
        current=", ".join(evidence[:1]).rstrip("."),
        proposed="less memory at peak, and protection of the postmaster",
        values={"whose": "processes of PostgreSQL" if are_ours else "processes, whose is not known"},
        evidence=tuple(evidence),
        alternatives=_protections(case),
        severity=_severity(in_log, are_ours, kernel),
    )


def _severity(in_log: bool, are_ours: bool, kernel: int | Unknown) -> Severity:
    """Return how bad it is; a kernel's log that names none of PostgreSQL's says that others were killed."""
    if in_log:
        return Severity.CRITICAL
    return Severity.NOTE if not are_ours and kernel == 0 else Severity.WARNING


def _before(case: Case, in_group: str) -> str:
    """Return the kills that were seen from before the settings were what they are, in words."""
    log, said = case.evidence.log, f"; {in_group}" if in_group else ""
    count = 0 if isinstance(log, Unknown) else log.earlier.get("killed_by_9", 0)
    if isinstance(log, Unknown) or not count:
        return said
    since = log.anew(*MEMORY_SETTINGS)
    return f"; {count} of before {since}, when settings may have been others, are not counted{said}"


def _not_in_log(case: Case) -> str:
    if isinstance(case.evidence.log, LogEvidence):
        return "The log of this server has no such line: they may have been of another server on this host."
    return f"Whether this server's log names them is unknown ({case.evidence.log.reason})."


def _memory(case: Case) -> list[str]:
    memory = case.host.memory
    found = []
    if isinstance(memory.limit_bytes, int) and case.has("shared_buffers"):
        buffers = case.number("shared_buffers")
        found.append(
            f"shared_buffers = {binary_text(buffers)} is {percent_text(buffers / memory.limit_bytes)} of "
            f"{binary_text(memory.limit_bytes)} ({memory.limited_by})."
        )
    if memory.swap == ():
        found.append("There is no swap area that could take a peak.")
    return found


def _protections(case: Case) -> tuple[str, ...]:
    sysctls = case.host.kernel.sysctls
    mode = sysctls.get(linux.OVERCOMMIT_MEMORY) if not hasattr(sysctls, "reason") else None
    stands = f"vm.overcommit_memory is {mode} now. " if mode is not None else ""
    return (
        f"{stands}vm.overcommit_memory = 2 makes an allocation fail in one backend in place of a kill; "
        "vm.overcommit_ratio must then allow for shared memory, which huge pages do not count into.",
        "OOMScoreAdjust=-1000 in the service of the postmaster with PG_OOM_ADJUST_FILE=/proc/self/oom_score_adj and "
        "PG_OOM_ADJUST_VALUE=0 in its environment protects the postmaster and leaves its children killable.",
    )
