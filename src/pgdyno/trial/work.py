"""What one trial gathers on its way from the life cycle's first instruction to the store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from pgdyno.model.record import Record
from pgdyno.model.samples import Event
from pgdyno.model.trial import LoadPlan, Outcome, TrialSpec
from pgdyno.probes.sampler import SampleBatch, Sampler
from pgdyno.trial.hopeless import Rates
from pgdyno.workloads.protocol import LoadResult, RunningLoad, Workload


@dataclass
class Work:
    """What one trial gathers on its way."""

    run_id: int
    spec: TrialSpec
    plan: LoadPlan
    workload: Workload
    floor_tps: float | None
    began: float
    since: float
    dbname: str = ""
    database_bytes: float = 0.0
    reset_s: float = 0.0
    fingerprint: str | None = None
    outage_s: float | None = None
    warmed_bytes: int = 0
    sampler: Sampler | None = None
    running: RunningLoad | None = None
    load: LoadResult | None = None
    ended_early: Rates | None = None
    """Where the load was ended at half of its window: its rates."""
    batch: SampleBatch | None = None
    outcome: Outcome | None = None
    reason: str | None = None
    events: list[Event] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    watch: ExitStack = field(default_factory=ExitStack)

    def driver_pids(self) -> Sequence[int]:
        """Return the processes that are load generators and not foreign."""
        return self.running.pids if self.running else ()
