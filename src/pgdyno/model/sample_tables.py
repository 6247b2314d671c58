"""Every sample table: what is measured each second, in which unit, and where it is read.

Three kinds of column. A *gauge* is the value at `t`. A *delta* is what a cumulative counter grew by over the
`interval_s` seconds that end at `t`: deltas add, so `sum()` over a window is the total of that window. A *rate* or a
percentage is the mean over the same interval. A row that follows skipped ticks has a longer `interval_s`; a counter
that was reset in between has no row at all. docs/reference/samples.md is generated from this file.
"""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.model.samples import Column, SampleRow, SampleTable, SampleValue


def _float(name: str, unit: str, doc: str) -> Column:
    return Column(name, "float", unit, doc)


def _int(name: str, unit: str, doc: str) -> Column:
    return Column(name, "int", unit, doc)


def _text(name: str, doc: str, *, key: bool = False) -> Column:
    return Column(name, "text", "", doc, key)


def _deltas(*columns: tuple[str, str]) -> tuple[Column, ...]:
    return tuple(_int(name, "count", doc) for name, doc in columns)


INTERVAL = _float("interval_s", "s", "seconds since the previous reading, over which deltas and rates hold")

CPU = SampleTable(
    "cpu",
    "Processor time of the whole machine, and whose it was. Read in /proc/stat, in the server's cgroup or processes, "
    "and in /proc/PID/stat of the load's driver.",
    (
        INTERVAL,
        _int("cpus", "count", "CPUs online"),
        _float("usr_pct", "% of all CPUs", "user code, niced or not, guests included"),
        _float("sys_pct", "% of all CPUs", "kernel code, without interrupts"),
        _float("irq_pct", "% of all CPUs", "hard and soft interrupts"),
        _float("iowait_pct", "% of all CPUs", "idle while a disk request was outstanding"),
        _float("steal_pct", "% of all CPUs", "taken by the hypervisor for others"),
        _float("idle_pct", "% of all CPUs", "idle with nothing outstanding"),
        _float("server_cpu_s", "s", "CPU seconds of the PostgreSQL server, all its processes"),
        _float("driver_cpu_s", "s", "CPU seconds of the load's driver, on the tuner's machine"),
        _float(
            "self_cpu_s",
            "s",
            "CPU seconds of pgdyno itself on the server's host: this sampler, or agent and tunnel",
        ),
        _float("server_cpu_pct", "% of one core", "server_cpu_s over the interval"),
        _float("driver_cpu_pct", "% of one core", "driver_cpu_s over the interval"),
        _float(
            "foreign_cpu_pct",
            "% of one core",
            "busy time that was neither server, driver nor pgdyno; 0 where the clocks' granularity makes it negative",
        ),
        _int("run_queue", "count", "runnable threads at t, this one included (procs_running)"),
        _int("blocked", "count", "threads waiting for a disk at t (procs_blocked)"),
        _float("context_switches_per_s", "1/s", "context switches (ctxt)"),
        _float("forks_per_s", "1/s", "processes and threads created (processes)"),
    ),
)

MEMORY = SampleTable(
    "memory",
    "Memory and swap. Gauges of /proc/meminfo; deltas of /proc/vmstat, NULL in the first row.",
    (
        INTERVAL,
        _int("total_bytes", "B", "memory of the machine (MemTotal)"),
        _int("available_bytes", "B", "what new programs could have without swapping (MemAvailable)"),
        _int("free_bytes", "B", "unused (MemFree)"),
        _int("cached_bytes", "B", "page cache, shared memory included (Cached)"),
        _int("buffers_bytes", "B", "block device cache (Buffers)"),
        _int("anonymous_bytes", "B", "process memory that is in no file (AnonPages)"),
        _int("shared_bytes", "B", "shared memory, where shared_buffers live without huge pages (Shmem)"),
        _int("page_tables_bytes", "B", "page tables, which grow with sessions times shared_buffers (PageTables)"),
        _int("dirty_bytes", "B", "file pages not yet written (Dirty)"),
        _int("writeback_bytes", "B", "file pages on their way to disk (Writeback)"),
        _int("huge_pages_total", "count", "huge pages set aside (HugePages_Total)"),
        _int("huge_pages_free", "count", "huge pages that nobody has touched (HugePages_Free)"),
        _int("swap_used_bytes", "B", "swap in use (SwapTotal - SwapFree)"),
        _int("swap_in_bytes", "B", "delta: read back from swap (pswpin)"),
        _int("swap_out_bytes", "B", "delta: written to swap (pswpout)"),
        _int("major_faults", "count", "delta: page faults that had to read (pgmajfault)"),
        _int("oom_kills", "count", "delta: processes killed for lack of memory (oom_kill)"),
    ),
)

