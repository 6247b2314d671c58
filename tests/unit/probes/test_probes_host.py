"""Every parser of /proc against captures, and every rate against figures worked out by hand."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.linux.meminfo import parse_meminfo
from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import SampleRow, SampleValue
from pgdyno.probes.host import cpu, disk, memory, net, pressure, process, reading

STAT = """\
cpu  38964 27487 15122 321031 1531 7 525 239 11 0
cpu0 15086 14180 6019 166809 230 0 54 106 0 0
cpu1 23878 13306 9103 154221 1300 0 470 132 0 0
intr 995752 0 0
ctxt 1383571
btime 1795294692
processes 13475
procs_running 4
procs_blocked 1
softirq 782232 0 56943
"""
MEMINFO = """\
MemTotal:        1012300 kB
MemFree:          966860 kB
MemAvailable:     964972 kB
Cached:            21756 kB
Dirty:                12 kB
SwapTotal:          2048 kB
SwapFree:           1024 kB
HugePages_Total:       3
HugePages_Free:        2
"""
DISKSTATS = """\
   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 254       0 vda 167727 16079 12174442 170338 648185 260919 66335176 344778 \
0 55592 530758 27490 37 13074064 5171 260153 10469
 254       1 vda1 100 0 800 5 0 0 0 0 0 5 5 0 0 0 0 0 0
 104       0 cciss/c0d0 1 2 3 4 5 6 7 8 9 10 11
"""
NET = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast\
|bytes    packets errs drop fifo colls carrier compressed
    lo:    3193      29    0    0    0     0          0         0     \
3193      29    0    0    0     0       0          0
  ifb0:       0       0    0    0    0     0          0         0     \
   0       0    0    0    0     0       0          0
  eth0:360788650 7913  1    2    0     0          0         0   368167\
    3823    3    4    0     0       0          0
"""


def named(table: str, values: tuple[SampleValue, ...]) -> dict[str, SampleValue]:
    return dict(zip(TABLES[table].column_names()[1:], values, strict=True))


def test_stat_is_split_into_seconds() -> None:
    times = cpu.parse(STAT, 100)
    assert times.cpus == 2
    assert times.usr == pytest.approx(389.64 + 274.87)
    assert (times.sys, times.irq, times.iowait, times.steal) == pytest.approx((151.22, 5.32, 15.31, 2.39))
    assert times.busy == pytest.approx(389.64 + 274.87 + 151.22 + 5.32)
    assert (times.context_switches, times.forks, times.run_queue, times.blocked) == (1383571, 13475, 4, 1)


def test_a_stat_without_its_first_line_is_an_error() -> None:
    with pytest.raises(ValueError, match="no line for all CPUs"):
        cpu.parse("ctxt 1\n", 100)


def shifted(times: cpu.CpuTimes, **more: float) -> cpu.CpuTimes:
    from dataclasses import replace

    return replace(times, **{name: getattr(times, name) + value for name, value in more.items()})


def test_cpu_shares_of_two_seconds() -> None:
    before = cpu.parse(STAT, 100)
    after = shifted(before, usr=1.0, sys=0.5, irq=0.1, iowait=0.4, steal=0.2, idle=1.8, context_switches=3000, forks=4)
    mine, later = cpu.CpuShares(10.0, 5.0, 1.0), cpu.CpuShares(10.9, 5.3, 1.1)
    row = named("cpu", cpu.row(before, after, mine, later, 2.0))
    assert [row[name] for name in ("usr_pct", "sys_pct", "irq_pct", "iowait_pct", "steal_pct", "idle_pct")] == (
        pytest.approx([25.0, 12.5, 2.5, 10.0, 5.0, 45.0])
    )
    assert (row["server_cpu_s"], row["driver_cpu_s"], row["self_cpu_s"]) == pytest.approx((0.9, 0.3, 0.1))
    assert (row["server_cpu_pct"], row["driver_cpu_pct"]) == pytest.approx((45.0, 15.0))
    assert row["foreign_cpu_pct"] == pytest.approx(100 * (1.6 - 0.9 - 0.3 - 0.1) / 2)
    assert (row["context_switches_per_s"], row["forks_per_s"]) == (1500, 2)


def test_foreign_cpu_is_never_negative_and_unknown_without_the_server() -> None:
    assert cpu.foreign_s(1.0, 0.9, 0.2, 0.0) == 0.0
    assert cpu.foreign_s(1.0, None, 0.2, 0.0) is None


