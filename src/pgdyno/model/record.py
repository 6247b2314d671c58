"""What a run leaves beside its samples: instances, clients, checks, plans, texts. Kept by the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

MIX, P90 = "mix_", "p90_"
"""Begin the names of figures of a transaction type: `mix_payment_pct`, its share, and `p90_payment_ms`."""


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    """One load generator of a run that had several. `reason` is None when it ran to its end with all its clients.

    `began_at` is when its first transaction began: how far apart several began can be read from the store.
    `throughput` (transactions per second) and `latency_ms` (mean) hold for the window in which all instances ran.
    """

    instance: int
    clients: int
    began_at: float
    ended_at: float
    transactions: int
    failed: int
    throughput: float | None
    latency_ms: float | None
    driver_cpu_s: float | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """One condition that was checked on a run's data. `violations` counts rows; `meaning` says what was demanded.

    None in `violations`: the condition could not be checked, and `meaning` says why.
    """

    condition: str
    violations: int | None
    meaning: str


@dataclass(frozen=True, slots=True)
class ClientRecord:
    """What one client of the load met in the measured window: a smooth total can hide a client that is served badly.

    Latency in milliseconds of this client alone, each figure within 0.1 %; clients of several load generators are
    numbered on.
    """

    client: int
    transactions: int
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """The execution plan of one statement under a run. `shape` is a hash of its nodes without costs and row counts."""

    statement: str
    shape: str
    plan: str


@dataclass(frozen=True, slots=True)
class TextRecord:
    """A text that belongs to a run: a driver's output, a log that was imported. No secret is in it."""

    name: str
    text: str


Record: TypeAlias = InstanceRecord | ClientRecord | CheckRecord | PlanRecord | TextRecord


@dataclass(frozen=True, slots=True)
class Examination:
    """What a workload says of its own data after a run.

    A violated check makes the run void. `figures` join the outcome's counters: `nopm`, `tpm`, `rows_per_s` ...
    """

    checks: tuple[CheckRecord, ...] = ()
    figures: tuple[tuple[str, float], ...] = ()
    plans: tuple[PlanRecord, ...] = ()
    texts: tuple[TextRecord, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def violation(self) -> str | None:
        """Return the broken conditions in one sentence, None when all hold."""
        broken = [f"{check.condition}: {check.violations}" for check in self.checks if check.violations]
        return f"the data break their own conditions ({', '.join(broken)})" if broken else None
