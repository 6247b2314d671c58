"""Snapshots as statistics, tables, statements, classes: growth, resets, restarts, and what nothing says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor_case import GB, MB, make_host, make_server
from evidence_snapshots import FIRST, LAST, snapshot
from pgdyno.model.evidence import (
    Statistics,
    Window,
    WorkingSetClass,
    WorkloadClass,
)
from pgdyno.model.facts import LittleLoad, NoLoad, Unknown
from pgdyno.model.inventory import Inventory, Mount, Place, Purpose
from pgdyno.probes.evidence.concurrency import concurrency
from pgdyno.probes.evidence.counters import keyed_growth
from pgdyno.probes.evidence.derive import Files, derive
from pgdyno.probes.evidence.observation import Observation
from pgdyno.probes.evidence.snapshot import without_values
from pgdyno.probes.evidence.statistics import statistics
from pgdyno.probes.evidence.tables import statements, tables, tiny_requests
from pgdyno.probes.evidence.working_set import WorkingSetSigns, classify_size, working_set
from pgdyno.probes.evidence.workload_class import classify


@pytest.mark.requirement("R-VER-04")
def test_window_between_two_snapshots():
    found = statistics(FIRST, LAST)
    assert isinstance(found, Statistics)
    assert found.window == Window(10.0, "sampled", "1970-01-01T00:16:40+00:00")
    assert (found.commits_s, found.rollbacks_s, found.deadlocks) == (2.0, 0.2, 2)
    assert (found.rows_read_s, found.rows_written_s, found.write_share) == (20.0, 4.0, pytest.approx(4 / 24))
    assert (found.hit_ratio, found.blocks_read_s) == (0.9, 4.0)
    assert (found.checkpoints_timed, found.checkpoints_requested) == (2, 4)
    assert (found.wal_bytes_s, found.wal_bytes_per_commit) == (16384.0, 8192.0)
    assert found.full_page_image_share == 0.5
    assert (found.evictions_s, found.buffers_backend) == (4.0, 4)
    assert found.session_busy_ratio == 0.5
    assert found.analytic_share == 0.75


def test_one_snapshot_counts_since_the_reset():
    found = statistics(None, LAST)
    assert isinstance(found, Statistics)
    assert (found.window.seconds, found.window.source) == (920.0, "since the statistics were reset")
    assert found.commits_s == pytest.approx(30 / 920)


def test_counters_that_are_too_young_say_nothing():
    last = snapshot(1010.0, 3)
    for name in ("checkpointer_reset", "wal_reset", "io_reset"):
        last["server"][0][name] = 1005.0
    for row in last["databases"]:
        row["reset_at"] = 1005.0
    found = statistics(None, last)
    assert isinstance(found, Unknown)
    assert found.reason.startswith("the statistics were reset 5 s ago")


def test_what_was_counted_since_a_late_reset_is_no_rate_over_the_whole_time():
    """200 transactions in the 14 s since pg_stat_reset are 14 a second, and no 25,000 in the half hour before it."""
    late = snapshot(2000.0, factor=20)
    late["databases"][0]["reset_at"] = 1986.0
    found = statistics(None, late)
    assert isinstance(found, Statistics)
    assert (found.window.seconds, found.commits_s) == (1910.0, pytest.approx(200 / 14))
    assert (found.amount("commits_s"), found.amount("rows_written_s")) == (200.0, 400.0)
    assert isinstance(classify(found), NoLoad)
    assert isinstance(replace(found, wal_bytes_s=Unknown("left out")).amount("wal_bytes_s"), Unknown)
    between = statistics(FIRST, LAST)
    assert between.amount("commits_s") == 20.0


def test_what_monitoring_makes_in_a_month_is_no_load():
    """It was OLTP from 10,000 transactions on, and got advice for one: an hour of monitoring, or a day."""
    month = Window(30 * 86_400.0, "since the statistics were reset")
    idle = Statistics(month, commits_s=2.0, rows_read_s=400.0, rows_written_s=20.0, write_share=0.05)
    found = classify(idle)
    assert isinstance(found, NoLoad)
    assert found.reason.startswith("2 to 5 transactions a second since the reset are as few as monitoring makes")
    assert isinstance(found, LittleLoad)
    assert classify(replace(idle, commits_s=6.0))[0] is WorkloadClass.OLTP
    assert classify(replace(idle, rows_read_s=30_000.0, write_share=0.01, analytic_share=1.0))[0] is WorkloadClass.OLAP


def test_a_young_load_is_too_little_to_judge_and_not_none():
    """9,000 transactions in ten minutes were "not a load", and the page said that none was seen."""
    young = Window(600.0, "since the statistics were reset")
    busy = Statistics(young, commits_s=15.0, rows_read_s=400.0, rows_written_s=20.0, write_share=0.05)
    found = classify(busy)
    assert isinstance(found, LittleLoad)
    assert "--window" in found.reason
    idle = classify(replace(busy, commits_s=1.0))
    assert isinstance(idle, NoLoad)
    assert not isinstance(idle, LittleLoad)
    assert "which is not a load" in idle.reason


def test_database_that_was_reset_by_itself_has_its_own_age():
    last = snapshot(1010.0, 3)
    last["databases"][0]["reset_at"] = 1000.0
    found = statistics(None, last)
    assert isinstance(found, Statistics)
    assert found.commits_s == 3.0


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("server", "started_at"), 1005.0, "restarted"),
        (("databases", "reset_at"), 1005.0, "reset"),
        (("databases", "xact_commit"), 1, "reset"),
    ],
)
def test_reset_or_restart_in_the_window_is_told(place, value, words):
    last = snapshot(1010.0, 3)
    last[place[0]][0][place[1]] = value
    found = statistics(FIRST, last)
    assert isinstance(found, Unknown)
    assert words in found.reason


def test_shared_statistics_that_were_reset_cost_only_themselves():
    last = snapshot(1010.0, 3)
    last["server"][0]["wal_reset"] = 1005.0
    found = statistics(FIRST, last)
    assert isinstance(found, Statistics)
    assert isinstance(found.wal_bytes_s, Unknown)
    assert found.commits_s == 2.0


@pytest.mark.requirement("R-VER-04")
def test_versions_without_a_view_say_so():
    old = {"version_num": 130_000, "io": None, "wal": [{"bytes": 100}]}
    found = statistics(snapshot(1000.0, **old), snapshot(1010.0, 3, **{**old, "wal": [{"bytes": 1100}]}))
    assert isinstance(found, Statistics)
    assert found.wal_bytes_s == 100.0
    assert isinstance(found.full_page_image_share, Unknown)
    assert isinstance(found.evictions_s, Unknown)
    assert isinstance(statistics(None, snapshot(**old)).wal_bytes_s, Unknown)


@pytest.mark.requirement("R-STO-06")
def test_tables_by_their_share_of_all_blocks():
    stock, item = tables(FIRST, LAST)
    assert (stock.name, stock.io_share, item.io_share) == ("stock", 0.75, 0.25)
    assert stock.read_share == 0.5
    assert stock.indexes == {"stock_pkey": 0.25}
    assert (stock.growth_bytes, item.growth_bytes) == (16384, 0)
    assert (stock.writes, stock.seq_scans, stock.dead_share) == (40, 2, 0.1)
    assert isinstance(tables(None, LAST)[0].growth_bytes, Unknown)


def test_tables_without_autovacuum_are_kept_however_little_is_done_with_them():
    last = snapshot(1010.0, 3)
    quiet = {**last["tables"]["app"][1], "fetched": 0, "hit": 0, "bytes": 8192, "is_measured": True}
    last["tables"]["app"] += [{**quiet, "name": f"t{number}", "tables": 202} for number in range(200)]
    last["tables"]["app"][-1]["autovacuum_off"] = True
    found = tables(None, last)
    assert len(found) < 100
    assert [table.name for table in found if table.autovacuum_off] == ["t199"]


def test_table_that_is_new_counts_from_nothing():
    first = snapshot(1000.0)
    first["tables"]["app"] = first["tables"]["app"][:1]
    first["tables"]["app"][0]["tables"] = 1
    item = tables(first, LAST)[1]
    assert (item.name, item.growth_bytes, item.writes) == ("item", 16384, 60)


@pytest.mark.requirement("R-ADV-09", "R-ADV-10")
def test_statements_and_tiny_requests():
    first, second = statements(FIRST, LAST)
    assert (first.calls, first.mean_ms, first.time_share, first.rows_per_call) == (200, 0.1, 0.5, 1.0)
    assert second.rows_per_call == 900
    found = tiny_requests(FIRST, LAST)
    assert (found.calls_s, found.calls_share, found.time_share) == (20.0, 0.8, 0.5)
    batched = snapshot(1010.0, 3)
    batched["statements"] = batched["statements"][1:]
    assert tiny_requests(None, batched).calls_share == 0


def test_missing_extension_is_named():
    last = snapshot(statements=None, failures={"statements": "extension pg_stat_statements is not installed"})
    found = statements(None, last)
    assert isinstance(found, Unknown)
    assert "pg_stat_statements" in found.reason


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT a FROM t1 WHERE b = 'it''s' AND c=5 -- me", "SELECT a FROM t1 WHERE b = ? AND c=?"),
        ("ALTER ROLE bob PASSWORD 'hunter2'", "ALTER ROLE bob PASSWORD ?"),
        ("ALTER ROLE bob PASSWORD E'hun\\'ter2", "ALTER ROLE bob PASSWORD ?"),
        ("DO $x$ secret $$ $x$", "DO ?"),
        ("DO $$ secret", "DO ?"),
        ('SELECT "Col2", $1 /* user=bob */ FROM t', 'SELECT "Col2", $1 FROM t'),
    ],
)
def test_constants_leave_statements(query, expected):
    assert without_values(query) == expected


@given(st.text(alphabet="aE'\\$\"1-/* \n"))
def test_any_text_loses_its_quoted_constants(query):
    assert "'" not in without_values(query).replace('"', "") or '"' in query


def numbers(**changed: Any) -> Statistics:
    values = {"commits_s": 100.0, "rollbacks_s": 0.0, "rows_read_s": 100.0, "rows_written_s": 0.0, "write_share": 0.0}
    return Statistics(Window(10.0, "sampled"), **{**values, "analytic_share": 0.0, **changed})


@pytest.mark.requirement("R-INV-22")
@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({}, WorkloadClass.READ_ONLY),
        ({"rows_written_s": 2.0, "write_share": 0.02}, WorkloadClass.MOSTLY_READ),
        ({"rows_written_s": 40.0, "write_share": 0.3}, WorkloadClass.OLTP),
        ({"rows_read_s": 22_300.0, "rows_written_s": 400.0, "write_share": 0.0176}, WorkloadClass.OLTP),  # TPC-B
        ({"rows_read_s": 2e6, "rows_written_s": 100.0, "write_share": 5e-5}, WorkloadClass.OLTP),
        ({"rows_written_s": 400.0, "write_share": 0.8}, WorkloadClass.WRITE_HEAVY),
        ({"commits_s": 0.5, "rows_read_s": 1e6, "analytic_share": 0.99}, WorkloadClass.OLAP),
        ({"commits_s": 0.1, "rows_written_s": 1e5, "write_share": 0.99}, WorkloadClass.BATCH),
    ],
)
def test_six_classes_of_load(changed, kind):
    found, words = classify(numbers(**changed))
    assert found is kind
    assert "a transaction" in words


def test_idle_window_has_no_class():
    idle = classify(numbers(commits_s=1.2, rows_read_s=60.0))
    assert isinstance(idle, Unknown)
    assert "idle" in idle.reason
    assert "less than 1 transaction a second beside pgdyno's own" in idle.reason
    short = classify(replace(numbers(commits_s=14.0, rows_read_s=60.0), window=Window(3.0, "sampled")))
    assert "2 to 5 transactions a second" in short.reason  # of 42 in 3 s, 30 are what opening our sessions takes
    assert isinstance(classify(numbers(write_share=Unknown("no row was touched in the window"))), Unknown)


@pytest.mark.requirement("R-INV-22")
@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ({"rows_read_s": 900.0, "analytic_share": 0.9}, NoLoad),  # a day of monitoring
        ({"rows_read_s": 10_000.0, "analytic_share": 0.9}, WorkloadClass.OLAP),
        ({"rows_written_s": 1_000.0, "write_share": 0.99}, WorkloadClass.BATCH),
    ],
)
def test_few_transactions_of_many_rows_since_the_reset_are_a_load(rows, kind):
    since = Window(10_000.0, "since the statistics were reset")
    found = classify(replace(numbers(commits_s=0.1, **{"rows_read_s": 0.0, **rows}), window=since))
    assert isinstance(found, kind) if kind is NoLoad else found[0] is kind


@pytest.mark.requirement("R-INV-23")
@pytest.mark.parametrize(
    ("size", "kind"),
    [
        (50 * MB, WorkingSetClass.SHARED_BUFFERS),
        (100 * MB, WorkingSetClass.RAM_TWICE),
        (200 * MB, WorkingSetClass.RAM_ONCE),
        (240 * MB, WorkingSetClass.EXCEEDS),
    ],
)
def test_four_classes_of_the_field_report_at_a_hundredth(size, kind):
    assert classify_size(size, 55 * MB, 220 * MB) is kind


BASE = {"shared_buffers": 1 * GB, "memory": 16 * GB}
MISSES = {"blocks_hit": 50_000.0, "blocks_read": 50_000.0, "evictions": 9.0}
DEVICE = 50_000 * 8192.0


@pytest.mark.requirement("R-INV-23")
@pytest.mark.parametrize(
    ("signs", "kind"),
    [
        ({"database_bytes": GB}, WorkingSetClass.SHARED_BUFFERS),
        ({"database_bytes": 90 * GB, "blocks_hit": 1e6, "blocks_read": 1e3}, WorkingSetClass.SHARED_BUFFERS),
        ({"database_bytes": 6 * GB, **MISSES}, WorkingSetClass.RAM_TWICE),
        ({"database_bytes": 90 * GB, "touched_bytes": 6 * GB, **MISSES}, WorkingSetClass.RAM_TWICE),
        ({"database_bytes": 90 * GB, **MISSES, "device_read_bytes": DEVICE}, WorkingSetClass.EXCEEDS),
        ({"database_bytes": 6 * GB, **MISSES, "device_read_bytes": 9 * DEVICE}, WorkingSetClass.RAM_TWICE),
        ({"database_bytes": 14 * GB, **MISSES, "device_read_bytes": DEVICE}, None),
        ({"database_bytes": GB // 2, **MISSES, "device_read_bytes": DEVICE}, WorkingSetClass.SHARED_BUFFERS),
        ({"database_bytes": 90 * GB}, None),
        ({"database_bytes": 90 * GB, **MISSES}, None),
        ({"database_bytes": 90 * GB, **MISSES, "device_read_bytes": 0.0}, None),
        ({**MISSES}, None),
        ({}, None),
    ],
)
def test_working_set_from_what_was_seen(signs, kind):
    found = working_set(WorkingSetSigns(**BASE, **signs))
    assert (None if isinstance(found, Unknown) else found.kind) == kind


def test_misses_of_a_cold_cache_tell_nothing():
    signs = WorkingSetSigns(**BASE, database_bytes=90 * GB, blocks_hit=5e4, blocks_read=5e4, evictions=0.0)
    assert isinstance(working_set(signs), Unknown)


@pytest.mark.requirement("R-INV-23")
@given(st.integers(0, 40 * GB), st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e10))
def test_bounds_hold_and_class_agrees_with_them(size, hit, missed, device):
    signs = WorkingSetSigns(
        **BASE, database_bytes=size, blocks_hit=hit, blocks_read=missed, device_read_bytes=device, evictions=1.0
    )
    found = working_set(signs)
    if not isinstance(found, Unknown):
        assert 0 <= found.low_bytes <= found.high_bytes <= size


@pytest.mark.requirement("R-INV-23")
def test_disk_reads_beside_data_that_fit_are_told_and_do_not_grow_the_working_set():
    signs = WorkingSetSigns(**BASE, **MISSES, touched_bytes=6 * GB, device_read_bytes=9 * DEVICE)
    found = working_set(signs)
    assert not isinstance(found, Unknown)
    assert (found.low_bytes, found.high_bytes) == (GB, 6 * GB)
    assert found.method.endswith("disks were read all the same, for cold pages or by other programs")


@pytest.mark.requirement("R-INV-23")
@pytest.mark.parametrize(("filesystem", "is_told"), [("ext4", True), ("nfs4", False)])
def test_devices_say_whether_the_page_cache_served_reads_only_where_they_hold_the_data(filesystem, is_told):
    place = Place(Purpose.DATA, "/data", mount_point="/data", disks=frozenset({"sda"}))
    host = make_host(places=(place,), mounts=(Mount("/data", "/dev/sda", filesystem),))
    iostat = "Device r/s w/s rkB/s wkB/s r_await w_await aqu-sz %util\nsda 0.10 1.00 0.40 8.00 0.10 0.10 0.10 1.00\n"
    seen = Observation(first=snapshot(1000.0), last=snapshot(1010.0, 100))
    found = derive(seen, Inventory(host, make_server()), Files(iostat=iostat)).working_set
    assert not isinstance(found, Unknown)
    assert ("the page cache gave them" in found.method) is is_told


def test_what_tables_grew_by_is_computed_once_for_all_who_ask(monkeypatch):
    asked = []

    def counted(keys, *rows, **more):
        asked.append(keys)
        return keyed_growth(keys, *rows, **more)

    monkeypatch.setattr("pgdyno.probes.evidence.statistics.keyed_growth", counted)
    found = derive(Observation(first=FIRST, last=LAST), Inventory(make_host(), make_server()), Files())
    assert not isinstance(found.working_set, Unknown)
    assert asked.count(("schema", "name")) == 1


@pytest.mark.requirement("R-PG-35")
def test_sessions_and_waits_and_no_knee_without_a_matrix():
    def row(state: str | None, kind: str | None, event: str | None, sessions: int) -> dict[str, Any]:
        return {"state": state, "wait_event_type": kind, "wait_event": event, "sessions": sessions}

    found = concurrency(
        [
            [row("active", None, None, 3), row("idle", "Client", "ClientRead", 5)],
            [row("active", "Lock", "transactionid", 1), row("active", "IO", "DataFileRead", 2)],
        ]
    )
    assert (found.connected, found.active_mean, found.active_max) == (5.5, 3.0, 3)
    assert found.waits == {"CPU": 1.5, "IO:DataFileRead": 1.0, "Lock:transactionid": 0.5}
    assert found.lock_waiters_mean == 0.5
    assert isinstance(found.knee_clients, Unknown)
    hidden = concurrency([[row(None, None, None, 4)]])
    assert (hidden.connected, isinstance(hidden.active_mean, Unknown)) == (4.0, True)
    assert isinstance(concurrency([]), Unknown)
