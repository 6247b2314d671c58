"""What a breach means for the study, and what a running load is held against. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable

from pgdyno.errors import GuardTripped
from pgdyno.model.guard import Breach, Concurrent, GuardKind
from pgdyno.model.trial import LoadPlan, Outcome
from pgdyno.units import plural
from pgdyno.workloads.protocol import Workload

BASELINES = 3
"""How many of the latest baseline trials of the same load a running one is held against."""


class Baselines:
    """The latest baseline trials of every load: 60 clients answer later than one, and no configuration is to blame."""

    def __init__(self) -> None:
        self._latest: defaultdict[object, deque[Outcome]] = defaultdict(lambda: deque(maxlen=BASELINES))

    def keep(self, outcome: Outcome, plan: LoadPlan, workload: Workload) -> None:
        """Remember what a complete baseline trial measured."""
        self._latest[_load(plan, workload)].append(outcome)

    def of(self, plan: LoadPlan, workload: Workload) -> Concurrent | None:
        """Return what the baseline measured under this very load, None when it was not measured yet."""
        return concurrent(self._latest[_load(plan, workload)])


def _load(plan: LoadPlan, workload: Workload) -> object:
    spec = workload.spec()
    return plan, spec.name, spec.fingerprint, tuple(sorted(spec.parameters.items()))


def ending(breach: Breach, *, is_baseline: bool, trips: int, most: int) -> GuardTripped | None:
    """Return what ends the study after a breach; None where only the configuration is rejected.

    `trips` is how many there were, this one included, of the `most` that the user allows.
    """
    if breach.kind is GuardKind.ENVIRONMENT:
        return tripped(breach, "No configuration is to blame, so no other would do better.")
    if is_baseline:
        return tripped(breach, "It was the baseline's trial: the server as it is cannot carry this load.")
    return (
        tripped(breach, f"Guards have rejected {plural(trips, 'configuration')} (--guard-trips).")
        if trips >= most
        else None
    )


def tripped(breach: Breach, detail: str) -> GuardTripped:
    """Return the error that ends the study."""
    return GuardTripped(
        str(breach),
        detail=detail,
        hint=f"Fix the cause, or set another limit: --guard {breach.name}=VALUE. Run pgdyno guards for all readings.",
    )


def concurrent(baselines: Iterable[Outcome]) -> Concurrent | None:
    """Return what these baseline trials measured, None when they measured nothing.

    Of their p99 the largest, because percentiles are never averaged.
    """
    measured = [outcome for outcome in baselines if outcome.throughput]
    throughputs = [outcome.throughput for outcome in measured if outcome.throughput is not None]
    p99 = [outcome.latency_ms.p99 for outcome in measured if outcome.latency_ms is not None]
    return Concurrent(sum(throughputs) / len(throughputs), max(p99, default=None)) if throughputs else None