def test_a_server_count_that_began_anew_is_unknown_and_not_negative() -> None:
    before = cpu.parse(STAT, 100)
    after = shifted(before, usr=1.0)
    row = named("cpu", cpu.row(before, after, cpu.CpuShares(10.0, 0.0, 0.0), cpu.CpuShares(0.5, 0.0, 0.0), 1.0))
    assert (row["server_cpu_s"], row["server_cpu_pct"], row["foreign_cpu_pct"]) == (None, None, None)


def test_memory_is_in_bytes_and_what_is_missing_is_null() -> None:
    was = {"pswpin": 10, "pswpout": 20, "pgmajfault": 5, "oom_kill": 0}
    now = memory.parse_vmstat("nr_free_pages 5\npswpin 12\npswpout 25\npgmajfault 9\n")
    row = named("memory", memory.row(parse_meminfo(MEMINFO), was, now, 1.0, 4096))
    assert (row["total_bytes"], row["dirty_bytes"], row["swap_used_bytes"]) == (1012300 * 1024, 12 * 1024, 1024 * 1024)
    assert (row["huge_pages_total"], row["huge_pages_free"]) == (3, 2)
    assert (row["swap_in_bytes"], row["swap_out_bytes"], row["major_faults"]) == (8192, 5 * 4096, 4)
    assert (row["oom_kills"], row["shared_bytes"]) == (None, None)


def test_the_first_row_of_memory_has_no_deltas() -> None:
    row = named("memory", memory.row(parse_meminfo(MEMINFO), None, {"pswpin": 1}, None, 4096))
    assert (row["interval_s"], row["swap_in_bytes"], row["free_bytes"]) == (None, None, 966860 * 1024)


def test_pressure_is_the_share_of_time_that_was_stalled() -> None:
    text = "some avg10=5.56 avg60=7.41 avg300=8.38 total=1000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=500\n"
    before = pressure.parse("io", text)
    after = pressure.parse("io", text.replace("1000000", "1250000"))
    assert before == {("io", "some"): 1000000, ("io", "full"): 500}
    row = named("pressure", pressure.row(before, after, 0.5))
    assert (row["io_some_pct"], row["io_full_pct"]) == (50.0, 0.0)
    assert (row["cpu_some_pct"], row["memory_full_pct"]) == (None, None)


def test_diskstats_keeps_whole_devices_that_were_used() -> None:
    assert set(disk.parse(DISKSTATS, {"loop0", "vda", "cciss!c0d0"})) == {"vda", "cciss/c0d0"}
    assert set(disk.parse(DISKSTATS)) == {"vda", "vda1", "cciss/c0d0"}


def test_an_old_kernel_has_no_discards_and_no_flushes() -> None:
    old = disk.parse(DISKSTATS)["cciss/c0d0"]
    assert (old.discards, old.flushes) == (None, None)
    row = named("disk", disk.rows({"x": old}, {"x": old}, 1.0)[0])
    assert (row["d_per_s"], row["f_per_s"], row["f_await_ms"]) == (None, None, None)


def test_the_columns_of_iostat_since_boot() -> None:
    """The same counters as an iostat 12.6.1 report of the same machine: means do not depend on the uptime."""
    vda = disk.parse(DISKSTATS, {"vda"})
    nothing = disk.parse(DISKSTATS.replace(DISKSTATS.split("vda ")[1].split("\n")[0], "0 " * 10 + "1" + " 0" * 6))
    row = named("disk", disk.rows({"vda": nothing["vda"]}, vda, 1000.0)[0])
    assert row["rareq_kb"] == pytest.approx(36.31, rel=0.01)
    assert row["wareq_kb"] == pytest.approx(51.17, rel=0.01)
    assert row["r_await_ms"] == pytest.approx(1.02, rel=0.01)
    assert row["w_await_ms"] == pytest.approx(0.53, rel=0.01)
    assert row["d_await_ms"] == pytest.approx(0.19, rel=0.02)
    assert row["f_await_ms"] == pytest.approx(0.04, rel=0.02)
    assert row["r_per_s"] == pytest.approx(167.727)
    assert row["rkb_per_s"] == pytest.approx(12174442 / 2 / 1000)
    assert row["wrqm_per_s"] == pytest.approx(260.919)
    assert row["util_pct"] == pytest.approx(100 * 55592 / 1e6)
    assert row["aqu_sz"] == pytest.approx(530757 / 1e6)


def test_a_second_without_requests_has_no_mean_per_request() -> None:
    vda = disk.parse(DISKSTATS, {"vda"})
    row = named("disk", disk.rows(vda, vda, 1.0)[0])
    assert (row["r_per_s"], row["rkb_per_s"], row["util_pct"]) == (0.0, 0.0, 0.0)
    assert (row["r_await_ms"], row["rareq_kb"], row["w_await_ms"]) == (None, None, None)


