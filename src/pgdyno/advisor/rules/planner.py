"""Judges of the rules on what a query may take: memory, parallel workers, and the planner's page costs."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.advisor.amounts import SPILLED_BYTES, total
from pgdyno.advisor.case import Case, Missing, known
from pgdyno.advisor.judgement import CannotTell, Fires, InOrder, Judgement
from pgdyno.advisor.memory_size import BUFFER_OVERHEAD, CACHED, NODES, PROCESS_BYTES, query_bytes, reserve_bytes
from pgdyno.advisor.planned import (
    active_sessions,
    change_to,
    cost_of,
    counted,
    is_set,
    memory_of,
    number_or,
    planned,
    proposes,
    shown,
    usable_cpus,
)
from pgdyno.advisor.wal_pressure import power_of_two
from pgdyno.model.evidence import SPILL_SETTINGS
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Resolution, Severity
from pgdyno.units import bytes_text

MB = 1 << 20
CLOSE = 1.1


def random_page_cost(case: Case) -> Judgement:
    """Offer nearly equal page costs where the working set is cached; warn where they are equal and it is not."""
    random, seq = case.number("random_page_cost"), case.number("seq_page_cost")
    work = known(case.evidence.working_set, "the working set")
    cached = work.kind in CACHED
    state = f"The working set {work.kind} ({bytes_text(work.low_bytes)} to {bytes_text(work.high_bytes)})"
    side = "nearly equal costs may be tried, with plans compared" if cached else "the usual warning against them holds"
    decided = Resolution("CON-39", f"{state}: {side}.")
    fact = f"random_page_cost = {random:g}, seq_page_cost = {seq:g}"
    if not cached:
        if random > CLOSE * seq or not is_set(case.row("random_page_cost")):
            return InOrder(f"{fact}; {state[0].lower()}{state[1:]}, so reads go to disk.", (decided,))
        return Fires(
            current=fact,
            proposed="a random_page_cost that was measured on this storage",
            values={"state": "equal to seq_page_cost, but the working set is not cached"},
            evidence=(f"{state}, and {fact}: the planner takes a random read to be as cheap as the next page.",),
            resolutions=(decided,),
            needs_test=True,
        )
    if random <= 1.5 * seq:
        return InOrder(f"{fact}, close to each other already.", (decided,))
    change = change_to(case, "random_page_cost", round(CLOSE * seq, 4))
    return proposes(
        case,
        change,
        values={"state": f"the working set is cached, try {change.value}"},
        evidence=(f"{state}, and {fact}.",),
        resolutions=(decided,),
        needs_test=True,
    )


def parallel_workers(case: Case) -> Judgement:
    """Offer parallel workers to few sessions, and none where the sessions alone keep all CPUs busy."""
    name = "max_parallel_workers_per_gather"
    current, cpus = case.number(name), usable_cpus(case)
    active = active_sessions(case)
    fact = f"{active:.3g} sessions execute at a time on {cpus} CPUs, with {name} = {current:g}."
    if active >= cpus:
        wanted, words = 0, f"{active:.3g} sessions keep {cpus} CPUs busy without workers: none."
    elif active * 3 <= cpus:
        wanted, words = 2, f"{active:.3g} sessions leave most of {cpus} CPUs idle: two for each query."
    else:
        wanted, words = int(current), "between the two cases of the report: left as it is."
    decided = (Resolution("CON-40", f"By concurrency: {words}"),)
    if wanted == current or (wanted > 0 and current >= wanted):
        return InOrder(fact, decided)
    return proposes(case, change_to(case, name, wanted), evidence=(fact,), resolutions=decided, needs_test=True)


def work_mem(case: Case) -> Judgement:
    """Warn where work_mem can demand more than there is; offer more where queries spill and memory allows it."""
    current = case.number("work_mem")
    decided = tuple(work_mem_side(case))
    sessions = planned(case, "max_connections")
    room = _room(case, sessions)
    demand = _demand(case, current, sessions)
    formula = (
        f"work_mem = {shown(case, 'work_mem')} x hash_mem_multiplier {_multiplier(case):g} x {NODES} nodes x "
        f"({_workers(case):g} workers + 1) x {sessions:g} sessions = "
        f"{bytes_text(query_bytes(current, _multiplier(case), _workers(case), sessions))}; with the workers that there "
        f"are at most, {bytes_text(demand)}, and {bytes_text(max(room, 0))} are there for it."
    )
    if demand > room and is_set(case.row("work_mem")):
        return _too_much(case, current, sessions, room, formula, decided)
    apart = case.overrides("work_mem")
    try:
        spills = _spills(case)
    except Missing as missing:
        reason = missing.answer().reason
        return CannotTell(f"{reason}; it is set apart for {'; '.join(apart)}" if apart else reason)
    if spills is None:
        words = f" It is set apart for {'; '.join(apart)}." if apart else ""
        text = f"work_mem = {shown(case, 'work_mem')}: no temporary files worth a change were seen.{words}"
        return InOrder(text, decided, of_load=not _is_logged(case))
    return _more(case, current, spills, formula, decided)


def work_mem_side(case: Case) -> Iterator[Resolution]:
    """Decide CON-34 by the server's own minimum; a configuration file without a server has that of all versions."""
    least = case.row("work_mem").min_val or "64"
    yield Resolution(
        "CON-34",
        f"This server takes no work_mem below {least}kB, so the 4 KB of the report cannot have been in force; 4 MB, "
        f"the default, is what it reads as. It is {shown(case, 'work_mem')} here.",
    )


