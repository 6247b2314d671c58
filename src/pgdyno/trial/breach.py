"""What ends a study: a breach by what it means, or an error of the load's script; what a load is held against. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable

from pgdyno.errors import GuardTripped, PgdynoError, ScriptError
from pgdyno.model.configuration import BASELINE
from pgdyno.model.guard import Breach, Concurrent, GuardKind
from pgdyno.model.trial import LoadPlan, Outcome, TrialSpec
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

    A `breach` that the environment is to blame for always ends it, and so does one in a trial of the baseline
    (`is_baseline`). `trips` is how many there were, this one included; the study ends when they reach `most`, the
    user's limit.
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


class ScriptErrors:
    """The errors of one study's script so far.

    What the server says of a statement without running it ends the study at once. An error that shows when it runs may
    be rare, or due to a trial's settings: it ends the study under the server's own settings, or where all runs are
    alike, unless the script came to its end before; then only the second such failure in a row does.
    """

    def __init__(self, *, are_alike: bool) -> None:
        self._are_alike = are_alike
        self._came_through = self._failed_last = False

    def note_complete(self) -> None:
        """Hear that a trial of the script was complete."""
        self._came_through, self._failed_last = True, False

    def ends_study(self, error: PgdynoError, spec: TrialSpec) -> bool:
        """Tell whether every trial would fail like the one of `spec`; other errors than the script's never say so."""
        if not isinstance(error, ScriptError):
            return False
        if error.is_certain:
            return True
        if spec.configuration != BASELINE and not self._are_alike:
            return False
        again, self._failed_last = self._failed_last, True
        return again or not self._came_through