def test_net_keeps_interfaces_that_were_used() -> None:
    before = net.parse(NET)
    assert set(before) == {"lo", "eth0"}
    after = net.parse(NET.replace("360788650 7913  1    2", "360790698 7915  2    4"))
    row = named("net", next(row for row in net.rows(before, after, 2.0) if row[0] == "eth0"))
    assert (row["rx_kb_per_s"], row["rx_packets_per_s"], row["rx_errors"], row["rx_dropped"]) == (1.0, 1.0, 1, 2)
    assert (row["tx_kb_per_s"], row["tx_errors"]) == (0.0, 0)


def proc_stat(name: str, started: int, ticks: int) -> str:
    return f"13476 ({name}) R " + "0 " * 10 + f"{ticks} 1 2 3 20 0 1 0 {started} 2998272 0\n"


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=15), st.integers(0, 2**40), st.integers(0, 2**40))
def test_a_process_may_have_any_name(name: str, started: int, ticks: int) -> None:
    assert process.parse(proc_stat(name, started, ticks)) == process.ProcessTimes(started, ticks + 6)


def write_stat(proc: Path, pid: int, started: int, ticks: int) -> None:
    (proc / str(pid)).mkdir(exist_ok=True)
    (proc / str(pid) / "stat").write_text(proc_stat("pgbench) (x", started, ticks))


def test_driver_cpu_outlives_its_processes_and_knows_a_reused_pid(tmp_path: Path) -> None:
    driver = process.DriverCpu(tmp_path, 100)
    write_stat(tmp_path, 5, started=1, ticks=94)
    assert driver.seconds([5, 6]) == pytest.approx(1.0)
    write_stat(tmp_path, 5, started=1, ticks=194)
    assert driver.seconds([5]) == pytest.approx(2.0)
    (tmp_path / "5" / "stat").unlink()
    assert driver.seconds([5]) == pytest.approx(2.0)
    write_stat(tmp_path, 5, started=9, ticks=44)
    assert driver.seconds([5]) == pytest.approx(2.5)
    assert driver.seconds([]) == pytest.approx(2.5)


def fake_host(root: Path) -> tuple[Path, Path]:
    proc, sys = root / "proc", root / "sys"
    for name, text in {
        "stat": STAT,
        "meminfo": MEMINFO,
        "vmstat": "pswpin 1\npswpout 1\n",
        "diskstats": DISKSTATS,
        "net/dev": NET,
    }.items():
        (proc / name).parent.mkdir(parents=True, exist_ok=True)
        (proc / name).write_text(text)
    (sys / "block" / "vda").mkdir(parents=True)
    return proc, sys


def test_a_file_that_is_missing_costs_its_own_table_only(tmp_path: Path) -> None:
    proc, sys = fake_host(tmp_path)
    shares = cpu.CpuShares(1.0, 1.0, 1.0)
    first = reading.read_host(10.0, shares, proc=proc, sys=sys)
    second = reading.read_host(11.0, shares, proc=proc, sys=sys)
    assert set(first.failures) == {"pressure"}
    assert {row.table for row in reading.rows(None, first)} == {"memory"}
    rows = reading.rows(first, second)
    assert sorted(row.table for row in rows) == ["cpu", "disk", "memory", "net", "net"]
    assert all(row.t == 11.0 for row in rows)


def test_a_clock_that_was_set_back_gives_gauges_only(tmp_path: Path) -> None:
    proc, sys = fake_host(tmp_path)
    first, second = (reading.read_host(t, cpu.CpuShares(1, 1, 1), proc=proc, sys=sys) for t in (11.0, 10.0))
    assert [row.table for row in reading.rows(first, second)] == ["memory"]


def test_every_row_has_as_many_values_as_its_table_has_columns(tmp_path: Path) -> None:
    proc, sys = fake_host(tmp_path)
    (proc / "pressure").mkdir()
    for resource in pressure.RESOURCES:
        (proc / "pressure" / resource).write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n")
    readings = [reading.read_host(t, cpu.CpuShares(None, 0, 0), proc=proc, sys=sys) for t in (1.0, 2.0)]
    rows: list[SampleRow] = reading.rows(*readings)
    assert {row.table for row in rows} == {"cpu", "memory", "pressure", "disk", "net"}
    for row in rows:
        assert len(row.values) == len(TABLES[row.table].columns)
