"""Judges of the rules on how many sessions work at a time; no parameter repairs too many of them."""

from __future__ import annotations

from pgdyno.advisor.case import Case, known
from pgdyno.advisor.judgement import CannotTell, Fires, InOrder, Judgement
from pgdyno.advisor.planned import active_sessions, concurrency_of, shown, usable_cpus
from pgdyno.model.facts import Unknown
from pgdyno.units import agreeing, percent_text, plural

CROWDED = 2.0
"""Active sessions for each CPU from which they mostly wait for one."""
BUSY_IDLE_PCT = 10.0
LOCK_SHARE = 0.10
LOCK_WAITERS = 2.0
"""One session that waits now and then is how locks are meant to work."""


def pooling(case: Case) -> Judgement:
    """Propose a pool where more sessions execute than the CPUs can serve."""
    active, cpus = active_sessions(case), usable_cpus(case)
    fact = f"{active:.3g} sessions execute at a time on {cpus} CPUs"
    if not _saturated(case, active, cpus):
        return InOrder(f"{fact}.")
    idle = _idle(case)
    busy = "" if idle is None else f", which are {idle:.0f} % idle"
    return Fires(
        current=f"{active:.3g} active sessions, max_connections = {shown(case, 'max_connections')}",
        proposed=f"a connection pool that lets about {cpus} to {2 * cpus} sessions work at a time",
        values={"active": f"{active:.3g}", "processors": str(cpus)},
        evidence=(f"{fact}{busy}.", _manager(case)),
    )


def _saturated(case: Case, active: float, cpus: int) -> bool:
    idle = _idle(case)
    return active >= CROWDED * cpus or (active > cpus and idle is not None and idle <= BUSY_IDLE_PCT)


def resource_manager(case: Case) -> Judgement:
    """Say what this flavour has to divide the CPUs among sessions."""
    text = _manager(case)
    active = active_sessions(case)
    if not _saturated(case, active, usable_cpus(case)):
        return InOrder(f"{text} The CPUs are not short here.")
    return Fires(
        proposed="groups of EDB Resource Manager" if _is_epas(case) else "a pool, or limits for each role",
        values={"manager": text},
        evidence=(text, f"{active:.3g} sessions execute at a time on {usable_cpus(case)} CPUs."),
    )


def _is_epas(case: Case) -> bool:
    return case.server.flavour == "EPAS"


def _manager(case: Case) -> str:
    if _is_epas(case):
        return "This is EPAS: EDB Resource Manager can limit the CPU use and dirty rate of groups of sessions."
    return "PostgreSQL has no resource manager: every connection may run as soon as it has work."


def connection_count(case: Case) -> Judgement:
    """Compare the sessions with the knee of the client curve that was measured on this target."""
    seen = concurrency_of(case)
    limit, cpus = case.number("max_connections"), usable_cpus(case)
    knee = seen.knee_clients
    if isinstance(knee, Unknown):
        return CannotTell(
            f"the knee of the client curve is unknown ({knee.reason}); `pgdyno bench` over client counts finds it. "
            f"max_connections = {limit:g} on {cpus} CPUs"
        )
    peak = seen.connected if isinstance(seen.active_max, Unknown) else seen.active_max
    peak = known(peak, "the number of sessions")
    fact = f"Throughput here rose up to {knee} clients; at most {peak:g} were active, max_connections = {limit:g}"
    if peak <= knee:
        return InOrder(f"{fact}.")
    return Fires(
        current=f"{peak:g} active sessions",
        proposed=f"at most about {knee} sessions at work, by a pool",
        values={"knee": str(knee)},
        evidence=(f"{fact}, on {cpus} CPUs.",),
    )


def lock_growth(case: Case) -> Judgement:
    """Say so where sessions wait for each other's locks rather than work."""
    seen, active = concurrency_of(case), active_sessions(case)
    waiting = known(seen.lock_waiters_mean, "the number of sessions that wait for a lock")
    log = case.evidence.log
    deadlocks = 0 if isinstance(log, Unknown) else log.deadlocks
    if waiting < LOCK_WAITERS or waiting / active < LOCK_SHARE:
        return InOrder(f"{waiting:.2g} of {active:.3g} active sessions wait for a lock on average.")
    waits = sorted(
        ((name, mean) for name, mean in seen.waits.items() if name.startswith("Lock:")), key=lambda one: -one[1]
    )
    names = ", ".join(f"{name} {mean:.2g}" for name, mean in waits[:3])
    return Fires(
        current=agreeing(f"{waiting:.3g}", "session", "waits for a lock", "wait for a lock"),
        proposed="fewer sessions at a time: a pool, and shorter transactions",
        values={"share": percent_text(waiting / active)},
        evidence=(
            f"{waiting:.3g} of {active:.3g} active sessions wait for a lock on average"
            + (f": {names}." if names else "."),
            *((f"The log shows {plural(deadlocks, 'deadlock')}.",) if deadlocks else ()),
        ),
    )


def _idle(case: Case) -> float | None:
    host = case.evidence.host
    if isinstance(host, Unknown) or isinstance(host.idle_pct, Unknown):
        return None
    return host.idle_pct
