"""What the samples of one run say beside its score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pgdyno.model.bottleneck import BottleneckVerdict
from pgdyno.model.record import CheckRecord, ClientRecord, PlanRecord
from pgdyno.model.shapes import Named


@dataclass(frozen=True, slots=True)
class Smoothness:
    """`cv` is the coefficient of variation of the transactions per second over `seconds` whole seconds.

    `least` and `most` are the slowest and the fastest second; `empty` counts seconds without any transaction.
    """

    cv: float
    seconds: int
    least: float
    most: float
    empty: int


@dataclass(frozen=True, slots=True)
class LockFigures:
    """Concurrency of one mode over `moments` readings; a count is no rate."""

    mode: str
    mean: float
    most: float
    waiting_mean: float
    waiting_most: float


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """Everything that one run's samples say beside its score.

    `failures` counts what failed in the server, None where that was not recorded; `filling` are the signs that caches
    still filled in the measured window, empty when there were none; `scope` says what the host's counters cover.
    """

    bottleneck: BottleneckVerdict
    failures: Mapping[str, int] | None = None
    failed_transactions: int = 0
    smoothness: Smoothness | None = None
    locks: tuple[LockFigures, ...] = ()
    clients: tuple[ClientRecord, ...] = ()
    filling: Annotated[tuple[str, ...], Named("not_steady")] = ()
    scope: tuple[str, ...] = ()
    plans: tuple[PlanRecord, ...] = ()
    checks: tuple[CheckRecord, ...] = ()