PRESSURE = SampleTable(
    "pressure",
    "Share of time in which work stalled for a resource (PSI), from the `total` counters of /proc/pressure; NULL "
    "where the kernel has no PSI. `some`: at least one task waited; `full`: all of them did.",
    (
        INTERVAL,
        _float("cpu_some_pct", "% of time", "tasks waited for a CPU"),
        _float("memory_some_pct", "% of time", "tasks waited for memory"),
        _float("memory_full_pct", "% of time", "all tasks waited for memory"),
        _float("io_some_pct", "% of time", "tasks waited for a disk"),
        _float("io_full_pct", "% of time", "all tasks waited for a disk"),
    ),
)

DISK = SampleTable(
    "disk",
    "One row for each whole block device that was ever used, with the columns of `iostat -x`, from /proc/diskstats. "
    "A mean per request is NULL in a second without requests.",
    (
        _text("device", "device, as in /sys/block", key=True),
        INTERVAL,
        _float("r_per_s", "1/s", "reads completed (r/s)"),
        _float("rkb_per_s", "kB/s", "read (rkB/s)"),
        _float("rrqm_per_s", "1/s", "reads merged before they were sent (rrqm/s)"),
        _float("r_await_ms", "ms", "mean time of a read, queue included (r_await)"),
        _float("rareq_kb", "kB", "mean size of a read (rareq-sz)"),
        _float("w_per_s", "1/s", "writes completed (w/s)"),
        _float("wkb_per_s", "kB/s", "written (wkB/s)"),
        _float("wrqm_per_s", "1/s", "writes merged before they were sent (wrqm/s)"),
        _float("w_await_ms", "ms", "mean time of a write, queue included (w_await)"),
        _float("wareq_kb", "kB", "mean size of a write (wareq-sz)"),
        _float("d_per_s", "1/s", "discards completed (d/s); Linux 4.18"),
        _float("dkb_per_s", "kB/s", "discarded (dkB/s)"),
        _float("d_await_ms", "ms", "mean time of a discard (d_await)"),
        _float("f_per_s", "1/s", "flushes completed (f/s); Linux 5.5"),
        _float("f_await_ms", "ms", "mean time of a flush (f_await)"),
        _float("aqu_sz", "requests", "mean number of requests under way (aqu-sz)"),
        _float("util_pct", "% of time", "time with at least one request under way (%util)"),
    ),
)

NET = SampleTable(
    "net",
    "One row for each network interface that was ever used, `lo` included, from /proc/net/dev.",
    (
        _text("interface", "interface", key=True),
        INTERVAL,
        _float("rx_kb_per_s", "kB/s", "received"),
        _float("tx_kb_per_s", "kB/s", "sent"),
        _float("rx_packets_per_s", "1/s", "packets received"),
        _float("tx_packets_per_s", "1/s", "packets sent"),
        _int("rx_errors", "count", "delta: receive errors"),
        _int("tx_errors", "count", "delta: transmit errors"),
        _int("rx_dropped", "count", "delta: received packets dropped"),
        _int("tx_dropped", "count", "delta: packets to send dropped"),
    ),
)

DATABASE = SampleTable(
    "database",
    "Deltas of pg_stat_database for the load's database. A backend hands its counters in at most once a second and "
    "when it is idle: judge windows of several seconds.",
    (
        INTERVAL,
        _int("backends", "count", "gauge: sessions in this database (numbackends)"),
        *_deltas(
            ("xact_commit", "transactions committed"),
            ("xact_rollback", "transactions rolled back"),
            ("blks_read", "blocks asked of the operating system, whether cached there or not"),
            ("blks_hit", "blocks found in shared_buffers"),
            ("tup_returned", "rows that scans returned"),
            ("tup_fetched", "rows that index scans fetched"),
            ("tup_inserted", "rows inserted"),
            ("tup_updated", "rows updated"),
            ("tup_deleted", "rows deleted"),
            ("conflicts", "queries cancelled by recovery"),
            ("temp_files", "temporary files made"),
        ),
        _int("temp_bytes", "B", "delta: written to temporary files"),
        *_deltas(("deadlocks", "deadlocks")),
        _float("blk_read_time_ms", "ms", "delta: time of block reads; 0 unless track_io_timing is on"),
        _float("blk_write_time_ms", "ms", "delta: time of block writes; 0 unless track_io_timing is on"),
        _float("active_time_ms", "ms", "delta: time that sessions ran statements; PostgreSQL 14"),
        _float("idle_in_transaction_time_ms", "ms", "delta: time idle in a transaction; PostgreSQL 14"),
        *_deltas(
            ("sessions_abandoned", "sessions whose client vanished; PostgreSQL 14"),
            ("sessions_fatal", "sessions ended by a fatal error; PostgreSQL 14"),
            ("sessions_killed", "sessions ended by an operator; PostgreSQL 14"),
        ),
    ),
)

