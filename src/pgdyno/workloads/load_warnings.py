"""What a reader must know before believing a load's figures. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from pgdyno.model.trial import LoadPlan
from pgdyno.units import agreeing
from pgdyno.workloads.pgbench.folded_log import FoldedLog
from pgdyno.workloads.pgbench.transaction_log import Tally

DRIVER_SATURATED_PCT = 70.0
"""CPU of a pgbench thread above which it may be the driver that is measured, in percent of one core."""
CLIENTS_PER_CORE = 4
SHORT_RUN_S = 5.0
FEW_TRANSACTIONS = 100
RATE_REACHED_PCT = 95.0
THROTTLED_PCT = 5.0
"""Share of the periods of its CPU quota in which a load generator may be stopped (a choice of the project)."""
GROWING_LAG_MS = 50.0


class LoadWarningKind(StrEnum):
    """What is wrong or remarkable about a load."""

    DRIVER_SATURATED = "driver saturated"
    DRIVER_THROTTLED = "driver throttled"
    CLIENTS_EXCEED_CORES = "clients exceed cores"
    CLIENTS_EXCEED_SCALE = "clients exceed scale"
    RUN_TOO_SHORT = "run too short"
    RATE_NOT_REACHED = "rate not reached"
    LAG_GROWING = "lag growing"
    TRANSACTIONS_FAILED = "transactions failed"
    STALLED = "stalled"
    LOG_DAMAGED = "log damaged"
    CONNECT_EACH = "connect each"
    PLAN = "plan"


@dataclass(frozen=True, slots=True)
class LoadWarning:
    """One warning: what, in a sentence for people, and what to do about it."""

    kind: LoadWarningKind
    text: str
    hint: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class LoadFacts:
    """What the warnings are judged from. `seconds` is how long the load ran, `cores` those of this machine.

    `pauses` is True where clients sleep between their statements. `throttled_pct` is the share of its quota's periods
    in which the most throttled load generator was stopped, None without a quota.
    """

    plan: LoadPlan
    seconds: float
    cores: int
    driver_cpu_s: float
    counts: Tally
    malformed_lines: int
    scale: int | None = None
    plans: tuple[str, ...] = ()
    pauses: bool = False
    throttled_pct: float | None = None


def judge_load(facts: LoadFacts, log: FoldedLog) -> tuple[LoadWarning, ...]:
    """Return every warning that holds, in the order of the enumeration."""
    return tuple(LoadWarning(*told) for told in (*_of_driver(facts, log), *_of_figures(facts, log), *_of_plans(facts)))


def _of_driver(facts: LoadFacts, log: FoldedLog) -> Iterator[tuple[LoadWarningKind, str, str]]:
    """Yield what the load generators and their clients may have measured instead of the server."""
    threads = min(facts.plan.jobs, facts.plan.clients)
    busy = 100 * facts.driver_cpu_s / (facts.seconds * threads) if facts.seconds > 0 else 0.0
    if busy > DRIVER_SATURATED_PCT:
        yield (
            LoadWarningKind.DRIVER_SATURATED,
            f"each of pgbench's {threads} threads used {busy:.0f} % of a core: the driver may be the bottleneck",
            "Raise --jobs, or run the driver on another machine.",
        )
    if facts.throttled_pct is not None and facts.throttled_pct > THROTTLED_PCT:
        yield (
            LoadWarningKind.DRIVER_THROTTLED,
            f"the CPU limit of the load generators stopped them in up to {facts.throttled_pct:.0f} % of its periods: "
            "the limit is measured, not the server",
            "Raise --vcpus-total, or take fewer load generators.",
        )
    at_work = _at_work(facts, log)
    if at_work is not None and at_work > CLIENTS_PER_CORE * facts.cores:
        yield (
            LoadWarningKind.CLIENTS_EXCEED_CORES,
            f"{at_work:.0f} clients share {facts.cores} cores: where no lock or disk is waited for, latency is mostly "
            "waiting for a CPU",
            f"Lower --clients to {CLIENTS_PER_CORE * facts.cores} or less, or use --rate for latency.",
        )
    if facts.scale is not None and at_work is not None and at_work > facts.scale:
        branches = "1 branch" if facts.scale == 1 else f"{facts.scale} branches"
        yield (
            LoadWarningKind.CLIENTS_EXCEED_SCALE,
            f"{at_work:.0f} clients update {branches}: they wait for each other's row locks",
            f"Use scale={facts.plan.clients} or more.",
        )


def _at_work(facts: LoadFacts, log: FoldedLog) -> float | None:
    """Return how many clients were in a transaction on average; None where they sleep inside of it, who knows how long.

    In a closed loop that is all of them. Under a rate they wait for their turn, which the log tells apart as lag.
    """
    if facts.pauses:
        return None
    lag_us = log.lag_us()
    if facts.plan.rate is None or lag_us is None or facts.seconds <= 0:
        return facts.plan.clients
    return (log.total_us() - lag_us) / 1e6 / facts.seconds


def _of_figures(facts: LoadFacts, log: FoldedLog) -> Iterator[tuple[LoadWarningKind, str, str]]:
    """Yield what the figures of the load hide, or do not say."""
    counts, rate = facts.counts, facts.plan.rate
    if facts.seconds < SHORT_RUN_S or counts.committed < FEW_TRANSACTIONS:
        few = agreeing(counts.committed, "transaction", "is too few", "are few")
        words = few if counts.committed < FEW_TRANSACTIONS else f"{facts.seconds:.0f} s are a short load"
        yield LoadWarningKind.RUN_TOO_SHORT, f"{words}: percentiles above p95 mean little", "Raise --measure."
    reached = counts.committed / facts.seconds if facts.seconds > 0 else math.inf
    if rate is not None and 100 * reached < RATE_REACHED_PCT * rate:
        yield (
            LoadWarningKind.RATE_NOT_REACHED,
            f"the load came to {reached:.0f} of {rate:g} transactions per second",
            "The server or the driver is over capacity at this rate: lower --rate, or measure without it.",
        )
    early, late = log.lag_ms_of_ends() or (0.0, 0.0)
    if len(log) >= FEW_TRANSACTIONS and late > 2 * early and late - early > GROWING_LAG_MS:
        yield (
            LoadWarningKind.LAG_GROWING,
            f"the lag behind the schedule grew from {early:.0f} to {late:.0f} ms: this is a queue, not a latency",
            "Lower --rate until the lag stays level.",
        )
    if counts.failed:
        yield (
            LoadWarningKind.TRANSACTIONS_FAILED,
            f"{counts.failed} of {counts.committed + counts.failed} transactions failed: failing is often faster than "
            "working",
            "Allow retries with the workload's max_tries, or correct the script.",
        )
    inside = log.committed_by_second()[1:-1]
    empty = int(np.count_nonzero(inside == 0))
    if empty and log.tally().committed >= 10 * max(facts.seconds, 1.0):
        yield (
            LoadWarningKind.STALLED,
            f"nothing committed in {empty} of {len(inside) + 2} seconds: a closed loop's percentiles hide that",
            "Look at these seconds in the report (locks, checkpoints), or measure latency with --rate.",
        )
    if facts.malformed_lines:
        yield (
            LoadWarningKind.LOG_DAMAGED,
            f"{facts.malformed_lines} lines of the transaction log could not be read and are not counted",
            "A kill leaves one unfinished line for each thread; check the disk when the run ended by itself.",
        )
    if facts.plan.connect_each:
        yield (
            LoadWarningKind.CONNECT_EACH,
            "every transaction opens a session of its own: this measures connecting more than the workload",
            "Leave connect_each out unless the application does so.",
        )


_PLANS = {
    "Gather": "its workers take CPU that other sessions could use",
    "Bitmap Heap Scan": "pages are read in their order on disk, not by key; past work_mem it rechecks whole pages",
    "Seq Scan": "the whole table is read, not scattered rows",
}


def _of_plans(facts: LoadFacts) -> Iterator[tuple[LoadWarningKind, str, str]]:
    for plan in facts.plans:
        words = next((words for words in _PLANS if words in plan), None)
        if words is not None:
            yield (
                LoadWarningKind.PLAN,
                f"{plan.splitlines()[0].rstrip(':')} runs by {words.lower()}: {_PLANS[words]}",
                "See the plan with the run; random_page_cost, the batch size and the statistics decide it.",
            )
