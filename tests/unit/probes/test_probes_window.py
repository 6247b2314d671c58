"""Means and totals of a window, edges included."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import SampleRow, SampleValue
from pgdyno.probes import window


def row(table: str, t: float, **values: SampleValue) -> SampleRow:
    names = TABLES[table].column_names()[1:]
    assert set(values) <= set(names)
    return SampleRow(table, t, tuple(values.get(name) for name in names))


def cpu(t: float, busy_pct: float = 50.0, server: float | None = 0.4, interval: float = 1.0) -> SampleRow:
    return row(
        "cpu",
        t,
        interval_s=interval,
        cpus=2,
        usr_pct=busy_pct,
        sys_pct=0.0,
        irq_pct=0.0,
        steal_pct=t,
        server_cpu_s=server,
        driver_cpu_s=0.2,
        self_cpu_s=0.1,
    )


def test_foreign_cpu_is_what_is_left_of_the_busy_time() -> None:
    rows = [cpu(1.0), cpu(2.0), cpu(3.0)]
    assert window.foreign_cpu_pct(rows, 0.0, 3.0) == pytest.approx(100 * (1.0 - 0.7))
    assert window.foreign_cpu_pct(rows, 1.0, 2.0) == pytest.approx(30.0)
    elsewhere = window.foreign_cpu_pct(rows, 0.0, 3.0, driver_is_here=False)
    assert elsewhere == pytest.approx(100 * (1.0 - 0.5)), "a driver on another host keeps none of these CPUs busy"


def test_ticks_average_out_before_foreign_cpu_is_cut_off_at_zero() -> None:
    rows = [cpu(1.0, busy_pct=30.0), cpu(2.0, busy_pct=50.0)]
    assert window.foreign_cpu_pct(rows, 0.0, 1.0) == 0.0
    assert window.foreign_cpu_pct(rows, 0.0, 2.0) == pytest.approx(100 * (0.6 + 1.0 - 1.4) / 2)


def test_unknown_server_cpu_is_not_a_number() -> None:
    rows = [cpu(1.0, server=None), cpu(2.0, server=None)]
    assert window.foreign_cpu_pct(rows, 0.0, 2.0) is None
    assert window.server_cpu_s(rows, 0.0, 2.0) is None
    assert window.server_cpu_s([cpu(1.0), cpu(2.0, server=None)], 0.0, 2.0) is None


def test_no_rows_no_answer() -> None:
    assert window.foreign_cpu_pct([], 0.0, 1.0) is None
    assert window.steal_pct([], 0.0, 1.0) is None
    assert window.server_cpu_s([], 0.0, 1.0) is None
    assert window.counters([], 0.0, 1.0) == {}


def test_steal_is_weighted_by_time() -> None:
    rows = [cpu(1.0), cpu(3.0, interval=2.0)]
    assert window.steal_pct(rows, 0.0, 3.0) == pytest.approx((1 * 1.0 + 2 * 3.0) / 3)
    assert window.steal_pct(rows, 0.5, 1.5) == pytest.approx((0.5 * 1.0 + 0.5 * 3.0) / 1)


def test_a_row_over_the_edge_counts_for_its_part() -> None:
    rows = [cpu(1.0), cpu(2.0), cpu(3.0)]
    assert window.server_cpu_s(rows, 0.25, 2.5) == pytest.approx(0.4 * (0.75 + 1 + 0.5))


def test_rows_that_do_not_cover_the_window_are_not_enough() -> None:
    assert window.server_cpu_s([cpu(1.0), cpu(3.0)], 0.0, 3.0) is None


def test_after_the_end_of_the_load_nothing_ran() -> None:
    rows = [cpu(1.0), cpu(2.0, server=0.2)]
    assert window.server_cpu_s(rows, 0.0, 1.5) == pytest.approx(0.4 + 0.1)
    assert window.server_cpu_s(rows, 0.0, 1.5, load_ended_at=1.5) == pytest.approx(0.4 + 0.2)
    assert window.server_cpu_s(rows, 0.0, 1.25, load_ended_at=1.5) == pytest.approx(0.4 + 0.1)


@given(st.lists(st.floats(0.1, 3.0), min_size=1, max_size=20), st.data())
def test_two_windows_side_by_side_make_the_whole(intervals: list[float], data: st.DataObject) -> None:
    ends = [sum(intervals[: n + 1]) for n in range(len(intervals))]
    rows = [row("wal", t, interval_s=i, bytes=round(1000 * i)) for t, i in zip(ends, intervals, strict=True)]
    middle = data.draw(st.floats(0.0, ends[-1]))
    parts = [window.counters(rows, a, b).get("wal_bytes", 0.0) for a, b in ((0.0, middle), (middle, ends[-1]))]
    assert sum(parts) == pytest.approx(sum(round(1000 * i) for i in intervals))


def test_counters_have_the_names_of_the_outcome() -> None:
    rows = [
        row("database", 1.0, interval_s=1.0, blks_hit=10, blks_read=5, deadlocks=1),
        row("database", 2.0, interval_s=1.0, blks_hit=20, blks_read=7, deadlocks=0),
        row("wal", 2.0, interval_s=1.0, records=3, full_page_images=2, bytes=100),
        row("checkpointer", 2.0, interval_s=1.0, timed=1, requested=0),
        row("memory", 1.0, free_bytes=5),
        row("memory", 2.0, interval_s=1.0, swap_in_bytes=4096),
    ]
    found = window.counters(rows, 0.0, 2.0)
    expected = {"blks_hit": 30, "blks_read": 12, "deadlocks": 1, "wal_records": 3, "wal_fpi": 2, "wal_bytes": 100}
    assert expected.items() <= found.items()
    assert (found["checkpoints_timed"], found["checkpoints_requested"], found["swap_in_bytes"]) == (1, 0, 4096)
    assert "temp_bytes" not in found
    assert "oom_kills" not in found


@pytest.mark.requirement("R-SCH-06")
def test_user_time_is_counted_of_what_the_cpus_had() -> None:
    rows = [row("cpu", t, interval_s=1.0, cpus=4, usr_pct=usr, sys_pct=1.0) for t, usr in ((1.0, 50.0), (2.0, 75.0))]
    found = window.counters(rows, 0.0, 2.0)
    assert (found["user_cpu_s"], found["cpu_capacity_s"]) == (5.0, 8.0)


def test_disk_bytes_are_those_of_physical_devices() -> None:
    rows = [
        row("disk", 2.0, device=device, interval_s=2.0, rkb_per_s=10.0, wkb_per_s=1.0)
        for device in ("vda", "nvme0n1", "dm-0", "md127", "loop1")
    ]
    found = window.counters(rows, 0.0, 2.0)
    assert (found["disk_read_bytes"], found["disk_written_bytes"]) == (2 * 20 * 1024, 2 * 2 * 1024)
    assert not [name for name in window.counters(rows, 0.0, 2.0, own_devices=False) if name.startswith("disk_")]