CHECKPOINTER = SampleTable(
    "checkpointer",
    "Deltas of pg_stat_bgwriter (to 16) or pg_stat_checkpointer and pg_stat_bgwriter (from 17).",
    (
        INTERVAL,
        *_deltas(
            ("timed", "checkpoints because checkpoint_timeout was over; from 17 skipped ones count too"),
            ("requested", "checkpoints asked for, mostly because max_wal_size was reached"),
            ("done", "checkpoints completed; PostgreSQL 18"),
        ),
        _float("write_time_ms", "ms", "delta: checkpoint time spent on writing"),
        _float("sync_time_ms", "ms", "delta: checkpoint time spent on fsync"),
        *_deltas(
            ("buffers_written", "buffers written by checkpoints"),
            ("buffers_clean", "buffers written by the background writer"),
            ("maxwritten_clean", "times the background writer stopped at bgwriter_lru_maxpages"),
            ("buffers_alloc", "buffers allocated"),
            ("buffers_backend", "buffers written by backends themselves; to 16, later see table io"),
            ("buffers_backend_fsync", "fsyncs by backends themselves; to 16, later see table io"),
        ),
    ),
)

WAL = SampleTable(
    "wal",
    "Deltas of pg_stat_wal (PostgreSQL 14); on 13 only `bytes`, from the insert position, which counts padding too. "
    "From 18 `writes` to `sync_time_ms` come from pg_stat_io.",
    (
        INTERVAL,
        *_deltas(("records", "WAL records"), ("full_page_images", "full page images (wal_fpi)")),
        _int("bytes", "B", "delta: WAL written"),
        *_deltas(
            ("buffers_full", "times WAL had to be written because wal_buffers was full"),
            ("writes", "writes of WAL"),
            ("syncs", "fsyncs of WAL"),
        ),
        _float("write_time_ms", "ms", "delta: time of WAL writes; 0 unless track_wal_io_timing is on"),
        _float("sync_time_ms", "ms", "delta: time of WAL fsyncs; 0 unless track_wal_io_timing is on"),
    ),
)

IO = SampleTable(
    "io",
    "Deltas of pg_stat_io (PostgreSQL 16): one row for each combination that did something in the interval.",
    (
        _text("backend_type", "kind of process", key=True),
        _text("object", "relation, temp relation or (from 18) wal", key=True),
        _text("context", "normal, vacuum, bulkread, bulkwrite or (from 18) init", key=True),
        INTERVAL,
        *_deltas(("reads", "read operations")),
        _int("read_bytes", "B", "delta: read; to 17 operations times op_bytes"),
        _float("read_time_ms", "ms", "delta: time of reads; 0 unless track_io_timing is on"),
        *_deltas(("writes", "write operations")),
        _int("write_bytes", "B", "delta: written; to 17 operations times op_bytes"),
        _float("write_time_ms", "ms", "delta: time of writes; 0 unless track_io_timing is on"),
        *_deltas(("extends", "extend operations")),
        _int("extend_bytes", "B", "delta: relations grew by; to 17 operations times op_bytes"),
        *_deltas(
            ("hits", "blocks found in shared_buffers"),
            ("evictions", "blocks pushed out to make room"),
            ("reuses", "buffers reused within a ring"),
            ("fsyncs", "fsync calls"),
        ),
        _float("fsync_time_ms", "ms", "delta: time of fsyncs; 0 unless track_io_timing is on"),
    ),
)

