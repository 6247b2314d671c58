"""The host's probes against what the kernel itself says of processes that we run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import SampleRow, SampleValue
from pgdyno.probes import window
from pgdyno.probes.host.cpu import CpuShares
from pgdyno.probes.host.process import DriverCpu
from pgdyno.probes.host.reading import PROC, TICKS_PER_S, read_host, rows

pytestmark = pytest.mark.host

BURN = """
import time
end = time.process_time() + {seconds}
while time.process_time() < end: pass
print("burnt", flush=True)
time.sleep({rest})
"""


def named(found: list[SampleRow], table: str) -> list[dict[str, SampleValue]]:
    return [dict(zip(TABLES[table].column_names()[1:], r.values, strict=True)) for r in found if r.table == table]


def test_this_machine_can_be_read() -> None:
    reading = read_host(1.0, CpuShares(None, 0, 0))
    assert set(reading.failures) <= {"pressure"}
    assert reading.cpu is not None
    assert reading.cpu.cpus == os.cpu_count()
    assert reading.meminfo is not None
    assert 0 < reading.meminfo["MemAvailable"] <= reading.meminfo["MemTotal"]


def test_driver_cpu_is_what_the_kernel_bills_the_process() -> None:
    driver = DriverCpu(PROC, TICKS_PER_S)
    words = [sys.executable, "-c", BURN.format(seconds=0.5, rest=300)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "burnt\n"
        seen = -1.0
        while seen < 0.4 or seen != driver.seconds([child.pid]):  # it counts in ticks, and on a busy machine late
            seen = driver.seconds([child.pid])
            time.sleep(0.5)
        child.kill()
        _, _, usage = os.wait4(child.pid, 0)
        child.returncode = -9
    assert seen == pytest.approx(usage.ru_utime + usage.ru_stime, abs=0.05)
    assert driver.seconds([child.pid]) == seen


def test_a_stranger_is_foreign_and_a_driver_is_not() -> None:
    with subprocess.Popen([sys.executable, "-c", BURN.format(seconds=60, rest=0)]) as child:
        time.sleep(0.3)
        before = read_host(time.time(), CpuShares(0.0, 0.0, time.process_time()))
        burnt = DriverCpu(PROC, TICKS_PER_S)
        began = burnt.seconds([child.pid])
        time.sleep(1.5)
        used = burnt.seconds([child.pid]) - began
        after = read_host(time.time(), CpuShares(0.0, 0.0, time.process_time()))
        owned = read_host(after.t, CpuShares(0.0, used, time.process_time()))
        child.kill()
    as_stranger = window.foreign_cpu_pct(rows(before, after), before.t, after.t)
    as_driver = window.foreign_cpu_pct(rows(before, owned), before.t, after.t)
    assert as_stranger is not None
    assert as_driver is not None
    share_pct = 100 * used / (after.t - before.t)
    assert as_stranger >= share_pct - 15  # ticks of 10 ms, on two CPUs, over 1.5 s
    assert as_stranger - as_driver == pytest.approx(share_pct, abs=20)


def test_writes_that_were_synced_show_on_a_disk(tmp_path: Path) -> None:
    before = read_host(time.time(), CpuShares(None, 0, 0))
    with (tmp_path / "file").open("wb") as file:
        file.write(os.urandom(16 << 20))
        file.flush()
        os.fsync(file.fileno())
    time.sleep(0.2)
    after = read_host(time.time(), CpuShares(None, 0, 0))
    found = named(rows(before, after), "disk")
    if not found or not on_a_block_device(tmp_path):
        pytest.skip("the temporary folder is on no block device that can be seen")
    written_kb = sum(float(row["wkb_per_s"] or 0) * float(row["interval_s"] or 0) for row in found)
    assert written_kb >= 16 << 10


def on_a_block_device(folder: Path) -> bool:
    return os.major(folder.stat().st_dev) != 0
