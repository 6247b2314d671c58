"""What one trial offers, and which knobs it is therefore too short, too small or too one-sided to judge."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.knobs.catalogue import Needs
from pgdyno.knobs.values import number_of
from pgdyno.model.facts import Facts, Unknown
from pgdyno.units import plural, seconds_text


@dataclass(frozen=True, slots=True)
class TrialBudget:
    """One trial: times in seconds; `restores` when the load's database is cloned again before each trial.

    `connections` is the number of concurrent sessions, None to count with max_connections.
    `checkpoint_interval_s` is the time between checkpoints that the baseline showed, None to count with
    checkpoint_timeout, the longest that it can be. `analyzes` when the tables are analyzed after each change.
    """

    measure_s: float
    warmup_s: float
    read_only: bool
    restores: bool = False
    connections: int | None = None
    checkpoint_interval_s: float | None = None
    analyzes: bool = False


def unmet_need(needs: Needs, budget: TrialBudget, facts: Facts) -> str | None:
    """Return why a trial cannot show the effect of a knob with these needs, None when it can."""
    if needs.write_load and budget.read_only:
        return "cannot show an effect under a read-only load"
    if needs.warm_cache and budget.warmup_s <= 0:
        return "needs a warm cache, and the trial has no warm-up"
    if needs.analyze and not budget.analyzes:
        return "needs the tables analyzed again, and a trial does not analyze them"
    if needs.connections and budget.connections is not None and budget.connections < needs.connections:
        return f"needs at least {needs.connections} concurrent sessions, and the load has {budget.connections}"
    return (
        _unmet_competition(needs, budget, facts)
        or _unmet_huge_pages(needs, facts)
        or _unmet_checkpoints(needs, budget, facts)
        or _unmet_vacuum(needs, budget, facts)
    )


def _unmet_competition(needs: Needs, budget: TrialBudget, facts: Facts) -> str | None:
    cores, sessions = facts.host.cores, budget.connections
    if not needs.more_sessions_than_cores or sessions is None or isinstance(cores, Unknown) or sessions > cores:
        return None
    return f"needs more sessions than the {plural(cores, 'core')}, and the load has {sessions}"


def _unmet_huge_pages(needs: Needs, facts: Facts) -> str | None:
    total = facts.host.huge_pages_total
    if not needs.huge_page_pool or (not isinstance(total, Unknown) and total > 0):
        return None
    if isinstance(total, Unknown):
        return f"needs a pool of huge pages, and that is {total}"
    return "needs a pool of huge pages, and the kernel has none (vm.nr_hugepages = 0)"


def _unmet_checkpoints(needs: Needs, budget: TrialBudget, facts: Facts) -> str | None:
    if not needs.checkpoint_cycles:
        return None
    interval_s = budget.checkpoint_interval_s or _seconds(facts, "checkpoint_timeout")
    if interval_s is None:
        return "needs whole checkpoint cycles, and checkpoint_timeout of the server is unknown"
    least_s = needs.checkpoint_cycles * interval_s
    if budget.measure_s >= least_s:
        return None
    return (
        f"needs {needs.checkpoint_cycles} checkpoint cycles of {seconds_text(interval_s)} in the measured window, "
        f"which is {seconds_text(budget.measure_s)}: measure for {seconds_text(least_s)} to search it"
    )


def _unmet_vacuum(needs: Needs, budget: TrialBudget, facts: Facts) -> str | None:
    if not needs.vacuum_cycles:
        return None
    if budget.restores:
        return "needs bloat to build up, and the database is restored before each trial"
    naptime_s = _seconds(facts, "autovacuum_naptime")
    if naptime_s is None:
        return "needs rounds of autovacuum, and autovacuum_naptime of the server is unknown"
    least_s = needs.vacuum_cycles * naptime_s
    if budget.measure_s >= least_s:
        return None
    return (
        f"needs {plural(needs.vacuum_cycles, 'round')} of autovacuum, {seconds_text(naptime_s)} apart, "
        f"in the measured window, "
        f"which is {seconds_text(budget.measure_s)}: measure for {seconds_text(least_s)} to search it"
    )


def _seconds(facts: Facts, name: str) -> float | None:
    fact = facts.settings.get(name)
    return None if fact is None else number_of(fact)  # both settings are in seconds, in every version
