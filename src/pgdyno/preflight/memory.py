"""Whether the memory that the server takes at start is there. Pure."""

from __future__ import annotations

from pgdyno.model.facts import Unknown
from pgdyno.preflight.plan import StartPlan
from pgdyno.preflight.reading_host import SharedSegment, StartHost
from pgdyno.preflight.result import Result, not_applicable, noted, passed, refused
from pgdyno.units import bytes_text

_STRICT = "2"
_SMALLER = "Choose smaller shared_buffers; pgdyno knobs show shared_buffers gives the range for this host."


def shared_memory(plan: StartPlan, need: int | Unknown, host: StartHost) -> Result:
    """Compare the shared memory of the next start, in bytes, with RAM and the cgroups' limits.

    Above the limit the server is killed as soon as it has used it, so that is refused even though mmap may grant it.
    """
    check, there = "shared memory", host.memory_limit
    if not plan.restart:
        return not_applicable(check, "a reload takes none")
    if isinstance(need, Unknown) or isinstance(there, Unknown):
        reason = need.reason if isinstance(need, Unknown) else str(there)
        return not_applicable(check, reason)
    figures = {"asked": bytes_text(need), "there": bytes_text(there)}
    asked = plan.figure("shared_buffers")
    if need > there:
        sentence = f"{asked} needs {figures['asked']} of shared memory, and host and cgroup give {figures['there']}"
        return refused(check, sentence, **figures, hint=_SMALLER)
    held = host.segment.size_bytes if isinstance(host.segment, SharedSegment) else 0
    available = host.memory.get("MemAvailable")
    if available is not None and need > available + held:
        return noted(
            check,
            f"{asked} needs {figures['asked']} of shared memory; {bytes_text(available + held)} are free at the moment",
            **figures,
            hint="The rest is used by other programs: see who, or expect swapping.",
        )
    return passed(check, f"{asked} fits", **figures)


def commit_limit(plan: StartPlan, need: int | Unknown, host: StartHost) -> Result:
    """Compare the shared memory of the next start with what strict overcommit (vm.overcommit_memory = 2) leaves.

    Huge pages do not count there (Documentation/mm/overcommit-accounting.rst of the kernel), so `on` passes.
    """
    check = "commit limit"
    if host.sysctl.get("vm/overcommit_memory") != _STRICT:
        return not_applicable(check, "vm.overcommit_memory is not 2")
    if not plan.restart:
        return not_applicable(check, "a reload takes no memory")
    if plan.text("huge_pages") == "on":
        return not_applicable(check, "huge pages do not count against it")
    limit, committed = host.memory.get("CommitLimit"), host.memory.get("Committed_AS")
    if isinstance(need, Unknown) or limit is None or committed is None:
        reason = need.reason if isinstance(need, Unknown) else "/proc/meminfo has no CommitLimit"
        return not_applicable(check, reason)
    released = host.segment.size_bytes if isinstance(host.segment, SharedSegment) else 0
    there = max(limit - committed + released, 0)
    figures = {"asked": bytes_text(need), "there": bytes_text(there)}
    if need > there:
        return refused(
            check,
            f"{plan.figure('shared_buffers')} needs {figures['asked']}, and the kernel's commit limit "
            f"leaves {figures['there']}",
            **figures,
            hint="Choose smaller shared_buffers, or raise vm.overcommit_ratio.",
        )
    return passed(check, "strict overcommit leaves enough", **figures)
