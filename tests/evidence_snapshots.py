"""Snapshots of a small server for tests of evidence: two tables, two statements, counters that triple in 10 s."""

from __future__ import annotations

import copy
from typing import Any


def snapshot(t: float = 1000.0, factor: int = 1, **changed: Any) -> dict[str, Any]:
    """Make a snapshot of a server that started at 100; counters are multiples of `factor`."""
    counts = {
        name: factor * count
        for name, count in {
            "xact_commit": 10, "xact_rollback": 1, "blks_read": 20, "blks_hit": 180, "tup_returned": 100,
            "tup_fetched": 50, "tup_inserted": 5, "tup_updated": 10, "tup_deleted": 5, "temp_files": 1,
            "temp_bytes": 4096, "deadlocks": 1, "active_time_ms": 50.0, "session_time_ms": 100.0,
        }.items()
    }  # fmt: skip
    table = {
        "schema": "public", "name": "stock", "tablespace": "", "fetched": 150 * factor, "hit": 140 * factor,
        "tables": 2, "all_fetched": 200 * factor, "all_hit": 180 * factor, "bytes": 8192 * factor, "index_bytes": 8192,
        "is_measured": True, "seq_scans": factor, "seq_rows": 30 * factor, "bitmap_rows": 0, "writes": 20 * factor,
        "live": 90, "dead": 10, "indexes": {"stock_pkey": [50 * factor, 50 * factor]}, "index_rows": 10 * factor,
    }  # fmt: skip
    other = {**table, "name": "item", "fetched": 50 * factor, "hit": 40 * factor, "bytes": 8192, "indexes": {}}
    statement = {
        "queryid": "1", "database": "app", "query": "SELECT a FROM t WHERE id = $1", "calls": 100.0 * factor,
        "rows": 100.0 * factor, "time_ms": 10.0 * factor, "blocks_read": 5.0 * factor, "temp_read": 0.0,
        "temp_written": 0.0, "all_time_ms": 20.0 * factor, "all_calls": 125.0 * factor,
    }  # fmt: skip
    large = {**statement, "queryid": "2", "calls": 1.0 * factor, "rows": 900.0 * factor, "query": "SELECT * FROM t"}
    made = {
        "version_num": 180_000,
        "server": [
            {"t": t, "started_at": 100.0, "block_size": 8192, "lsn": 5000 * factor, "in_recovery": False}
            | {"checkpointer_reset": 90.0, "wal_reset": 90.0, "io_reset": 90.0}
        ],
        "databases": [{"database": "app", "reset_at": None, **counts}],
        "checkpointer": [
            {"timed": factor, "requested": 2 * factor, "buffers_written": 3 * factor, "buffers_clean": 0}
            | {"maxwritten_clean": 0}
        ],
        "wal": [{"bytes": 81920 * factor, "full_page_images": 5 * factor, "buffers_full": 0, "records": 10 * factor}],
        "io": [
            {"backend_type": kind, "object": "relation", "context": "normal", "evictions": 10 * factor}
            | {"write_bytes": 8192 * factor, "extend_bytes": 8192 * factor}
            for kind in ("client backend", "checkpointer")
        ],
        "tables": {"app": [table, other]},
        "statements": [statement, large],
        "failures": {},
    }
    return copy.deepcopy(made | changed)


FIRST, LAST = snapshot(1000.0), snapshot(1010.0, 3)
