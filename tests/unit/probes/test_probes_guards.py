"""The guards' readers: cgroups of both versions, volumes, and the row of the server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgdyno.model.guard import Absent
from pgdyno.probes.guards.memory import NO_GROUP, GuardedMemory, MemoryReader, OwnKills, memory_groups
from pgdyno.probes.guards.server import SlotReading, parse_row
from pgdyno.probes.guards.volumes import read_volumes

MOUNTS = "\n".join(
    [
        "36 31 0:33 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory",
        "33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct",
        "41 31 0:38 /inner /sys/fs/cgroup/uni\\040fied rw,relatime - cgroup2 cgroup2 rw",
    ]
)
CGROUPS = "4:memory:/a/b\n2:cpuacct:/c\n0::/inner/d"
MB = 1 << 20


def test_the_groups_around_a_process_without_the_root_of_version_1() -> None:
    v1, v2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup/uni fied")
    assert memory_groups(CGROUPS, MOUNTS) == [
        GuardedMemory(1, v1 / "a/b"),
        GuardedMemory(1, v1 / "a"),
        GuardedMemory(2, v2 / "d"),
        GuardedMemory(2, v2),
    ]
    assert memory_groups("4:memory:/\n0::/elsewhere", MOUNTS) == []


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def v1_group(folder: Path, limit: int) -> GuardedMemory:
    write(
        folder,
        memory__limit_in_bytes=f"{limit}\n",
        memory__usage_in_bytes=f"{80 * MB}\n",
        memory__stat=f"inactive_file 1\ntotal_inactive_file {10 * MB}\ntotal_active_file {5 * MB}\n",
        memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
    )
    return GuardedMemory(1, folder)


def v2_group(folder: Path, limit: str) -> GuardedMemory:
    write(
        folder,
        memory__max=f"{limit}\n",
        memory__current=f"{80 * MB}\n",
        memory__stat=f"inactive_file {10 * MB}\nactive_file {5 * MB}\n",
        memory__events="low 0\nmax 3\noom 1\noom_kill 1\n",
        memory__pressure="some avg10=0.00 avg60=0.00 avg300=0.00 total=9\nfull avg10=0 avg60=0 avg300=0 total=7\n",
    )
    return GuardedMemory(2, folder)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    folder = write(tmp_path / "proc", meminfo="MemTotal: 1000 kB\nMemAvailable: 900 kB\nSwapTotal: 0 kB\n")
    write(folder, vmstat="oom_kill 1\npswpin 12\n")
    write(folder / "pressure", memory="some avg10=0 avg60=0 avg300=0 total=3\nfull avg10=0 avg60=0 avg300=0 total=2\n")
    return folder


def test_the_tightest_bound_counts(tmp_path: Path, proc: Path) -> None:
    reading = MemoryReader([v1_group(tmp_path / "one", 100 * MB)], proc).read()
    assert (reading.available, reading.bound, reading.kills) == (35 * MB, 100 * MB, 1)
    assert reading.own_kills == OwnKills(str(tmp_path / "one"), 2)
    assert str(tmp_path / "one") in reading.bounded_by
    assert reading.stalled_us == 2
    assert isinstance(reading.swapped_in, Absent)
    host = MemoryReader([v1_group(tmp_path / "one", (1 << 63) - 4096)], proc).read()
    assert (host.available, host.bounded_by) == (900 * 1024, "the host")


def test_version_2_has_pressure_of_its_own_and_may_have_no_limit(tmp_path: Path, proc: Path) -> None:
    bounded = MemoryReader([v2_group(tmp_path / "two", str(100 * MB))], proc).read()
    assert (bounded.available, bounded.stalled_us, bounded.kills) == (35 * MB, 7, 1)
    assert bounded.own_kills == OwnKills(str(tmp_path / "two"), 1)
    free = MemoryReader([v2_group(tmp_path / "two", "max")], proc).read()
    assert free.bounded_by == "the host"
    (proc / "meminfo").unlink()
    with pytest.raises(OSError, match="meminfo"):
        MemoryReader([], proc).read()


def test_the_innermost_group_is_the_servers_own(tmp_path: Path, proc: Path) -> None:
    inner, outer = v2_group(tmp_path / "outer" / "inner", "max"), v2_group(tmp_path / "outer", "max")
    (outer.path / "memory.events").write_text("oom_kill 9\n")
    assert MemoryReader([inner, outer], proc).read().own_kills == OwnKills(str(inner.path), 1)
    (inner.path / "memory.events").write_text("low 0\n")
    assert isinstance(MemoryReader([inner, outer], proc).read().own_kills, Absent)
    assert MemoryReader([], proc).read().own_kills == NO_GROUP


def test_a_kernel_without_pressure_says_so(proc: Path) -> None:
    (proc / "pressure" / "memory").unlink()
    assert isinstance(MemoryReader([], proc).read().stalled_us, Absent)


def test_volumes_and_temporary_files_of_parallel_sorts(tmp_path: Path) -> None:
    write(tmp_path / "pg_wal")
    assert read_volumes(tmp_path).temp_bytes == 0
    write(tmp_path / "base" / "pgsql_tmp", pgsql_tmp1="abc")
    write(tmp_path / "base" / "pgsql_tmp" / "pgsql_tmp2.0.fileset", o0="defgh")
    reading = read_volumes(tmp_path)
    assert reading.temp_bytes == 8
    assert isinstance(reading.wal, Absent)
    assert 0 < reading.data.free <= reading.data.size
    (tmp_path / "pg_wal").rmdir()
    with pytest.raises(FileNotFoundError):
        read_volumes(tmp_path)


def test_pg_wal_on_another_file_system_is_a_volume_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "pg_wal").symlink_to("/proc")
    wal = read_volumes(tmp_path).wal
    assert not isinstance(wal, Absent)
    assert wal.path == tmp_path / "pg_wal"


ROW = {
    "lsn": 1000,
    "sessions": 3,
    "room": 97,
    "xid_age": 5,
    "freeze_max_age": 200_000_000,
    "xact_commit": 1,
    "xact_rollback": 2,
    "deadlocks": 3,
    "temp_bytes": 4,
    "standbys": json.dumps([{"name": "a", "lsn": 7}, {"name": "a", "lsn": 5}, {"name": "hidden", "lsn": None}]),
    "slots": json.dumps([{"name": "s", "lsn": None, "lost": True}]),
}


def test_the_row_of_the_server() -> None:
    row = parse_row(ROW)
    assert row.standbys == {"a": 5}
    assert row.slots == (SlotReading("s", None, is_lost=True),)
    assert row.load is not None
    assert row.load.deadlocks == 3
    before_the_load = {**ROW, **dict.fromkeys(("xact_commit", "xact_rollback", "deadlocks", "temp_bytes"))}
    assert parse_row(before_the_load).load is None
    with pytest.raises(TypeError):
        parse_row({**ROW, "lsn": None})
