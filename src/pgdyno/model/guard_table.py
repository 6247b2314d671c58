"""Every guard: what it reads, where it trips, and why there. `docs/reference/guards.md` is generated from this table.

Windows: rates hold for the last WINDOW_S seconds, so that one burst does not trip them. A default errs on the side of
a server that people depend on: a false alarm costs one configuration, a missed one costs them an outage.
"""

from __future__ import annotations

from pgdyno.model.guard import Guard, GuardKind

WINDOW_S = 5.0
"""Rates are over this long."""
P99_FLOOR_MS = 5.0
"""A baseline's p99 below this is taken for this: 20 times a fraction of a millisecond is no danger to anyone."""
GB = float(1 << 30)
MB = float(1 << 20)
_CONFIGURATION, _ENVIRONMENT = GuardKind.CONFIGURATION, GuardKind.ENVIRONMENT

_READINGS = Guard(
    "readings", _CONFIGURATION, "s", 2.0, can_be_off=False,
    reads="the age of the last complete reading of host, volumes and server, and of each quantity that fails",
    reason="guards fail closed: what cannot be read is not known to be safe. Two seconds are four ticks.",
)  # fmt: skip

_HOST = (
    Guard(
        "memory", _CONFIGURATION, "B", 5, is_floor=True, default_is_share=True, can_be_off=False,
        reads="memory that can be had without swapping: the least of MemAvailable and, for every cgroup v1 or v2 with "
        "a limit around the server, limit - usage + file cache",
        reason="below 5 % the kernel spends its time on reclaim, and one more work_mem of each session is an OOM kill.",
    ),
    Guard(
        "memory-stall", _CONFIGURATION, "%", 25,
        reads="share of the last 5 s in which all tasks were stalled for memory: `full` of the server's cgroup v2 "
        "memory.pressure, else of /proc/pressure/memory",
        reason="a quarter of the time lost to reclaim is thrashing. systemd-oomd kills at 60 % over 30 s; we look "
        "sooner because only a trial is lost.",
    ),
    Guard(
        "oom", _CONFIGURATION, "count", 0, can_be_off=False,
        reads="processes killed for lack of memory since the session began: oom_kill of the server's own cgroup "
        "(memory.events, memory.oom_control), which counts its processes whichever bound they were killed for; kills "
        "elsewhere turn the indicator amber. Where the server has no group of its own, oom_kill of /proc/vmstat, and "
        "the reading says that it is the whole host's",
        reason="one kill of a backend restarts every session of the server.",
    ),
    Guard(
        "swap-in", _CONFIGURATION, "B/s", 8 * MB,
        reads="pages swapped in (pswpin of /proc/vmstat), over the last 5 s",
        reason="pages that come back are pages in use. 8 MB/s is 2,000 faults a second that wait for a disk; a few "
        "cold pages of another process stay below.",
    ),
)  # fmt: skip

_VOLUMES = (
    Guard(
        "disk", _ENVIRONMENT, "B", 5, is_floor=True, default_is_share=True, least_default=GB, most_default=10 * GB,
        can_be_off=False,
        reads="free space of the data directory's file system, as an ordinary user has it (statvfs f_bavail)",
        reason="a full data volume stops every writer, and a crash then cannot be recovered from without making room. "
        "5 %, at least 1 GB: a clone or a sort grows by hundreds of MB between two ticks.",
    ),
    Guard(
        "wal-disk", _ENVIRONMENT, "B", 5, is_floor=True, default_is_share=True, least_default=GB,
        most_default=10 * GB, can_be_off=False,
        reads="free space of pg_wal's file system; off where it is the data directory's",
        reason="PostgreSQL panics when WAL cannot be written. max_wal_size is a soft bound that a slow checkpoint "
        "passes (runtime-config-wal), so its size alone is not a margin.",
    ),
    Guard(
        "temp", _CONFIGURATION, "B/s", 256 * MB,
        reads="bytes written to temporary files, over the last 5 s: growth of base/pgsql_tmp, or temp_bytes of the "
        "load's database (pg_stat_database), whichever is more. The counter sees a file only when it is closed, and "
        "is all there is for temp_tablespaces",
        reason="a work_mem that spills at this rate fills 1 GB in four seconds, and flushes the page cache of "
        "everyone else. Raise it for a load whose baseline spills.",
    ),
)  # fmt: skip

_REPLICATION = (
    Guard(
        "replication-lag", _ENVIRONMENT, "s", 10,
        reads="age of the oldest WAL that a physical standby has not replayed, by our own clock (replay_lag of "
        "pg_stat_replication does not grow while a standby is silent); the time since it was last seen when it is gone",
        reason="reads on a standby go stale, and a failover would take that long. 10 s leave room for the reconnect "
        "after our restart (wal_retrieve_retry_interval, 5 s).",
    ),
    Guard(
        "replication-bytes", _ENVIRONMENT, "B", GB,
        reads="WAL that a physical standby has not replayed, above what it was when the session began",
        reason="one gigabyte is 64 segments: at the default wal_keep_size of 0 the primary may remove what a standby "
        "without a slot still needs.",
    ),
    Guard(
        "slots", _ENVIRONMENT, "B", 4 * GB,
        reads="WAL that the slot furthest behind keeps on disk (restart_lsn of pg_replication_slots), above what it "
        "was when the session began",
        reason="a slot without max_slot_wal_keep_size keeps WAL until the disk is full, and a load makes gigabytes "
        "of it for a consumer that is away.",
    ),
    Guard(
        "slots-lost", _ENVIRONMENT, "count", 0, can_be_off=False,
        reads="slots whose wal_status became lost since the session began",
        reason="a lost slot means a standby or a subscriber to rebuild.",
    ),
)  # fmt: skip

