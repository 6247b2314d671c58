"""What one trial gathers on its way from the life cycle's first instruction to the store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from pgdyno.model.record import ClientRecord, Record
from pgdyno.model.samples import Event
from pgdyno.model.trial import LoadPlan, Outcome, TrialSpec
from pgdyno.probes.network_path import OVER_NETWORK, PAUSE_S, ROUND_TRIPS, is_elsewhere
from pgdyno.probes.sampler import SampleBatch, Sampler
from pgdyno.trial.extension import Extension
from pgdyno.trial.hopeless import Rates
from pgdyno.workloads.client_latency import client_records
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
    extension: Extension | None = None
    """Of a load that ended in its own time: by how much that was longer than planned."""
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

    def network_counters(self) -> dict[str, float]:
        """Return the counters of the way to the server; of a load with one of its own, whether that leaves the host."""
        assert self.load is not None, "a load that ended is assessed"
        assert self.batch is not None, "sampling has ended before"
        trips = {} if self.load.round_trips is None else {ROUND_TRIPS: self.load.round_trips}
        host = self.plan.host
        path = {OVER_NETWORK: float(is_elsewhere(host))} if host else self.batch.path
        pause = {PAUSE_S: self.load.pause_s} if self.load.pause_s else {}
        return {**path, **trips, **pause}

    def clients(self, outcome: Outcome) -> list[ClientRecord]:
        """Return the clients' latencies in the measured window, of the whole load where there was none."""
        assert self.load is not None, "a load that ended has clients"
        begin = outcome.steady_from if outcome.steady_from is not None else self.load.began_at
        return client_records(self.load.log.between(begin, self.load.ended_at))
