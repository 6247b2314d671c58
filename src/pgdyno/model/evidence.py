"""What a server and its host did in a window of time: the evidence that advice rests on. Unknown says why.

Rates are per second of the window, shares are 0 to 1, sizes bytes, times milliseconds unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pgdyno.model.bottleneck import BottleneckVerdict
from pgdyno.model.classes import Utilization
from pgdyno.model.facts import Unknown

UNSEEN = Unknown("no window was measured; --window SECONDS measures one")
CHECKPOINT_SETTINGS = ("max_wal_size", "checkpoint_timeout", "checkpoint_completion_target")
"""Settings that decide when checkpoints come, and why."""
WAL_RATE_BY_LOG = "distances between the checkpoints of the server's log"
"""Where a rate of WAL comes from that nobody watched."""
SPILL_SETTINGS = ("work_mem", "hash_mem_multiplier", "maintenance_work_mem")
"""Settings that decide which queries write temporary files."""


SAMPLED, SINCE_RESET = "sampled", "since the statistics were reset"


@dataclass(frozen=True, slots=True)
class Window:
    """The time that figures hold for. `source` is SAMPLED, SINCE_RESET, or a file."""

    seconds: float
    source: str
    began: str = ""
    """ISO 8601 in UTC, empty when unknown."""

    @property
    def is_mean_of_all(self) -> bool:
        """Return True for counters since their reset: idle days, and settings of earlier days, are in them."""
        return self.source == SINCE_RESET


@dataclass(frozen=True, slots=True)
class Settled:
    """Until when settings may have had other values than now. Seconds since the epoch, by the server's clock.

    `started_at` is the postmaster's start, `loaded_at` when it last read its configuration (pg_conf_load_time).
    `changed` are the changes that the log names from `log_from` on; None when no log with a time was read.
    """

    started_at: float
    loaded_at: float
    log_from: float | None = None
    changed: Mapping[str, float] = field(default_factory=dict)

    def since(self, name: str, *, by_restart: bool) -> float:
        """Return from when on a setting surely has had its present value; `by_restart`: only a restart changes it."""
        if by_restart:
            return self.started_at
        if name in self.changed:
            return max(self.started_at, self.changed[name])
        if self.log_from is None:
            return max(self.started_at, self.loaded_at)
        return max(self.started_at, min(self.loaded_at, self.log_from))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One completed checkpoint of the log. `cause` is `time`, `wal`, `requested`, `shutdown` ... or Unknown.

    A line that was cut in the middle leaves the fields behind the cut unknown.
    """

    at: str | Unknown
    cause: str | Unknown
    buffers: int | Unknown
    buffers_share: float | Unknown
    wal_added: int | Unknown = UNSEEN
    wal_removed: int | Unknown = UNSEEN
    wal_recycled: int | Unknown = UNSEEN
    write_s: float | Unknown = UNSEEN
    sync_s: float | Unknown = UNSEEN
    total_s: float | Unknown = UNSEEN
    sync_files: int | Unknown = UNSEEN
    longest_s: float | Unknown = UNSEEN
    distance_bytes: int | Unknown = UNSEEN
    slru_buffers: int | Unknown = UNSEEN
    lsn: str | None = None
    redo_lsn: str | None = None


@dataclass(frozen=True, slots=True)
class LogEvidence:
    """What the server's log says. `too_frequent_s` are the gaps of "checkpoints are occurring too frequently".

    `hints` are the distinct HINT lines, `quotes` one log line for each kind of event, secrets and SQL left out.
    Counts that rest on settings hold since those last changed, or since the server's last start; `earlier` has how many
    were seen before, by kind (`too_frequent`, `checkpoint_starts`, `temp_files`, `killed_by_9`).
    """

    files: tuple[str, ...]
    lines: int
    began: str | Unknown = UNSEEN
    ended: str | Unknown = UNSEEN
    checkpoints: tuple[Checkpoint, ...] = ()
    starts: Mapping[str, int] = field(default_factory=dict)
    """Checkpoint starts by cause."""
    too_frequent_s: tuple[int, ...] = ()
    hints: tuple[str, ...] = ()
    killed_by_9: int = 0
    crashes: int = 0
    panics: int = 0
    temp_files: int = 0
    temp_bytes: int = 0
    largest_temp_bytes: int = 0
    autovacuums: int = 0
    autoanalyzes: int = 0
    deadlocks: int = 0
    lock_waits: int = 0
    connections: int = 0
    quotes: Mapping[str, str] = field(default_factory=dict)
    unparsed: int = 0
    earlier: Mapping[str, int] = field(default_factory=dict)
    changed: Mapping[str, str] = field(default_factory=dict)
    """Settings that changed, and when they last did; the time is empty where the log has none."""
    started: str | None = None
    """When the server last started, empty where the log has no time; None where the log has no start."""

    def anew(self, *settings: str) -> str | None:
        """Return in words since when the counts that rest on these settings hold; None: for the whole log."""
        # What changed did so after the start, which some logs tell with a time and the change without one.
        moments = [(at, f"{name} changed") for name, at in self.changed.items() if name in settings]
        if not moments and self.started is None:
            return None
        at, what = max(moments, default=(self.started, "the server started"))
        return f"{what} at {at}" if at else what


