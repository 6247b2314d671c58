"""What one trial gathers on its way from the life cycle's first instruction to the store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from pgdyno.model.facts import Facts, Unknown
from pgdyno.model.record import ClientRecord, Record
from pgdyno.model.samples import Event
from pgdyno.model.trial import LoadPlan, Outcome, TrialSpec
from pgdyno.probes.counter_scope import devices_hold
from pgdyno.probes.host.neighbours import in_words
from pgdyno.probes.network_path import OVER_NETWORK, PAUSE_S, ROUND_TRIPS, is_elsewhere
from pgdyno.probes.sampler import SampleBatch, Sampler
from pgdyno.store.catalogue import Store
from pgdyno.trial.assess import Bounds, assess, with_failures
from pgdyno.trial.extension import Extension
from pgdyno.trial.hopeless import Rates, poor_outcome
from pgdyno.workloads.protocol import RunningLoad, Workload
from pgdyno.workloads.result import LoadResult, client_records


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
    """How long the load may go on after its planned time, and by how much it did."""
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

    @property
    def is_captured(self) -> bool:
        """Return whether the load is sent as it was captured: nothing extends it, and its window is the plan's."""
        return bool(self.workload.spec().clock)

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

    def assessed(self, facts: Facts, bounds: Bounds, *, beside_others: bool) -> Outcome:
        """Return the outcome of the load, which has ended; `beside_others` uses it also where they used the machine."""
        assert self.batch is not None, "the life cycle stops sampling before it assesses"
        rows, used_by = self.batch.rows, in_words(self.batch.neighbours)
        here = self.batch.driver_is_here
        more = {"database_bytes": self.database_bytes, "reset_s": self.reset_s}
        if self.ended_early is not None:
            outcome = poor_outcome(
                self.ended_early, rows, bounds, driver_is_here=here, used_by=used_by, beside_others=beside_others
            )
            return replace(outcome, counters={**outcome.counters, **more})
        assert self.load is not None, "the life cycle assesses only a load that ended"
        own = devices_hold(facts.host.data_filesystem, own_host=not isinstance(facts.host.cores, Unknown))
        outcome = assess(
            self.load, rows, self.plan, bounds, own_devices=own, driver_is_here=here, used_by=used_by,
            beside_others=beside_others, is_captured=self.is_captured,
        )  # fmt: skip
        if self.extension is not None:
            outcome = self.extension.told(outcome)
        warmed = {"warmed_bytes": float(self.warmed_bytes)} if self.warmed_bytes else {}
        return replace(outcome, counters={**outcome.counters, **more, **warmed, **self.network_counters()})

    def keep(self, store: Store, outcome: Outcome) -> None:
        """Store what was gathered, and last the outcome, which ends the trial. Deletes the load's logs."""
        if self.events:
            store.add_events(self.run_id, self.events)
        if self.batch is not None:
            outcome = with_failures(outcome, [*self.batch.events, *self.events])
            store.add_samples(self.run_id, self.batch.rows)
            store.add_events(self.run_id, self.batch.events)
        if self.load is not None:
            store.add_histograms(self.run_id, self.load.histograms)
            store.add_records(self.run_id, [*self.load.instances, *self.clients(outcome), *self.records])
            self.load.discard_logs()
        store.finish_trial(self.run_id, outcome)