LOCKS = SampleTable(
    "locks",
    "Locks held and awaited at t (pg_locks), in the load's database or in none, the observer's session excluded. "
    "A count is a concurrency at one moment: the mean over n rows is the mean concurrency, never a rate. A second "
    "without locks has no rows: divide by the number of seconds in `sessions`.",
    (
        _text("mode", "lock mode, such as RowExclusiveLock", key=True),
        _text("locktype", "what is locked, such as relation or transactionid", key=True),
        _int("granted", "count", "gauge: locks held"),
        _int("waiting", "count", "gauge: locks awaited"),
    ),
)

SESSIONS = SampleTable(
    "sessions",
    "Client sessions in the load's database at t, by state (pg_stat_activity).",
    (
        _int("total", "count", "gauge: client sessions"),
        _int("active", "count", "gauge: running a statement"),
        _int("waiting", "count", "gauge: running a statement and waiting"),
        _int("idle", "count", "gauge: idle outside a transaction"),
        _int("idle_in_transaction", "count", "gauge: idle inside a transaction, aborted ones included"),
        _int("autovacuum_workers", "count", "gauge: autovacuum workers, in any database"),
        _int("foreign_busy", "count", "gauge: sessions in other databases that are not idle, pgdyno's own left out"),
    ),
)

WAITS = SampleTable(
    "waits",
    "Active client sessions in the load's database at t by what they wait for (pg_stat_activity). The mean over the "
    "seconds of a window is the number of average active sessions. A second without active sessions has no rows.",
    (
        _text("wait_event_type", "class of the wait, or CPU when the session does not wait", key=True),
        _text("wait_event", "the wait, or CPU", key=True),
        _int("sessions", "count", "gauge: sessions"),
    ),
)

STATEMENTS = SampleTable(
    "statements",
    "The statements of the load's database that took longest between two marks (pg_stat_statements), where that "
    "extension is installed. Written at the end of the run, not every second.",
    (
        _text("queryid", "queryid of pg_stat_statements, 0 for all others together", key=True),
        _text("query", "text with constants replaced, cut at 1000 characters"),
        INTERVAL,
        *_deltas(("calls", "executions")),
        _float("total_exec_time_ms", "ms", "delta: time of executions"),
        *_deltas(
            ("rows", "rows returned or affected"),
            ("shared_blks_hit", "blocks found in shared_buffers"),
            ("shared_blks_read", "blocks asked of the operating system"),
            ("shared_blks_dirtied", "blocks dirtied"),
            ("shared_blks_written", "blocks written by the statement itself"),
            ("temp_blks_read", "temporary blocks read"),
            ("temp_blks_written", "temporary blocks written"),
            ("wal_records", "WAL records"),
            ("wal_fpi", "full page images"),
        ),
        _int("wal_bytes", "B", "delta: WAL generated"),
    ),
)

REPLICATION = SampleTable(
    "replication",
    "One row for each attached standby (pg_stat_replication).",
    (
        _text("standby", "application_name of the standby", key=True),
        _text("state", "gauge: streaming, catchup ..."),
        _text("sync_state", "gauge: async, sync, potential or quorum"),
        _int("sent_lag_bytes", "B", "gauge: WAL not yet sent"),
        _int("flush_lag_bytes", "B", "gauge: WAL not yet flushed by the standby"),
        _int("replay_lag_bytes", "B", "gauge: WAL not yet replayed"),
        _float("replay_lag_s", "s", "gauge: age of the last replayed commit (replay_lag)"),
    ),
)

OBSERVER = SampleTable(
    "observer",
    "What sampling itself cost, and how punctual it was.",
    (
        _int("skipped", "count", "ticks skipped before this one because the one before took too long"),
        _float("late_ms", "ms", "how long after its due time the tick began"),
        _float("host_ms", "ms", "time of the host's readings"),
        _float("postgres_ms", "ms", "time of the server's readings"),
    ),
)

TABLES: Mapping[str, SampleTable] = {
    table.name: table
    for table in (
        CPU,
        MEMORY,
        PRESSURE,
        DISK,
        NET,
        DATABASE,
        CHECKPOINTER,
        WAL,
        IO,
        LOCKS,
        SESSIONS,
        WAITS,
        STATEMENTS,
        REPLICATION,
        OBSERVER,
    )
}


def named(row: SampleRow) -> dict[str, SampleValue]:
    """Return the values of a row by the columns of its table, `t` first."""
    return dict(zip(TABLES[row.table].column_names(), (row.t, *row.values), strict=True))
