"""The process scheduler: a lower migration cost under four conditions, and tips of other machines."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.advisor.case import Case, Missing, known
from pgdyno.advisor.judgement import CannotTell, DoesNotApply, Fires, InOrder, Judgement
from pgdyno.advisor.kernel_table import DEBUGFS_SINCE, dotted
from pgdyno.model import linux
from pgdyno.model.bottleneck import WORDS, Resource
from pgdyno.model.evidence import Concurrency, HostActivity
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Change, ChangeKind, Resolution, Severity
from pgdyno.units import agreeing, plural

DEBUGFS_FILE = "/sys/kernel/debug/sched/migration_cost_ns"
DEFAULT_NS, LOWERED_NS = 500_000, 50_000
IDLE_LEAST_PCT = 10.0
LOCK_WAITERS_SHARE = 0.1
"""Of the active sessions; more that wait for locks is application locking."""
_ELSEWHERE = (Resource.DISK, Resource.WAL_FLUSH, Resource.NETWORK)
"""Whoever waits for these gains nothing by another processor."""
_REFUSED = ("not read", "eperm", "eacces", "permi", "lockdown", "not mounted", "capture")
"""Words of reasons that say nothing of the kernel, only of what this look at it may do."""
LARGE_CPUS = 16
"""The source's small image had 4 processors on one chip, its large one 24 cores with 48 threads."""


def migration_cost(case: Case) -> Judgement:
    """Offer a tenth of the default where four conditions hold; always as something to test."""
    version = known(case.host.kernel.version, "the kernel's version")
    interface = _interface(case, version)
    if not isinstance(interface, str):
        return interface
    cost = known(case.host.kernel.migration_cost_ns, "the migration cost")
    if cost > DEFAULT_NS:
        return DoesNotApply(f"it stands at {cost} ns, above the default: the rule foreign-scheduler-tips judges that")
    if cost <= LOWERED_NS:
        return InOrder(f"The migration cost is {cost} ns, already a tenth of the default or less.")
    refusal, facts = _conditions(case)
    if refusal is not None:
        return refusal
    return _offer(case, version, interface, cost, facts)


def _interface(case: Case, version: tuple[int, int]) -> str | DoesNotApply | CannotTell:
    """Return the file to write, or why there is none: absent, refused, or not read."""
    interface = case.host.kernel.migration_interface
    if isinstance(interface, str):
        if version >= DEBUGFS_SINCE and not interface.startswith("/sys/kernel/debug/"):
            return DoesNotApply(f"from 5.13 on it is in debugfs, and only {interface} was seen here")
        return interface
    place = f"{linux.MIGRATION_COST} is not a sysctl from 5.13 on; {DEBUGFS_FILE}"
    if version < DEBUGFS_SINCE:
        place = f"the sysctl {linux.MIGRATION_COST}"
    reason = interface.reason
    if any(word in reason.lower() for word in _REFUSED):
        return CannotTell(f"{place} could not be read and written ({reason})")
    return DoesNotApply(f"{place} cannot be written here ({reason})")


def _conditions(case: Case) -> tuple[Judgement | None, list[str]]:
    """Check the four conditions; one that does not hold silences the rule, whatever is unknown beside it."""
    facts: list[str] = []
    unknown: list[str] = []
    for condition in (_many_tasks, _idle_time, _no_bottleneck, _no_locking):
        try:
            holds, sentence = condition(case)
        except Missing as missing:
            unknown.append(f"{missing.what} ({missing.reason})")
            continue
        if not holds:
            return DoesNotApply(sentence), facts
        facts.append(sentence)
    if unknown:
        return CannotTell(f"four conditions decide, and unknown are {'; '.join(dict.fromkeys(unknown))}"), facts
    return None, facts


def _many_tasks(case: Case) -> tuple[bool, str]:
    cpus = known(case.host.processor.cpus, "the number of CPUs")
    active = known(_concurrency(case).active_mean, "the number of active sessions")
    sentence = f"{agreeing(f'{active:.3g}', 'session', 'is', 'are')} active on {plural(cpus, 'CPU')}"
    if active <= cpus:
        return False, f"{sentence}: it is for many more users than processors"
    return True, f"Many active tasks: {sentence}."