@dataclass(frozen=True, slots=True)
class Statistics:
    """What the views counted in a window, for the whole cluster; `write_share` is rows written over touched."""

    window: Window
    commits_s: float | Unknown = UNSEEN
    rollbacks_s: float | Unknown = UNSEEN
    rows_read_s: float | Unknown = UNSEEN
    rows_written_s: float | Unknown = UNSEEN
    write_share: float | Unknown = UNSEEN
    hit_ratio: float | Unknown = UNSEEN
    blocks_read_s: float | Unknown = UNSEEN
    temp_bytes_s: float | Unknown = UNSEEN
    deadlocks: int | Unknown = UNSEEN
    checkpoints_timed: int | Unknown = UNSEEN
    checkpoints_requested: int | Unknown = UNSEEN
    buffers_checkpoint: int | Unknown = UNSEEN
    buffers_backend: int | Unknown = UNSEEN
    buffers_clean: int | Unknown = UNSEEN
    maxwritten_clean: int | Unknown = UNSEEN
    evictions_s: float | Unknown = UNSEEN
    wal_bytes_s: float | Unknown = UNSEEN
    wal_bytes_per_commit: float | Unknown = UNSEEN
    full_page_image_share: float | Unknown = UNSEEN
    wal_buffers_full: int | Unknown = UNSEEN
    session_busy_ratio: float | Unknown = UNSEEN
    """Active over connected time (14+)."""
    analytic_share: float | Unknown = UNSEEN
    """Rows read by sequential scans over all rows read."""
    amounts: Mapping[str, float] = field(default_factory=dict)
    """What was counted, by the name of its rate, where its parts were reset at other times than the window's begin."""

    def amount(self, rate: str) -> float | Unknown:
        """Return what was counted of a rate in the window: by itself, else the rate over the whole window."""
        value: float | Unknown = getattr(self, rate)
        return value if isinstance(value, Unknown) else self.amounts.get(rate, value * self.window.seconds)


@dataclass(frozen=True, slots=True)
class TableActivity:
    """One table with its indexes; `io_share` is its share of all blocks read and hit, `growth_bytes` in the window."""

    schema: str
    name: str
    database: str
    bytes: int
    index_bytes: int
    io_share: float
    read_share: float
    """Its share of the blocks that were read from outside of shared_buffers."""
    indexes: Mapping[str, float] = field(default_factory=dict)
    """Index name to its share of all blocks read and hit."""
    growth_bytes: int | Unknown = UNSEEN
    writes: int | Unknown = UNSEEN
    seq_scans: int | Unknown = UNSEEN
    dead_share: float | Unknown = UNSEEN
    tablespace: str = ""
    autovacuumed_at: float | None = None
    """When autovacuum last ended on it, seconds since the epoch; None when it never did, or that was not read."""
    autovacuum_off: bool = False
    """Whether its own `autovacuum_enabled` turns autovacuum off."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One normalized statement of pg_stat_statements in the window; no constants. Times in ms."""

    query: str
    calls: int
    mean_ms: float
    time_share: float
    rows_per_call: float
    reads_per_call: float = 0.0
    temp_blocks_per_call: float = 0.0
    database: str = ""


@dataclass(frozen=True, slots=True)
class DeviceActivity:
    """One row of iostat, by its column names; columns that were not printed are Unknown. kB/s, ms, percent."""

    device: str
    reads_s: float | Unknown = UNSEEN
    writes_s: float | Unknown = UNSEEN
    read_kb_s: float | Unknown = UNSEEN
    write_kb_s: float | Unknown = UNSEEN
    read_await_ms: float | Unknown = UNSEEN
    write_await_ms: float | Unknown = UNSEEN
    queue: float | Unknown = UNSEEN
    read_request_kb: float | Unknown = UNSEEN
    write_request_kb: float | Unknown = UNSEEN
    service_ms: float | Unknown = UNSEEN
    util_pct: float | Unknown = UNSEEN


