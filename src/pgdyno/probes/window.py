"""What a window of sampled rows says: means, totals and concurrency between two moments. Pure.

A row holds for the `interval_s` seconds that end at its `t`. A row that reaches over an edge of the window counts
for the part that lies inside, as if its work had been spread evenly. At the end of a load that is wrong, because
nothing runs after it: give `load_ended_at`, and the whole of a row's work counts for the part before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from pgdyno.model.sample_tables import named
from pgdyno.model.samples import SampleRow, SampleValue
from pgdyno.probes.host.cpu import foreign_s
from pgdyno.store.sampled_rows import rows_of

Rows = Collection[SampleRow]

_COUNTERS: Mapping[str, Mapping[str, str]] = {
    "database": {
        name: name
        for name in (
            "xact_commit",
            "xact_rollback",
            "blks_read",
            "blks_hit",
            "tup_returned",
            "tup_fetched",
            "tup_inserted",
            "tup_updated",
            "tup_deleted",
            "temp_files",
            "temp_bytes",
            "deadlocks",
            "conflicts",
        )
    },
    "wal": {
        "wal_records": "records",
        "wal_fpi": "full_page_images",
        "wal_bytes": "bytes",
        "wal_buffers_full": "buffers_full",
    },
    "checkpointer": {
        "checkpoints_timed": "timed",
        "checkpoints_requested": "requested",
        "checkpoint_buffers_written": "buffers_written",
        "bgwriter_buffers_clean": "buffers_clean",
        "buffers_alloc": "buffers_alloc",
    },
    "memory": {name: name for name in ("swap_in_bytes", "swap_out_bytes", "major_faults", "oom_kills")},
}
_STACKED = ("dm-", "md", "loop", "zram", "ram", "nbd", "drbd")
"""Devices that pass their requests on to others, or to memory: counting them would count a read twice."""

_BLOCK = 8192.0
"""The usual block size; another one is a matter of a build of one's own."""
_JOURNAL = 2.0
"""How much a file system may write for each byte of the server's: data once, journal and metadata at most once more."""


def is_physical(device: str) -> bool:
    """Return True for a device that does its requests itself."""
    return not device.startswith(_STACKED)


def foreign_cpu_pct(rows: Rows, from_s: float, to_s: float, *, driver_is_here: bool = True) -> float | None:
    """Return the CPU of neither server, driver nor pgdyno on the server's host, in percent of one core.

    `rows` are a run's samples, of which those of table cpu between `from_s` and `to_s` (seconds since the epoch) count.
    `driver_is_here` is False when the load generator runs on another host: what it uses is no part of that busy time.
    Taken from the sums of the window, so that the 10 ms ticks of /proc/stat average out; never below 0. None when no
    row of the window knows the server's share.
    """
    busy = server = driver = own = seconds = 0.0
    for row, share in _shares(rows, "cpu", from_s, to_s):
        if row["server_cpu_s"] is None or row["usr_pct"] is None:
            continue
        percent = _number(row, "usr_pct") + _number(row, "sys_pct") + _number(row, "irq_pct")
        busy += share * percent / 100 * _number(row, "cpus") * _number(row, "interval_s")
        server += share * _number(row, "server_cpu_s")
        driver += share * _number(row, "driver_cpu_s") if driver_is_here else 0.0
        own += share * _number(row, "self_cpu_s")
        seconds += share * _number(row, "interval_s")
    foreign = foreign_s(busy, server, driver, own)
    return None if not seconds or foreign is None else 100 * foreign / seconds


def foreign_disk_mb_per_s(rows: Rows, from_s: float, to_s: float) -> float | None:
    """Return what the physical disks moved beyond what this server can account for, in MB/s; a lower bound.

    Writes: what the disks wrote less what the server wrote of relations, WAL and temporary files, less the pages that
    were dirty before the window and no longer after it. Reads: what the disks read less what the server asked for.
    A file system's journal adds to the server's writes, so twice as much is granted it. The server's share is that of
    pg_stat_io (16) or, before, of pg_stat_bgwriter and pg_stat_database. None where either side was not read.
    """
    read = write = 0.0
    disks = [pair for pair in _shares(rows, "disk", from_s, to_s) if is_physical(str(pair[0]["device"]))]
    for row, share in disks:
        span_kb = share * _number(row, "interval_s") * 1024
        read, write = read + span_kb * _number(row, "rkb_per_s"), write + span_kb * _number(row, "wkb_per_s")
    server = _server_io(rows, from_s, to_s)
    if not disks or server is None:
        return None
    dirty = [_number(named(row), "dirty_bytes") for row in rows_of(rows, "memory") if from_s <= row.t <= to_s]
    backlog = max(0.0, dirty[0] - dirty[-1]) if dirty else 0.0
    beyond = max(0.0, write - _JOURNAL * server[1] - backlog) + max(0.0, read - server[0])
    return beyond / 1048576 / (to_s - from_s)