def _idle_time(case: Case) -> tuple[bool, str]:
    idle = known(_host(case).idle_pct, "the idle time")
    if idle < IDLE_LEAST_PCT:
        return False, f"the CPUs are {idle:.3g} % idle: no idle time is left that other placement could use"
    return True, f"Idle time: the CPUs are {idle:.3g} % idle."


def _no_bottleneck(case: Case) -> tuple[bool, str]:
    """Ask the judge of bottlenecks, whose limits are those of our own runs; %util alone decides nothing there."""
    verdict = known(case.evidence.bottleneck, "what limited the load")
    short = next((one for one in verdict.candidates if one.is_short and one.resource in _ELSEWHERE), None)
    if short is not None:
        verb = "are" if short.resource is Resource.DISK else "is"
        return False, f"{WORDS[short.resource]} {verb} the bottleneck: {short.sentence}"
    shown = next(iter(verdict.evidence), "").partition(" (Threshold")[0]
    return True, f"No bottleneck of disks or network. {shown}".rstrip()


def _no_locking(case: Case) -> tuple[bool, str]:
    concurrency = _concurrency(case)
    waiters = known(concurrency.lock_waiters_mean, "the number of sessions that wait for locks")
    active = known(concurrency.active_mean, "the number of active sessions")
    if waiters > LOCK_WAITERS_SHARE * active:
        return False, f"{waiters:.3g} of {active:.3g} active sessions wait for locks: application locking comes first"
    return True, f"No locking in the application: {waiters:.3g} of {active:.3g} active sessions wait for locks."


def _offer(case: Case, version: tuple[int, int], interface: str, cost: int, facts: list[str]) -> Fires:
    cpus = known(case.host.processor.cpus, "the number of CPUs")
    scattered = known(case.host.processor.scattered, "where the CPUs lie")
    doubts = []
    if scattered:
        doubts.append("the CPUs are scattered over chips, nodes, books or drawers: test first, not recommended without")
    if cpus > LARGE_CPUS:
        doubts.append(f"an image of {cpus} CPUs is large: 14 % were measured on 24 cores, the advice was for few")
    if case.host.kernel.scheduler == "EEVDF":
        doubts.append("the figures were measured with the CFS scheduler, and this kernel has EEVDF")
    not_by_sysctl = interface.startswith("/sys/")
    value = str(LOWERED_NS)
    return Fires(
        changes=(
            Change(ChangeKind.LINUX, linux.MIGRATION_COST, value, str(cost), device=interface if not_by_sysctl else ""),
        ),
        current=f"migration cost {cost} ns",
        proposed=f"{value} ns, after a test here ({interface})",
        values={"interface": interface},
        evidence=(*facts, f"It is read and written in {interface}."),
        doubts=tuple(doubts),
        alternatives=(
            "Sweep a series around it, the default included: `pgdyno experiment --sweep "
            f"{linux.MIGRATION_COST}=25000,50000,100000,250000,500000`.",
        ),
        severity=Severity.NOTE if scattered else None,
        needs_test=True,
    )


def migration_sides(case: Case) -> Iterator[Resolution]:
    """Decide CON-15 by the kernel, CON-13 by the architecture, and CON-14 by the number and the place of the CPUs."""
    kernel, processor = case.host.kernel, case.host.processor
    if not isinstance(kernel.version, Unknown):
        yield Resolution("CON-15", _by_kernel(kernel.version, kernel.migration_interface))
    if not isinstance(processor.architecture, Unknown):
        yield Resolution(
            "CON-13",
            f"The direction is down, after a test: this is {processor.architecture}; raising it is not a candidate.",
        )
    cpus = known(processor.cpus, "the number of CPUs")
    if known(processor.scattered, "where the CPUs lie") or cpus > LARGE_CPUS:
        where = "scattered over chips, nodes, books or drawers" if processor.scattered else "together, a large image"
        yield Resolution("CON-14", f"{cpus} CPUs lie {where}: tested first, adopted only when it is positive.")
    else:
        yield Resolution("CON-14", f"{cpus} CPUs lie together, a small image: a candidate for a test.")