_SERVER = (
    Guard(
        "connections", _ENVIRONMENT, "%", 90,
        reads="client sessions of all databases, against max_connections without superuser_reserved_connections and "
        "reserved_connections; before the first trial, with the load's sessions added",
        reason="applications are refused at 100 %; pools reconnect in bursts.",
    ),
    Guard(
        "errors", _CONFIGURATION, "%", 5,
        reads="rollbacks of the load's database (pg_stat_database) and failed transactions of the load, against all "
        "its transactions, over the last 5 s and from 20 transactions on; of a captured load only the answers unlike "
        "the captured ones, since it rolls back as its capture did",
        reason="a load that fails measures the failure. Raise it for scripts that roll back on purpose.",
    ),
    Guard(
        "deadlocks", _CONFIGURATION, "count", 10,
        reads="deadlocks of the load's database since the load began (pg_stat_database); of a captured load without "
        "those that its capture has as well",
        reason="each costs its sessions deadlock_timeout: more than a handful a trial and it measures the waiting.",
    ),
    Guard(
        "xid-age", _ENVIRONMENT, "%", 60, can_be_off=False,
        reads="the older of age(datfrozenxid) and mxid_age(datminmxid) over all databases, of the 2^31 at which "
        "PostgreSQL stops",
        reason="healthy servers pass autovacuum_freeze_max_age again and again, so that is no alarm (the indicator "
               "turns amber there); 60 % is before vacuum_failsafe_age, 1.6 of 2.1 billion.",
    ),
)  # fmt: skip

_LOAD = (
    Guard(
        "throughput", _CONFIGURATION, "%", 10, is_floor=True, hold_s=5,
        reads="transactions per second of the running load, of the mean of the study's last three complete baseline "
        "trials under the same load (a matrix has several); off until there is one, in the first seconds of a load, "
        "and where the baseline has fewer than 20 transactions in 5 s",
        reason="a configuration that is ten times slower has no chance, and holds the server for a whole trial. It "
        "must last 5 s: a checkpoint may stall a good one for a second or two.",
    ),
    Guard(
        "p99", _CONFIGURATION, "x", 20, hold_s=5,
        reads="p99 of the last 5 s of the running load, as a multiple of the largest p99 of the same baseline "
        "trials (taken for 5 ms where it is less)",
        reason="users of the server wait for it too. Twenty times, lasting 5 s, is not noise.",
    ),
)  # fmt: skip

_LIVE = (
    Guard(
        "statement-time", _CONFIGURATION, "x", 3, hold_s=3.5,
        reads="time of the statements of the body that ended in the last 4 s, of what their calls took in the "
        "reference (what the last period of A took above that is left out); where hardly one ends although sessions "
        "are at work, how many times more calls the reference had; 1 at most in a burst, where half as many calls "
        "again end as in the reference, or in the last period of A where that is more",
        reason="equal arms stayed below twice; it must last 3.5 s, and the baseline is back within 10 s of a change "
        "that cripples the load. In a burst statements queue whatever is set; a setting that cripples them lets fewer "
        "of them end.",
    ),
    Guard(
        "backlog", _CONFIGURATION, "x", 3, hold_s=5,
        reads="sessions at work that do not wait for a lock, of the busiest hundredth of the reference, or of four "
        "thirds of the cores where that is more; 1 at most in a burst, as above",
        reason="what arrives and does not end piles up before any counter of statements shows it.",
    ),
    Guard(
        "oldest-statement", _CONFIGURATION, "x", 10,
        reads="how long a statement that began under B has run, of the longest that the reference saw, or of 6 s where "
        "that is more; whichever arm is in force by then",
        reason="no counter shows a statement before it ends, and one with a bad plan may not: what takes ten times the "
        "longest, and a minute at least, is told while it runs.",
    ),
    Guard(
        "lock-waits", _ENVIRONMENT, "x", 3, hold_s=10,
        reads="sessions that wait for a lock in a statement of more than a second, of the most that the reference saw, "
        "or of five thirds where that is more",
        reason="who waits for a lock measures its holder, and no setting. More than five sessions for ten seconds "
        "are a queue, for five they are somebody's long transaction.",
    ),
)  # fmt: skip

GUARDS: dict[str, Guard] = {
    guard.name: guard for guard in (*_HOST, *_VOLUMES, *_REPLICATION, *_SERVER, *_LOAD, _READINGS)
}
"""All guards by name, in the order in which displays show them."""

LIVE_GUARDS: dict[str, Guard] = {guard.name: guard for guard in _LIVE}
"""What watches beside them while `pgdyno live` changes a server: its load has no driver that could be asked."""

_CAPTURE = (
    Guard(
        "log-disk", _ENVIRONMENT, "B", 5, is_floor=True, default_is_share=True, least_default=GB, most_default=10 * GB,
        reads="free space of the file system that the server logs to (statvfs f_bavail); off where it is the data "
        "directory's",
        reason="a server that cannot log loses lines without a word, and what else writes to that volume stops. A "
        "capture writes hundreds of bytes for every statement.",
    ),
)  # fmt: skip

CAPTURE_GUARDS: dict[str, Guard] = {guard.name: guard for guard in _CAPTURE}
"""What watches beside them while `pgdyno capture` has a server log its load."""
