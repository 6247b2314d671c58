"""Judges of the rules on buffers and caches: how much of the memory is PostgreSQL's, and how much the page cache's."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.advisor.amounts import READ_BYTES, total
from pgdyno.advisor.case import Case, Missing, known
from pgdyno.advisor.judgement import CannotTell, DoesNotApply, Fires, InOrder, Judgement
from pgdyno.advisor.memory_size import (
    BUFFER_OVERHEAD,
    CACHED,
    PROCESS_BYTES,
    SMALL_SHARES,
    buffers_bytes,
    cache_bytes,
    query_bytes,
    reserve_bytes,
    rounded_bytes,
)
from pgdyno.advisor.planned import (
    change_to,
    counted,
    kills_in_group,
    memory_of,
    number_or,
    planned,
    proposes,
    shown,
    working_set_of,
    written,
)
from pgdyno.model.evidence import Statistics, WorkingSetClass, WorkloadClass
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Resolution, Severity
from pgdyno.units import bytes_text, percent_text, rate_text

NEAR = 0.8
"""A value within a fifth of the start value is as good as it."""
LOW_HIT_RATIO = 0.9
BLOCK = 8192
MANY_READS_S = 1000.0
"""So many blocks a second are a load, also where the cache is larger than what a short window reads."""


def shared_buffers(case: Case) -> Judgement:
    """Propose a quarter of the memory, or 5 to 10 % where the working set fits only once or not at all."""
    memory, current = memory_of(case), case.number("shared_buffers")
    work = working_set_of(case)
    kind = None if work is None else work.kind
    proposal = buffers_bytes(memory, case.host.memory.limited_by == "RAM", kind)
    decided = (Resolution("CON-09", _by_working_set(case)),)
    small = kind in SMALL_SHARES
    evidence = [
        f"The server may use {bytes_text(memory)} of memory ({case.host.memory.limited_by}); shared_buffers holds "
        f"{bytes_text(current)}, {percent_text(current / memory, 1)} of it."
    ]
    if work is not None:
        evidence.append(
            f"The working set is {bytes_text(work.low_bytes)} to {bytes_text(work.high_bytes)} and {work.kind} "
            f"({work.method})."
        )
    if current >= memory:
        evidence.append("The server may not use as much: once so many buffers are filled, the OOM killer ends it.")
        return _buffers(case, proposal, evidence, decided, severity=Severity.CRITICAL)
    if current > memory / 2:
        evidence.append("More than half of the memory: what the load gains here it loses in the page cache.")
        return _buffers(case, proposal, evidence, decided, severity=Severity.WARNING)
    if kind is WorkingSetClass.SHARED_BUFFERS:
        return InOrder(f"The working set fits in shared_buffers = {shown(case, 'shared_buffers')}.", decided)
    if current >= NEAR * proposal and not (small and current > 2 * proposal):
        return InOrder(f"shared_buffers = {shown(case, 'shared_buffers')} of {bytes_text(memory)}.", decided)
    size = _database_bytes(case)
    if size is not None and current >= size:
        return InOrder(f"shared_buffers holds all databases ({bytes_text(size)}).", decided)
    if small and case.evidence.workload not in (WorkloadClass.READ_ONLY, WorkloadClass.MOSTLY_READ):
        evidence.append("The small value was found with a read-only load; writes make small buffers costlier.")
    return _buffers(case, proposal, evidence, decided, needs_test=small)


def _buffers(
    case: Case,
    proposal: float,
    evidence: list[str],
    resolutions: tuple[Resolution, ...],
    *,
    severity: Severity | None = None,
    needs_test: bool = False,
) -> Fires:
    memory = memory_of(case)
    less = proposal < case.number("shared_buffers")
    eighth, half = rounded_bytes(memory / 8), rounded_bytes(memory / 2)
    return proposes(
        case,
        change_to(case, "shared_buffers", proposal),
        evidence=tuple(evidence),
        resolutions=resolutions,
        severity=severity,
        needs_test=needs_test,
        effects_from=(("dbtune-ybio",) if needs_test else ()) if less else None,
        alternatives=(
            f"An eighth of the memory ({bytes_text(eighth)}) lost nothing with the OLTP load of 2017 and leaves more "
            "to the page cache.",
            f"Half of the memory ({bytes_text(half)}) only as an experiment: it triggered the OOM killer in 2017, "
            "which could not be reproduced in 2023; more than half never.",
        ),
    )


def _by_working_set(case: Case) -> str:
    work = working_set_of(case)
    if work is None:
        return f"The working set is {case.evidence.working_set}: a quarter of the memory is where to start."
    size = f"{bytes_text(work.low_bytes)} to {bytes_text(work.high_bytes)}"
    match work.kind:
        case WorkingSetClass.SHARED_BUFFERS:
            return f"The working set of {size} fits in shared_buffers; up to half of the memory may be tried."
        case WorkingSetClass.RAM_TWICE:
            return f"The working set of {size} fits twice in RAM, so both caches can hold it: a quarter."
        case WorkingSetClass.RAM_ONCE:
            return f"The working set of {size} fits only once in RAM, so one cache must hold it: a tenth."
        case WorkingSetClass.EXCEEDS:
            return f"The working set of {size} exceeds RAM: a twentieth, and the page cache gets the rest."


def _database_bytes(case: Case) -> int | None:
    databases = case.server.databases
    if isinstance(databases, Unknown) or not databases:
        return None
    total = 0
    for database in databases:
        if isinstance(database.size_bytes, Unknown):
            return None
        total += database.size_bytes
    return total or None


def effective_cache_size(case: Case) -> Judgement:
    """Propose three quarters of the memory; it allocates nothing and steers the planner."""
    memory, current = memory_of(case), case.number("effective_cache_size")
    proposal = cache_bytes(memory, case.host.memory.limited_by == "RAM")
    fact = f"effective_cache_size = {shown(case, 'effective_cache_size')} with {bytes_text(memory)} of memory"
    if NEAR * proposal <= current <= memory:
        return InOrder(f"{fact}.")
    more = "more than there is" if current > memory else f"{percent_text(current / memory)} of it"
    return proposes(
        case,
        change_to(case, "effective_cache_size", proposal),
        evidence=(f"{fact}, {more}.", f"shared_buffers will be {bytes_text(planned(case, 'shared_buffers'))} of it."),
        effects_from=() if proposal < current else None,
    )


def shared_buffers_half(case: Case) -> Judgement:
    """Offer half of the memory as an experiment where nothing speaks against it."""
    memory = memory_of(case)
    half = min(rounded_bytes(memory / 2), memory // 2)
    work = working_set_of(case)
    against = _against_half(case, memory, half)
    if against is not None:
        return DoesNotApply(against, (Resolution("CON-08", f"Half is not offered here: {against}."),))
    if work is not None and work.kind not in CACHED:
        reason = f"the working set {work.kind}, where the page cache serves better"
        return DoesNotApply(reason, (Resolution("CON-08", f"Half is not offered here: {reason}."),))
    if planned(case, "shared_buffers") >= NEAR * half:
        reason = f"shared_buffers will be {bytes_text(planned(case, 'shared_buffers'))}, about half already"
        return InOrder(f"{reason}.", (Resolution("CON-08", f"Never more than half: {reason}."),))
    text = written(case, "shared_buffers", half)
    return Fires(
        current=f"shared_buffers = {shown(case, 'shared_buffers')}",
        proposed=f"an experiment with shared_buffers = {text}",
        values={"half": text},
        evidence=(
            f"{bytes_text(memory)} of memory; swap is there, the worst case fits beside {text}, and no OOM kill was "
            "seen.",
        ),
        resolutions=(
            Resolution(
                "CON-08",
                f"A quarter to start with; {text} only as an experiment, because swap is there, the memory budget "
                "holds and no OOM kill was seen; never more.",
            ),
        ),
        needs_test=True,
    )


def half_side(case: Case) -> Iterator[Resolution]:
    """Decide CON-08 where something that half of the memory asks for is not known: then it is not offered."""
    memory = memory_of(case)
    try:
        _against_half(case, memory, min(rounded_bytes(memory / 2), memory // 2))
    except Missing as missing:
        yield Resolution(
            "CON-08",
            f"A quarter to start with; half is not offered while this is unknown: {missing.what} ({missing.reason}).",
        )


def _against_half(case: Case, memory: int, half: float) -> str | None:
    """Return what speaks against half of the memory, None when nothing does. Raises Missing, last of all."""
    if not known(case.host.memory.swap, "swap"):
        return "there is no swap, and a spike would call the OOM killer"
    kills, in_group = case.evidence.kernel_oom_kills, kills_in_group(case)[0]
    log = case.evidence.log
    for count, where in ((kills, ""), (in_group, " in the server's cgroup")):
        if isinstance(count, int) and count > 0:
            return f"the kernel's OOM killer struck {count} times{where}"
    if not isinstance(log, Unknown) and log.killed_by_9:
        return f"the log shows {log.killed_by_9} processes that were killed by signal 9"
    sessions = planned(case, "max_connections")
    demand = (
        half * (1 + BUFFER_OVERHEAD)
        + sessions * PROCESS_BYTES
        + query_bytes(planned(case, "work_mem"), number_or(case, "hash_mem_multiplier", 1.0), 0, sessions)
        + number_or(case, "autovacuum_max_workers", 0) * planned(case, "maintenance_work_mem")
    )
    room = memory - reserve_bytes(memory)
    if demand > room:
        return (
            f"the worst case of {sessions:g} sessions would demand {bytes_text(demand)} of the {bytes_text(room)} "
            "that there are without the reserve"
        )
    if isinstance(kills, Unknown) and isinstance(log, Unknown):
        raise Missing("whether the OOM killer was here", f"{log.reason}; {kills.reason}")
    return None


def buffer_cache_small(case: Case) -> Judgement:
    """Say so when many blocks come from outside of shared_buffers and buffers are evicted for them."""
    numbers = counted(case, "shared_buffers")
    hit = known(numbers.hit_ratio, "the hit ratio")
    current, memory = case.number("shared_buffers"), memory_of(case)
    work = working_set_of(case)
    if hit >= LOW_HIT_RATIO:
        return InOrder(
            f"{percent_text(hit, 1)} of the blocks were found in shared_buffers = {shown(case, 'shared_buffers')}.",
            of_load=True,
        )
    few = _only_filled(numbers, current)
    if few is not None:
        return InOrder(f"{percent_text(hit, 1)} of the blocks were found in shared_buffers, but {few}.", of_load=True)
    if work is not None and work.kind in SMALL_SHARES and current >= NEAR * SMALL_SHARES[work.kind] * memory:
        return InOrder(
            f"{percent_text(hit, 1)} of the blocks were found in shared_buffers, but the working set {work.kind}: "
            "the page cache holds more of it.",
            of_load=True,
        )
    size = _database_bytes(case)
    if current >= memory / 4 or (size is not None and current >= size):
        return InOrder(
            f"{percent_text(hit, 1)} of the blocks were found, and shared_buffers has its share of the memory.",
            of_load=True,
        )
    evidence = [
        f"{percent_text(hit, 1)} of the blocks were found in shared_buffers = {shown(case, 'shared_buffers')}, "
        f"{percent_text(current / memory, 1)} of {bytes_text(memory)}."
    ]
    mean = " (mean since the statistics were reset, idle times included)" if numbers.window.is_mean_of_all else ""
    if not isinstance(numbers.evictions_s, Unknown):
        evidence.append(f"Buffers evicted to make room{mean}: {rate_text(numbers.evictions_s)} a second.")
    if not isinstance(numbers.blocks_read_s, Unknown):
        evidence.append(f"Blocks read into shared_buffers{mean}: {rate_text(numbers.blocks_read_s)} a second.")
    planned_bytes = planned(case, "shared_buffers")
    return Fires(
        current=f"shared_buffers = {shown(case, 'shared_buffers')}",
        proposed=f"shared_buffers = {bytes_text(planned_bytes)} (shared-buffers)"
        if planned_bytes > current
        else "a larger shared_buffers",
        values={"hit": percent_text(hit)},
        evidence=tuple(evidence),
    )


def _only_filled(counted: Statistics, buffers: float) -> str | None:
    """Return in words that what was read may just have filled the cache; None where more was read."""
    blocks = total("blocks_read_s", counted)
    if blocks is None or not isinstance(counted.blocks_read_s, float):
        return None
    size = blocks * BLOCK
    if size >= max(READ_BYTES, buffers) or (size >= READ_BYTES and counted.blocks_read_s >= MANY_READS_S):
        return None
    return f"the {bytes_text(size)} that were read from outside of it may be what filled it"


def double_buffering(case: Case) -> Judgement:
    """Explain with this machine's numbers that each block is cached twice."""
    buffers, memory = planned(case, "shared_buffers"), memory_of(case)
    work = working_set_of(case)
    if work is None:
        return CannotTell(f"the working set is {case.evidence.working_set}")
    twice = max(0.0, memory - buffers)
    evidence = [
        f"{bytes_text(memory)} of memory less shared_buffers of {bytes_text(buffers)} leave at most "
        f"{bytes_text(twice)} to the page cache and the sessions.",
        f"The working set of {bytes_text(work.low_bytes)} to {bytes_text(work.high_bytes)} {work.kind}; "
        f"up to {bytes_text(min(buffers, work.high_bytes))} of it lie in both caches.",
    ]
    cached = case.host.memory.page_cache_bytes
    if not isinstance(cached, Unknown):
        evidence.append(f"The page cache holds {bytes_text(cached)} now.")
    if work.kind is WorkingSetClass.SHARED_BUFFERS:
        return InOrder("The working set fits in shared_buffers: the page cache is hardly asked.")
    return Fires(values={"kind": str(work.kind)}, evidence=tuple(evidence))


