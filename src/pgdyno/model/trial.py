"""A trial: one configuration under one workload, measured once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pgdyno.errors import UsageError
from pgdyno.model.configuration import Configuration
from pgdyno.model.verdict import Metric


class TrialState(StrEnum):
    """How a trial stands. All but RUNNING are final, and a finished trial never changes."""

    RUNNING = "running"
    COMPLETE = "complete"
    DISTURBED = "disturbed"
    """Measured, but foreign CPU or steal was above the bound: not used, repeated."""
    UNSTEADY = "unsteady"
    """Measured, but the series never became steady: its score is not used."""
    PARTIAL = "partial"
    """Measured, but not by all its load generators: one was killed or ended short."""
    VOID = "void"
    """The configuration was not in force, or the data broke their own conditions: nothing counts under its name."""
    FAILED = "failed"
    """The server did not start, the load failed or the server died."""
    REFUSED = "refused"
    """The constraints refused the configuration before it cost anything."""
    ABANDONED = "abandoned"
    """The tuner was killed or interrupted while it ran."""


BESIDE_OTHERS = "beside_others"
"""Among an outcome's counters, 1: others used the CPUs beyond the bound, stayed, and the run is used all the same."""
ENDED_EARLY = "ended_early"
"""Among them, 1: a search trial that ran far behind the best and was ended at half of its window."""
EXTENDED = "extended_s"
"""Among them: by how many seconds the load was longer than planned, because its throughput had not settled."""
OUTAGE = "outage_s"
"""Among an outcome's counters: how long the restart before this trial kept the server away, in seconds."""

TUNE_PROOF_BLOCKS = 20_000
"""The blocks of a tune's proof are numbered from here; earlier versions had screening and pruning from 10,000 on."""


class Role(StrEnum):
    """Why a trial is run."""

    BASELINE = "baseline"
    SEARCH = "search"
    CONFIRM = "confirm"
    PRUNE = "prune"
    """Of a tune that an earlier version made: is a setting needed?"""
    EFFECT = "effect"
    RIVAL = "rival"
    ARM = "arm"
    """An arm of an A/B experiment, or a single bench run."""
    CELL = "cell"
    """A cell of a matrix, or a level of a sweep."""


LEAST_WARMUP_S, LEAST_WINDOW_S = 1.0, 2.0
"""The seconds of a load that never count, and the shortest window that gives a score."""


RATES = 0.001, 1e7
"""Transactions per second that a load can be sent at: one in a quarter of an hour, and more than any server takes."""
SPEEDS = 0.001, 1000.0
"""Multiples of the captured speed that a trace can be sent at."""


def check_rate(rate: float) -> None:
    """Raise UsageError on a rate of an open loop that is none: no load comes of it, and figures without bounds."""
    if not RATES[0] <= rate <= RATES[1]:
        raise UsageError(f"rate {rate:g} is not a number of transactions per second from {RATES[0]:g} to {RATES[1]:g}")


def check_speed(speed: float, of: str) -> None:
    """Raise UsageError on a speed of a trace that is none; `of` names it, with its value."""
    if not SPEEDS[0] <= speed <= SPEEDS[1]:
        raise UsageError(f"{of} is not from {SPEEDS[0]:g} to {SPEEDS[1]:g} times the captured speed")


def check_length(warmup_s: float, measure_s: float) -> None:
    """Raise UsageError where a load, in seconds, is too short to be scored whatever it does."""
    least = LEAST_WARMUP_S + LEAST_WINDOW_S
    if warmup_s + measure_s < least:
        raise UsageError(
            f"a warm-up of {warmup_s:g} s and a window of {measure_s:g} s are too short: together at least {least:g} s",
            detail=f"The first {LEAST_WARMUP_S:g} s never counts, and the shortest window is {LEAST_WINDOW_S:g} s.",
            hint=f"The least is --warmup {LEAST_WARMUP_S:g} --measure {LEAST_WINDOW_S:g}.",
        )


