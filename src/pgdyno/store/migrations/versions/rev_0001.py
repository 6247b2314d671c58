"""The first schema: studies, trials, histograms, events, and the sample tables as they were then.

Written out, not derived from the code's present tables: a migration must do the same thing for ever.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TYPES: dict[str, type[sa.Double[float]] | type[sa.BigInteger] | type[sa.Text]] = {
    "float": sa.Double,
    "int": sa.BigInteger,
    "text": sa.Text,
}

_SAMPLES = {
    "cpu": (
        "interval_s:float cpus:int usr_pct:float sys_pct:float irq_pct:float iowait_pct:float steal_pct:float "
        "idle_pct:float server_cpu_s:float driver_cpu_s:float self_cpu_s:float server_cpu_pct:float "
        "driver_cpu_pct:float foreign_cpu_pct:float run_queue:int blocked:int context_switches_per_s:float "
        "forks_per_s:float"
    ),
    "memory": (
        "interval_s:float total_bytes:int available_bytes:int free_bytes:int cached_bytes:int "
        "buffers_bytes:int anonymous_bytes:int shared_bytes:int page_tables_bytes:int dirty_bytes:int "
        "writeback_bytes:int huge_pages_total:int huge_pages_free:int swap_used_bytes:int swap_in_bytes:int "
        "swap_out_bytes:int major_faults:int oom_kills:int"
    ),
    "pressure": (
        "interval_s:float cpu_some_pct:float memory_some_pct:float memory_full_pct:float io_some_pct:float "
        "io_full_pct:float"
    ),
    "disk": (
        "device:text interval_s:float r_per_s:float rkb_per_s:float rrqm_per_s:float r_await_ms:float "
        "rareq_kb:float w_per_s:float wkb_per_s:float wrqm_per_s:float w_await_ms:float wareq_kb:float "
        "d_per_s:float dkb_per_s:float d_await_ms:float f_per_s:float f_await_ms:float aqu_sz:float "
        "util_pct:float"
    ),
    "net": (
        "interface:text interval_s:float rx_kb_per_s:float tx_kb_per_s:float rx_packets_per_s:float "
        "tx_packets_per_s:float rx_errors:int tx_errors:int rx_dropped:int tx_dropped:int"
    ),
    "database": (
        "interval_s:float backends:int xact_commit:int xact_rollback:int blks_read:int blks_hit:int "
        "tup_returned:int tup_fetched:int tup_inserted:int tup_updated:int tup_deleted:int conflicts:int "
        "temp_files:int temp_bytes:int deadlocks:int blk_read_time_ms:float blk_write_time_ms:float "
        "active_time_ms:float idle_in_transaction_time_ms:float"
    ),
    "checkpointer": (
        "interval_s:float timed:int requested:int done:int write_time_ms:float sync_time_ms:float "
        "buffers_written:int buffers_clean:int maxwritten_clean:int buffers_alloc:int buffers_backend:int "
        "buffers_backend_fsync:int"
    ),
    "wal": (
        "interval_s:float records:int full_page_images:int bytes:int buffers_full:int writes:int syncs:int "
        "write_time_ms:float sync_time_ms:float"
    ),
    "io": (
        "backend_type:text object:text context:text interval_s:float reads:int read_bytes:int "
        "read_time_ms:float writes:int write_bytes:int write_time_ms:float extends:int extend_bytes:int "
        "hits:int evictions:int reuses:int fsyncs:int fsync_time_ms:float"
    ),
    "locks": ("mode:text locktype:text granted:int waiting:int"),
    "sessions": ("total:int active:int waiting:int idle:int idle_in_transaction:int autovacuum_workers:int"),
    "waits": ("wait_event_type:text wait_event:text sessions:int"),
    "statements": (
        "queryid:text query:text interval_s:float calls:int total_exec_time_ms:float rows:int "
        "shared_blks_hit:int shared_blks_read:int shared_blks_dirtied:int shared_blks_written:int "
        "temp_blks_read:int temp_blks_written:int wal_records:int wal_fpi:int wal_bytes:int"
    ),
    "replication": (
        "standby:text state:text sync_state:text sent_lag_bytes:int flush_lag_bytes:int replay_lag_bytes:int "
        "replay_lag_s:float"
    ),
    "observer": ("skipped:int late_ms:float host_ms:float postgres_ms:float"),
}

_TRIAL_RESULTS = (
    "reason:text began_at:float elapsed_s:float steady_from:float ended_at:float throughput:float "
    "latency_p50_ms:float latency_p95_ms:float latency_p99_ms:float latency_p999_ms:float latency_max_ms:float "
    "latency_mean_ms:float transactions:int failed:int retried:int skipped:int driver_cpu_s:float server_cpu_s:float "
    "server_cpu_ms_per_tx:float foreign_cpu_pct:float steal_pct:float settings_fingerprint:text"
)

# The code refuses to change a finished trial; these refuse it to every other program as well.
_SQLITE_TRIGGER = """
CREATE TRIGGER trial_is_final BEFORE UPDATE ON trial WHEN OLD.state <> 'running'
BEGIN SELECT RAISE(ABORT, 'a finished trial never changes'); END
"""
_POSTGRES_FUNCTION = """
CREATE FUNCTION pgdyno_trial_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'a finished trial never changes'; END $$
"""
_POSTGRES_TRIGGER = """
CREATE TRIGGER trial_is_final BEFORE UPDATE ON trial FOR EACH ROW WHEN (OLD.state <> 'running')
EXECUTE FUNCTION pgdyno_trial_is_final()
"""


def _columns(text: str) -> list[sa.Column[object]]:
    pairs = (item.split(":") for item in text.split())
    return [sa.Column(name, _TYPES[kind]()) for name, kind in pairs]


def _required(text: str) -> list[sa.Column[object]]:
    pairs = (item.split(":") for item in text.split())
    return [sa.Column(name, _TYPES[kind](), nullable=False) for name, kind in pairs]


def _run_id() -> sa.Column[int]:
    return sa.Column("run_id", _ID, sa.ForeignKey("trial.id"), nullable=False)


def upgrade() -> None:
    """Build everything in an empty database."""
    op.create_table(
        "study",
        sa.Column("id", sa.Text(), primary_key=True),
        *_required("kind:text name:text state:text created_at:float target:text environment:text"),
        *(sa.Column(name, sa.JSON(), nullable=False) for name in ("facts", "workload", "plan", "options")),
        sa.Column("result", sa.JSON()),
    )
    op.create_table(
        "trial",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("study_id", sa.Text(), sa.ForeignKey("study.id"), nullable=False),
        *_required("role:text arm:text block:int slot:int"),
        sa.Column("repeats", sa.BigInteger()),
        *_required("configuration:text state:text"),
        *_columns(_TRIAL_RESULTS),
        sa.Column("counters", sa.JSON()),
        sa.Column("warnings", sa.JSON()),
    )
    op.create_index("ix_trial_study_id", "trial", ["study_id"])
    op.create_table(
        "trial_setting",
        sa.Column("trial_id", _ID, sa.ForeignKey("trial.id"), primary_key=True),
        sa.Column("knob", sa.Text(), primary_key=True),
        sa.Column("value", sa.Text(), nullable=False),
    )
    op.create_table(
        "histogram",
        _run_id(),
        *_required("second:int instance:int script:text count:int total_us:int failed:int retried:int skipped:int"),
        sa.Column("blob", sa.LargeBinary(), nullable=False),
    )
    op.create_index("histogram_run_second", "histogram", ["run_id", "second"])
    op.create_table("event", _run_id(), *_required("t:float kind:text text:text"))
    op.create_index("event_run_t", "event", ["run_id", "t"])
    for name, columns in _SAMPLES.items():
        op.create_table(name, _run_id(), *_required("t:float"), *_columns(columns))
        op.create_index(f"{name}_run_t", name, ["run_id", "t"])
    if op.get_bind().dialect.name == "postgresql":
        op.execute(_POSTGRES_FUNCTION)
        op.execute(_POSTGRES_TRIGGER)
    else:
        op.execute(_SQLITE_TRIGGER)