def memory_reserve(case: Case) -> Judgement:
    """Check that memory is left for the page cache and for spikes; huge pages are lost to both."""
    facts, memory = case.host.memory, memory_of(case)
    if isinstance(facts.ram_bytes, int) and memory < facts.ram_bytes:  # what the host has left is not the server's
        ram, available = memory, known(facts.group_available_bytes, "memory available below the cgroup's limit")
    else:
        ram, available = known(facts.ram_bytes, "RAM"), known(facts.available_bytes, "available memory")
    pool = _pool_bytes(case)
    buffers = planned(case, "shared_buffers")
    used = ram - available
    reserve = reserve_bytes(memory)
    lost = Resolution(
        "CON-38",
        f"The pool of huge pages ({bytes_text(pool)}) cannot serve the page cache, so it is counted as used; "
        f"shared_buffers takes {bytes_text(buffers)} of {bytes_text(memory)}"
        + ("; with buffers this small, huge pages bring little." if buffers < memory / 16 else "."),
    )
    text = (
        f"{bytes_text(used)} of {bytes_text(ram)} are used (total less available), {bytes_text(available)} are "
        f"available to the page cache and to spikes; the reserve is {bytes_text(reserve)}."
    )
    taken = max(pool, buffers)
    if available >= reserve and taken <= memory - reserve:
        return InOrder(text, (lost,))
    evidence = [text]
    if taken > memory - reserve:
        evidence.append(f"shared_buffers and the pool of huge pages take {bytes_text(taken)} of {bytes_text(memory)}.")
    return Fires(values={"available": bytes_text(available)}, evidence=tuple(evidence), resolutions=(lost,))


def _pool_bytes(case: Case) -> float:
    facts = case.host.memory
    if isinstance(facts.huge_pages_total, Unknown) or isinstance(facts.huge_page_bytes, Unknown):
        raise Missing("the pool of huge pages", str(facts.huge_pages_total))
    return facts.huge_pages_total * facts.huge_page_bytes