def _server_io(rows: Rows, from_s: float, to_s: float) -> tuple[float, float] | None:
    """Return the bytes that the server read and wrote in the window; None where its counters were not read."""
    read = write = blocks = 0.0
    known = False
    by_kind = [pair for pair in _shares(rows, "io", from_s, to_s) if pair[0]["object"] != "wal"]
    for row, share in by_kind:
        read += share * _number(row, "read_bytes")
        write += share * (_number(row, "write_bytes") + _number(row, "extend_bytes"))
    for row, share in _shares(rows, "checkpointer", from_s, to_s):
        known = True
        blocks += share * sum(_number(row, name) for name in ("buffers_written", "buffers_clean", "buffers_backend"))
    for row, share in _shares(rows, "database", from_s, to_s):
        read += share * (_number(row, "temp_bytes") + (0.0 if by_kind else _BLOCK * _number(row, "blks_read")))
        write += share * _number(row, "temp_bytes")
    for row, share in _shares(rows, "wal", from_s, to_s):
        write += share * _number(row, "bytes")
    return (read, write + (0.0 if by_kind else _BLOCK * blocks)) if known else None


def foreign_sessions(rows: Rows, from_s: float, to_s: float) -> float | None:
    """Return the mean number of sessions in other databases that were not idle; None without rows."""
    found = [named(row) for row in rows_of(rows, "sessions") if from_s < row.t <= to_s]
    return sum(_number(row, "foreign_busy") for row in found) / len(found) if found else None


def steal_pct(rows: Rows, from_s: float, to_s: float) -> float | None:
    """Return the mean time that the hypervisor took, in percent of all CPUs; None without rows."""
    return _mean(rows, "cpu", "steal_pct", from_s, to_s)


def server_cpu_s(rows: Rows, from_s: float, to_s: float, *, load_ended_at: float | None = None) -> float | None:
    """Return the CPU seconds of the server in the window; None when part of the window has no known share.

    `from_s` and `to_s` are its bounds on the clock of the `rows`, of which each stands at the end of its interval;
    `load_ended_at`, on the same clock, cuts an interval that outlasted the load.
    """
    total = covered = 0.0
    for row, share in _shares(rows, "cpu", from_s, to_s, load_ended_at):
        if row["server_cpu_s"] is None:
            return None
        total += share * _number(row, "server_cpu_s")
        covered += _overlap(row, from_s, to_s)
    return total if covered >= 0.95 * (to_s - from_s) > 0 else None


def counters(
    rows: Rows, from_s: float, to_s: float, *, load_ended_at: float | None = None, own_devices: bool = True
) -> Mapping[str, float]:
    """Return totals of the window: blks_hit, blks_read, wal_bytes, wal_fpi, checkpoints_timed, disk_read_bytes ...

    `from_s` and `to_s` are its bounds on the clock of the `rows`, in seconds since the epoch, and `load_ended_at` is
    when the load ended, on the same clock: all of a row's work is then taken to lie before it, and with None to be
    spread evenly over its interval. Only what the server and the machine have is in the mapping. Backends hand their
    counters in up to a second late, so that both edges are soft: set a total in relation to others of the same window,
    not to a shorter one. `disk_read_bytes` and `disk_written_bytes` are those of the physical devices, left out where
    `own_devices` is False: then the data lie on none of them. `user_cpu_s` is user time of all CPUs, of the
    `cpu_capacity_s` that they had.
    """
    totals: dict[str, float] = defaultdict(float)
    for table, columns in _COUNTERS.items():
        for row, share in _shares(rows, table, from_s, to_s, load_ended_at):
            for name, column in columns.items():
                if row[column] is not None:
                    totals[name] += share * _number(row, column)
    for row, share in _shares(rows, "cpu", from_s, to_s, load_ended_at):
        if row["usr_pct"] is not None and row["cpus"] is not None:
            capacity = share * _number(row, "cpus") * _number(row, "interval_s")
            totals["cpu_capacity_s"] += capacity
            totals["user_cpu_s"] += capacity * _number(row, "usr_pct") / 100
    for row, share in _shares(rows, "disk", from_s, to_s, load_ended_at):
        if own_devices and is_physical(str(row["device"])):
            span_kb = share * _number(row, "interval_s") * 1024
            totals["disk_reads"] += span_kb / 1024 * _number(row, "r_per_s")
            totals["disk_read_bytes"] += span_kb * _number(row, "rkb_per_s")
            totals["disk_written_bytes"] += span_kb * _number(row, "wkb_per_s")
    return dict(totals)


def _mean(rows: Rows, table: str, column: str, from_s: float, to_s: float) -> float | None:
    total = seconds = 0.0
    for row, _ in _shares(rows, table, from_s, to_s):
        if row[column] is not None:
            inside = _overlap(row, from_s, to_s)
            total += inside * _number(row, column)
            seconds += inside
    return total / seconds if seconds else None


_Named = Mapping[str, SampleValue]


def _shares(
    rows: Rows, table: str, from_s: float, to_s: float, load_ended_at: float | None = None
) -> Iterator[tuple[_Named, float]]:
    """Give each row that reaches into the window, with the part of its work that belongs there."""
    for row in rows_of(rows, table):
        values = named(row)
        if values["interval_s"] is None:
            continue
        inside = _overlap(values, from_s, to_s)
        whole = _number(values, "interval_s")
        if load_ended_at is not None:
            whole = _overlap(values, row.t - whole, load_ended_at)
        if inside > 0 and whole > 0:
            yield values, inside / whole


def _overlap(row: _Named, from_s: float, to_s: float) -> float:
    end = _number(row, "t")
    return max(0.0, min(end, to_s) - max(end - _number(row, "interval_s"), from_s))


def _number(row: _Named, column: str) -> float:
    value = row[column]
    return float(value) if isinstance(value, int | float) else 0.0