def _too_much(
    case: Case, current: float, sessions: float, room: float, formula: str, decided: tuple[Resolution, ...]
) -> Judgement:
    fits = _largest(case, room, sessions)
    default = float(case.row("work_mem").boot_val or 4096) * 1024
    changes = (change_to(case, "work_mem", fits),) if default <= fits < current else ()
    return Fires(
        changes=changes,
        current=f"work_mem = {shown(case, 'work_mem')}",
        proposed=f"work_mem = {changes[0].value}" if changes else "fewer connections, by a pool",
        values={"state": "it can demand more memory than there is"},
        evidence=(formula,),
        severity=Severity.WARNING,
        resolutions=decided,
        cost=cost_of(case, "work_mem"),
        alternatives=("Keep it for single roles: ALTER ROLE reporting SET work_mem = '...';",),
    )


def _more(case: Case, current: float, spills: float, formula: str, decided: tuple[Resolution, ...]) -> Judgement:
    seen = case.evidence.concurrency
    peak = seen if isinstance(seen, Unknown) else seen.connected
    sessions = planned(case, "max_connections") if isinstance(peak, Unknown) else max(1.0, peak)
    fits = _largest(case, _room(case, sessions), sessions)
    # A sort in memory takes more than its file on disk, so the file's own size is where to start.
    proposal = min(fits, power_of_two(spills, least=MB) if spills > 0 else 4 * current)
    text = (
        f"Queries wrote temporary files, the largest of {bytes_text(spills)}."
        if spills > 0
        else "Queries wrote temporary files."
    )
    if proposal <= current:
        return InOrder(f"{text} There is no memory for a larger work_mem: {formula}", decided)
    change = change_to(case, "work_mem", proposal)
    return proposes(
        case,
        change,
        values={"state": f"queries spill to disk, try {change.value}"},
        evidence=(
            text,
            f"{sessions:g} sessions with {change.value} can demand "
            f"{bytes_text(_demand(case, proposal, sessions))} of {bytes_text(_room(case, sessions))}.",
        ),
        resolutions=decided,
        needs_test=True,
        alternatives=("Set it for the statement or role that spills only: ALTER ROLE ... SET work_mem = '...';",),
    )


def _spills(case: Case) -> float | None:
    """Return the bytes of the largest temporary file, 0 when only their traffic is known, None without any."""
    log = case.evidence.log
    if not isinstance(log, Unknown) and log.temp_bytes >= SPILLED_BYTES:
        return float(log.largest_temp_bytes)
    try:
        numbers = counted(case, *SPILL_SETTINGS)
        traffic, spilled = numbers.temp_bytes_s, total("temp_bytes_s", numbers) or 0.0
    except Missing as missing:
        traffic, spilled = Unknown(missing.reason), 0.0
    if not isinstance(traffic, Unknown):
        return 0.0 if spilled >= SPILLED_BYTES else None
    if _is_logged(case):
        return None
    of_log = log.reason if isinstance(log, Unknown) else "log_temp_files is off, so that the log names none"
    raise Missing("the size of temporary files", f"{of_log}; {traffic.reason}")


def _is_logged(case: Case) -> bool:
    """Tell whether the log, which reaches further back than a window, would name temporary files."""
    return not isinstance(case.evidence.log, Unknown) and number_or(case, "log_temp_files", -1) >= 0


def _room(case: Case, sessions: float) -> float:
    memory = memory_of(case)
    shared = planned(case, "shared_buffers") * (1 + BUFFER_OVERHEAD)
    return memory - reserve_bytes(memory) - shared - sessions * PROCESS_BYTES


def _demand(case: Case, work_mem_bytes: float, sessions: float) -> float:
    return work_mem_bytes * _multiplier(case) * NODES * _processes(case, sessions)


def _largest(case: Case, room: float, sessions: float) -> float:
    """Return the largest power of two of work_mem whose worst case fits; the server's minimum when none does."""
    least = float(case.row("work_mem").min_val or 64) * 1024
    fits = room / (_multiplier(case) * NODES * _processes(case, sessions))
    return power_of_two(fits, least=int(least)) / 2 if fits > least else least


def _processes(case: Case, sessions: float) -> float:
    pool = number_or(case, "max_parallel_workers", number_or(case, "max_worker_processes", 0))
    return max(1.0, sessions) + min(max(0.0, sessions) * _workers(case), max(0.0, pool))


def _workers(case: Case) -> float:
    return max(0.0, number_or(case, "max_parallel_workers_per_gather", 0))


def _multiplier(case: Case) -> float:
    return max(1.0, number_or(case, "hash_mem_multiplier", 1.0))