@dataclass(frozen=True, slots=True)
class HostActivity:
    """What the host did: CPU in percent of all CPUs, rates per second. Burst figures are of kB written a second."""

    window: Window
    usr_pct: float | Unknown = UNSEEN
    sys_pct: float | Unknown = UNSEEN
    iowait_pct: float | Unknown = UNSEEN
    steal_pct: float | Unknown = UNSEEN
    idle_pct: float | Unknown = UNSEEN
    run_queue: float | Unknown = UNSEEN
    swap_in_bytes_s: float | Unknown = UNSEEN
    swap_out_bytes_s: float | Unknown = UNSEEN
    oom_kills: int | Unknown = UNSEEN
    write_peak_to_mean: float | Unknown = UNSEEN
    write_variation: float | Unknown = UNSEEN
    write_idle_share: float | Unknown = UNSEEN
    network_utilization: float | Unknown = UNSEEN
    """Share of the busiest interface's speed."""


class WorkingSetClass(StrEnum):
    """Where the pages that are touched fit, from the field report on double buffering."""

    SHARED_BUFFERS = "fits in shared_buffers"
    RAM_ONCE = "fits once in RAM"
    RAM_TWICE = "fits twice in RAM"
    EXCEEDS = "exceeds RAM"


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """The pages that the load touches; `method` says how it was estimated, bounds in bytes."""

    kind: WorkingSetClass
    low_bytes: int
    high_bytes: int
    method: str


class WorkloadClass(StrEnum):
    """What the load is, from statistics."""

    READ_ONLY = "read-only"
    MOSTLY_READ = "mostly read-only"
    OLTP = "OLTP"
    WRITE_HEAVY = "write-heavy"
    OLAP = "OLAP"
    BATCH = "batch"


@dataclass(frozen=True, slots=True)
class Concurrency:
    """Sessions. `active_mean` counts those that execute; `waits` are mean sessions by event (`IO:DataFileRead`)."""

    connected: float | Unknown = UNSEEN
    active_mean: float | Unknown = UNSEEN
    active_max: int | Unknown = UNSEEN
    waits: Mapping[str, float] = field(default_factory=dict)
    lock_waiters_mean: float | Unknown = UNSEEN
    knee_clients: int | Unknown = field(
        default_factory=lambda: Unknown("no matrix over client counts was measured on this target")
    )
    """The number of clients beyond which throughput no longer rose, from a stored matrix."""


@dataclass(frozen=True, slots=True)
class TinyRequests:
    """Statements of one row and less than a millisecond: how many, and their share of all calls and of all time."""

    calls_s: float | Unknown
    calls_share: float
    time_share: float
    mean_ms: float | Unknown
    calls: float = 0.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """All evidence of one look at a target."""

    log: LogEvidence | Unknown = UNSEEN
    statistics: Statistics | Unknown = UNSEEN
    host: HostActivity | Unknown = UNSEEN
    devices: tuple[DeviceActivity, ...] | Unknown = UNSEEN
    tables: tuple[TableActivity, ...] | Unknown = UNSEEN
    statements: tuple[Statement, ...] | Unknown = UNSEEN
    concurrency: Concurrency | Unknown = UNSEEN
    working_set: WorkingSet | Unknown = UNSEEN
    workload: WorkloadClass | Unknown = UNSEEN
    wal_rate_bytes_s: float | Unknown = UNSEEN
    """WAL written per second at load: from pg_stat_wal, LSNs, the log's checkpoint distances, or the WAL device."""
    wal_rate_source: str = ""
    settled: Settled | Unknown = field(default_factory=lambda: Unknown("no server was asked when its settings changed"))
    kernel_oom_kills: int | Unknown = UNSEEN
    """Kills of PostgreSQL's processes in the kernel's log; those of the cgroup are a fact of the inventory."""
    kernel_oom_since: str = "since boot"
    """What time the kernel's log was read for, in words."""
    tiny_requests: TinyRequests | Unknown = UNSEEN
    workload_reason: str = ""
    """The figures that the workload's class rests on, in words."""
    bottleneck: BottleneckVerdict | Unknown = UNSEEN
    """What held the load back, by the judge of our own runs."""
    utilization: Utilization | Unknown = UNSEEN
    """As it was seen; `Inventory.utilization`, when somebody said it, knows more than one window."""