def _by_kernel(version: tuple[int, int], interface: str | Unknown) -> str:
    seen = "" if isinstance(interface, str) else f", which cannot be written here ({interface.reason})"
    if version < DEBUGFS_SINCE:
        return f"Kernel {dotted(version)} is below 5.13: it is the sysctl {linux.MIGRATION_COST}{seen}."
    return f"Kernel {dotted(version)} is not below 5.13: no sysctl line is written, it is {DEBUGFS_FILE}{seen}."


def foreign_tips(case: Case) -> Judgement:
    """Warn of values that lists for x86 recommend, on machines where they were measured to harm."""
    architecture = known(case.host.processor.architecture, "the architecture")
    kernel = case.host.kernel
    cost = kernel.migration_cost_ns if isinstance(kernel.migration_cost_ns, int) else None
    sysctls = {} if isinstance(kernel.sysctls, Unknown) else kernel.sysctls
    autogroup = sysctls.get(linux.AUTOGROUP)
    evidence, changes = [], []
    raised = cost is not None and cost > DEFAULT_NS
    if raised:
        interface = kernel.migration_interface if isinstance(kernel.migration_interface, str) else ""
        evidence.append(f"The migration cost is {cost} ns; the default is {DEFAULT_NS}.")
        if interface:
            device = interface if interface.startswith("/sys/") else ""
            changes.append(Change(ChangeKind.LINUX, linux.MIGRATION_COST, str(DEFAULT_NS), str(cost), device=device))
    files = _raised_in_files(case)
    evidence += files
    if not evidence:
        alone = f"; {linux.AUTOGROUP} = 0, which nobody measured alone" if autogroup == "0" else ""
        if isinstance(kernel.migration_cost_ns, Unknown):
            return CannotTell(f"the migration cost is unknown ({kernel.migration_cost_ns.reason}){alone}")
        return InOrder(f"The migration cost is {cost} ns, not above the default{alone}.")
    if autogroup == "0":
        evidence.append(f"{linux.AUTOGROUP} is 0.")
        if raised:
            changes.append(Change(ChangeKind.LINUX, linux.AUTOGROUP, "1", "0"))
    if architecture == "x86_64":
        evidence.append("On x86 users reported gains with older kernels; nobody measured this kernel. Test it.")
        severity = Severity.NOTE
    else:
        evidence.append(f"The list was made on x86, and this is {architecture}.")
        severity = Severity.WARNING
    measured = "needs a test" if architecture == "x86_64" else "lowered throughput by 2 % on IBM Z"
    named = [f"migration cost {cost} ns"] if raised else []
    named += [f"{linux.AUTOGROUP} = 0"] if autogroup == "0" else []
    return Fires(
        changes=tuple(changes),
        current=", ".join(named) or "lines in files",
        proposed="the kernel's defaults, until a test here says otherwise",
        evidence=tuple(evidence),
        resolutions=(Resolution("CON-13", f"This is {architecture}: the list for x86 {measured}."),),
        severity=severity,
    )


def _raised_in_files(case: Case) -> list[str]:
    files = case.host.kernel.sysctl_files
    if isinstance(files, Unknown):
        return []
    names = (linux.MIGRATION_COST, "kernel.sched_migration_cost")
    return [
        f"{path} sets {name} = {values[name]}."
        for path, values in files.items()
        for name in names
        if name in values and values[name].isdecimal() and int(values[name]) > DEFAULT_NS
    ]


def eevdf(case: Case) -> Judgement:
    """Say what an EEVDF kernel means for the scheduler's advice."""
    version = known(case.host.kernel.version, "the kernel's version")
    return Fires(
        current=f"kernel {dotted(version)} with EEVDF",
        proposed="base_slice_ns is the knob that is left, for experiments",
        evidence=(
            "latency_ns, min_granularity_ns and wakeup_granularity_ns are gone; /sys/kernel/debug/sched/base_slice_ns "
            "is there, and migration_cost_ns still is.",
        ),
    )


def _concurrency(case: Case) -> Concurrency:
    return known(case.evidence.concurrency, "the number of sessions")


def _host(case: Case) -> HostActivity:
    return known(case.evidence.host, "the host's activity")
