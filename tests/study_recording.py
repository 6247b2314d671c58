"""Synthetic recordings of one run for `study_example`: samples, histograms and events. Nothing in it was measured."""

from __future__ import annotations

import math

import numpy as np

from pgdyno.model.configuration import BASELINE
from pgdyno.model.record import CheckRecord, ClientRecord, PlanRecord
from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import Event, HistogramRow, SampleRow, SampleValue
from pgdyno.model.study import Study
from pgdyno.model.trial import Outcome, Role, Trial, TrialSpec, TrialState
from pgdyno.stats.histogram import LatencyHistogram
from pgdyno.store.catalogue import Store


def record(
    store: Store,
    trial: int,
    done: Outcome,
    rng: np.random.Generator,
    *,
    fast: bool,
    seconds: int,
    old_server: bool = False,
) -> Outcome:
    """Record samples, histograms and events of one run; return the outcome with the times of this run."""
    began = done.began_at
    tps = done.throughput or 0.0
    checkpoint = range(int(seconds * 0.55), int(seconds * 0.7))
    rows: list[SampleRow] = []
    histograms: list[HistogramRow] = []
    for second in range(seconds + 1):
        t = began + second + 0.3
        rate = (
            tps
            * (1 - math.exp(-(second + 1) / 4))
            * (0.82 if second in checkpoint else 1)
            * math.exp(rng.normal(0, 0.03))
        )
        rows += _sample_rows(t, rate, rng, fast=fast, writing=second in checkpoint, old_server=old_server)
        if second < seconds:
            histograms.append(_histogram(int(began) + second, rate, rng, slow=second in checkpoint))
    store.add_samples(trial, rows)
    store.add_histograms(trial, histograms)
    store.add_events(
        trial,
        [
            Event(began + checkpoint.start, "checkpoint", "checkpoint_timeout was over"),
            Event(began + checkpoint.stop, "checkpoint_done", "a checkpoint was completed"),
        ],
    )
    return Outcome(**{**{name: getattr(done, name) for name in Outcome.__slots__}, "ended_at": began + seconds})


def _histogram(second: int, rate: float, rng: np.random.Generator, *, slow: bool) -> HistogramRow:
    count = max(1, round(rate))
    micros = (8e6 / rate * 0.9 * np.exp(rng.normal(0, 0.45 + 0.2 * slow, count))).astype(np.int64)
    histogram = LatencyHistogram()
    histogram.record(micros)
    return HistogramRow(second, 0, "ybio", count, int(micros.sum()), 0, 0, 0, histogram.encode())


def sample_row(table: str, t: float, **values: SampleValue) -> SampleRow:
    """Return a row of this table; columns that are not given are NULL."""
    names = [column.name for column in TABLES[table].columns]
    assert {*values} <= {*names}, f"unknown columns {values.keys() - {*names}}"
    return SampleRow(table, t, tuple(values.get(name) for name in names))


def _sample_rows(
    t: float, rate: float, rng: np.random.Generator, *, fast: bool, writing: bool, old_server: bool
) -> list[SampleRow]:
    noise = 1 + rng.normal(0, 0.04)
    system = (14 if fast else 46) * noise
    found = [
        sample_row(
            "cpu",
            t,
            interval_s=1.0,
            cpus=2,
            usr_pct=94 - system - 4 * writing,
            sys_pct=system,
            irq_pct=0.8,
            iowait_pct=4.0 * writing + abs(rng.normal(0, 0.3)),
            steal_pct=abs(rng.normal(0, 0.4)),
            idle_pct=1.0,
            foreign_cpu_pct=None if old_server else abs(rng.normal(2, 1)),
        ),
        sample_row(
            "database",
            t,
            interval_s=1.0,
            xact_commit=int(rate),
            blks_read=int(rate * (3 if fast else 171)),
            blks_hit=int(rate * (259 if fast else 91)),
        ),
        sample_row("sessions", t, total=8, active=8, waiting=1, idle=0, idle_in_transaction=0, autovacuum_workers=0),
        sample_row(
            "disk",
            t,
            device="vda",
            interval_s=1.0,
            rkb_per_s=120.0 * noise,
            wkb_per_s=(64_000.0 if writing else 5200.0) * noise,
        ),
    ]
    if not old_server:
        found.append(sample_row("wal", t, interval_s=1.0, bytes=int(rate * 1900 * (1.8 if writing else 1))))
    weights = {
        "CPU": 6.2 if fast else 4.6,
        "IO": 0.3 if fast else 1.9,
        "LWLock": 0.4,
        "Client": 0.5,
        "Lock": 0.1 + writing,
    }
    total = sum(weights.values())
    for name, count in zip(weights, rng.multinomial(8, [weight / total for weight in weights.values()]), strict=True):
        if count:
            found.append(sample_row("waits", t, wait_event_type=name, wait_event=name, sessions=int(count)))
    return found


def client(number: int, p95: float) -> ClientRecord:
    """Return what one client of a load saw."""
    return ClientRecord(number, 100, p95 / 2, p95 / 2, p95, p95 * 2, p95 * 3)


SECONDS = 60


def record_filling(store: Store, study: Study, *, grows: bool = True, slow_middle: bool = True) -> Trial:
    """Record a run whose shared memory grows and whose answers are slow in its middle: caches that fill."""
    run = store.begin_trial(study.id, TrialSpec(BASELINE, Role.ARM, "bench", 1, 0))
    rows: list[SampleRow] = []
    histograms: list[HistogramRow] = []
    for second in range(SECONDS):
        t = 1000.0 + second + 1
        shared = 1e9 * (1 + second / 30) if grows else 1e9
        rows.append(sample_row("memory", t, interval_s=1.0, shared_bytes=int(shared)))
        rows.append(sample_row("sessions", t, total=4, active=1, waiting=0, idle=3, idle_in_transaction=0))
        rows.append(sample_row("waits", t, wait_event_type="CPU", wait_event="CPU", sessions=1))
        micros = 9000 if slow_middle and SECONDS // 3 <= second < 2 * SECONDS // 3 else 2000
        histogram = LatencyHistogram()
        histogram.record([micros] * 20)
        histograms.append(HistogramRow(1000 + second, 0, "x", 20, 20 * micros, 0, 0, 0, histogram.encode()))
    store.add_samples(run, rows)
    store.add_histograms(run, histograms)
    sound = CheckRecord("C01", 0, "sums agree")
    store.add_records(run, [client(0, 2.0), client(1, 9.0), PlanRecord("SELECT 1", "abc", "Result"), sound])
    done = Outcome(
        TrialState.COMPLETE, began_at=1000.0, steady_from=1000.0, ended_at=1060.0, throughput=20.0, transactions=1200,
        driver_cpu_s=1.0, counters={"failures_crash": 0.0, "failures_restart": 0.0},
    )  # fmt: skip
    store.finish_trial(run, done)
    return store.trial(run)