PROTOCOLS = ("simple", "extended", "prepared")
"""How pgbench sends its statements."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """How a workload is driven.

    `rate` is an open-loop schedule in transactions per second (pgbench -R), None for a closed loop. `protocol` is
    pgbench's -M. `warmup_s` is the bound on warm-up: it ends earlier when the series is steady. `measure_s` is the
    window that follows. `reset` says when the load's database is cloned again from its template.
    """

    clients: int
    jobs: int
    warmup_s: float
    measure_s: float
    protocol: str = "prepared"
    rate: float | None = None
    connect_each: bool = False
    reset: str = "auto"
    seed: int | None = None
    instances: int = 1
    """Load generators that start together, each with `clients` and `jobs`; what they measure is added up."""
    cpus: str = ""
    """CPUs that the load generators may use, as `taskset -c` has them; empty for all."""
    instance_memory_bytes: int | None = None
    """Bound on the memory of each load generator, by a cgroup."""
    instance_vcpus: float | None = None
    """Bound on the CPU time of each load generator, in CPUs, by a cgroup's quota."""
    host: str = ""
    """Where the load connects instead of where the target's conninfo says: a socket directory, a name, an address."""

    @property
    def duration_s(self) -> float:
        """Return the whole time under load, in seconds."""
        return self.warmup_s + self.measure_s

    @property
    def connections(self) -> int:
        """Return the sessions of all load generators together."""
        return self.instances * self.clients


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """What is run: a name that the registry knows, its parameters, and the hash of the scripts it comes to."""

    name: str
    parameters: Mapping[str, str | int | float | bool]
    fingerprint: str
    description: str
    read_only: bool
    unit: str = "transactions"
    rows_per_transaction: float | None = None
    clock: str = ""
    """Of a captured load, whose measured window is the plan's: `schedule` fixes when each statement is due, and so the
    throughput; `think` waits for a captured pause after each answer. Empty for a load that does as it can."""


BY_HAND = "by hand"
"""Among a trial's factors: the steps that people had done when it ran, with commas between."""


@dataclass(frozen=True, slots=True)
class TrialSpec:
    """What a trial is to measure. `block` and `slot` place it in the interleaved order; `arm` names its side."""

    configuration: Configuration
    role: Role
    arm: str
    block: int
    slot: int
    repeats: int | None = None
    """The trial that this one repeats because that one was disturbed."""
    factors: Mapping[str, str] = field(default_factory=dict)
    """What else differs between this trial and others of its study: clients, SMT, a storage layout; words of a plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Latencies of one side in milliseconds, medians over its runs."""

    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Latency in milliseconds, from the merged histogram of the measured window; percentiles are never averaged."""

    p50: float
    p95: float
    p99: float
    p999: float
    max: float
    mean: float


def value_of(
    metric: Metric, throughput: float | None, latency: Percentiles | LatencySummary | None, cpu: float | None
) -> float | None:
    """Return the figure of one metric out of those of a run or of a side.

    `throughput` is in transactions per second, `latency` in milliseconds, `cpu` in milliseconds of the server's CPU per
    transaction; None for what was not measured. STATEMENT_TIME is in none of them, so its figure is always None.
    """
    return {
        Metric.THROUGHPUT: throughput,
        Metric.LATENCY_P50: None if latency is None else latency.p50,
        Metric.LATENCY_P95: None if latency is None else latency.p95,
        Metric.LATENCY_P99: None if latency is None else latency.p99,
        Metric.SERVER_CPU: cpu,
        Metric.STATEMENT_TIME: None,
    }[metric]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a finished trial measured. Times in seconds of this machine's epoch clock, CPU in seconds.

    `throughput` is transactions per second in the steady window [`steady_from`, `ended_at`]. None means not
    measured, and `reason` says why. `server_cpu_ms_per_tx` and `foreign_cpu_pct` (of one core) hold for the same
    window.
    """

    state: TrialState
    reason: str | None = None
    began_at: float = 0.0
    elapsed_s: float = 0.0
    """The whole cost of the trial: apply, restart, reset, load and collection."""
    steady_from: float | None = None
    ended_at: float = 0.0
    throughput: float | None = None
    latency_ms: LatencySummary | None = None
    transactions: int = 0
    failed: int = 0
    retried: int = 0
    skipped: int = 0
    driver_cpu_s: float | None = None
    server_cpu_s: float | None = None
    server_cpu_ms_per_tx: float | None = None
    foreign_cpu_pct: float | None = None
    steal_pct: float | None = None
    settings_fingerprint: str | None = None
    counters: Mapping[str, float] = field(default_factory=dict)
    """Deltas over the window that explain the score: blks_hit, blks_read, wal_bytes, wal_fpi, checkpoints ..."""
    warnings: tuple[str, ...] = ()

    def figure(self, metric: Metric) -> float | None:
        """Return the figure that a metric compares, None where it was not measured."""
        return value_of(metric, self.throughput, self.latency_ms, self.server_cpu_ms_per_tx)


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial as the store keeps it. `id` is its run id in the sample tables."""

    id: int
    study_id: str
    spec: TrialSpec
    state: TrialState
    outcome: Outcome | None = None

    @property
    def reason(self) -> str:
        """Return why it ended as it did, empty where nothing says so."""
        return "" if self.outcome is None else self.outcome.reason or ""

    def figure(self, metric: Metric) -> float | None:
        """Return the figure that a metric compares, None where it was not measured."""
        return None if self.outcome is None else self.outcome.figure(metric)
