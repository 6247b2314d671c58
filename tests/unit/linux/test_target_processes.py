"""Processes read from /proc, and the CPU of a postmaster whose children come and go while we read."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.control import sighup
from pgdyno.linux import processes
from pgdyno.linux.cpu import CpuGroup, ServerCpu
from pgdyno.linux.processes import TICKS_PER_S, ProcessStat
from pgdyno.server import postmaster_lock
from pgdyno.store import faults


def stat_of(pid: int, own: int, reaped: int = 0) -> ProcessStat:
    return ProcessStat(pid, "postgres", "S", 1, own, reaped, 0)


@given(
    command=st.text(st.characters(exclude_characters="\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), max_size=15),
    pid=st.integers(1, 4_194_304),
    times=st.tuples(*[st.integers(0, 10**12)] * 4),
)
def test_stat_survives_every_command_name(command: str, pid: int, times: tuple[int, int, int, int]) -> None:
    utime, stime, cutime, cstime = times
    text = f"{pid} ({command}) S 1 2 2 0 -1 0 0 0 0 0 {utime} {stime} {cutime} {cstime} 20 0 1 0 777 0 0\n"
    parsed = processes.parse_stat(text)
    assert parsed == ProcessStat(pid, command, "S", 1, utime + stime, cutime + cstime, 777)


def test_our_own_line_is_read() -> None:
    own = processes.read_stat(os.getpid())
    assert own is not None
    assert own.parent == os.getppid()
    assert own.state == "R"
    assert processes.alive(os.getpid())


def test_a_process_that_is_gone_is_none() -> None:
    with subprocess.Popen(["true"]) as child:
        child.wait()
    assert processes.read_stat(child.pid) is None
    assert not processes.alive(child.pid)


def test_one_that_waits_to_be_reaped_is_not_alive() -> None:
    with subprocess.Popen(["true"]) as child:
        while (stat := processes.read_stat(child.pid)) is not None and stat.state != "Z":
            pass
        assert processes.read_stat(child.pid) is not None
        assert not processes.alive(child.pid)


@pytest.mark.parametrize(("status", "account"), [(b"Uid:\t0\t1000\t0\t0\n", 1000), (b"State:\tZ (zombie)\n", None)])
def test_the_account_of_a_process_is_told_whatever_its_name(tmp_path: Path, status: bytes, account: int | None) -> None:
    """Any account may give its process a name that is no text: it broke off the look at all the others."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_bytes(b"Name:\t\xff\xfeUid:\n" + status)
    assert processes.account_of(7, tmp_path) == account
    assert processes.account_of(8, tmp_path) is None


def test_signals_huge_pages_and_holders_are_told_whatever_the_process_s_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_bytes(
        b"Name:\t\xff\x1cSigPnd:\t0\nHugetlbPages:\t2048 kB\nSigPnd:\t0000000000000001\nShdPnd:\t0\n"
    )
    (tmp_path / "7" / "comm").write_bytes(b"\xff\n")
    monkeypatch.setattr(processes, "PROC", tmp_path)
    monkeypatch.setattr(faults, "_PROC", tmp_path)
    monkeypatch.setattr(faults, "_holders", lambda _: [7])
    assert processes.huge_pages_mapped(7) is True
    assert sighup._is_pending(7), "the kernel's own line says so"
    assert faults.holder_text("x") == "process 7 (\ufffd)"


def walk(*readings: list[ProcessStat]) -> float | None:
    given_out = iter(readings)
    return processes.tree_cpu_s(1, stats=lambda _: next(given_out))


def test_a_quiet_tree_is_added_up() -> None:
    tree = [stat_of(1, 10, 5), stat_of(2, 100)]
    assert walk(tree, tree) == 115 / TICKS_PER_S


def test_a_child_reaped_while_we_read_counts_once() -> None:
    # Walk 1 reads the parent before it reaps child 2, and the children after it.
    missed = [stat_of(1, 10, 0)]
    complete = [stat_of(1, 10, 100)]
    assert walk(missed, complete) == 110 / TICKS_PER_S


def test_a_child_that_exits_between_two_walks_counts_once() -> None:
    live = [stat_of(1, 10, 0), stat_of(2, 100)]
    gone = [stat_of(1, 10, 100)]
    assert walk(live, gone, gone) == 110 / TICKS_PER_S


def test_a_tree_that_never_stands_still_is_unknown() -> None:
    turmoil = [[stat_of(1, 1), stat_of(pid, 1)] for pid in range(2, 8)]
    assert walk(*turmoil) is None


def test_a_postmaster_that_is_gone_is_unknown() -> None:
    assert walk([], []) is None


def test_the_children_are_listed_by_the_kernel_and_no_other_process_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    if processes.child_pids(os.getpid()) is None:
        pytest.skip(processes.NO_LISTS)
    children = [subprocess.Popen(["sleep", "30"]) for _ in range(3)]
    read: list[str] = []
    real = processes.read_small_bytes
    monkeypatch.setattr(processes, "read_small_bytes", lambda path: (read.append(path), real(path))[1])
    try:
        pids = {child.pid for child in children}
        assert pids <= {stat.pid for stat in processes.children_of(os.getpid())}
        read.clear()
        assert processes.tree_cpu_s(os.getpid()) is not None
        ours = {os.getpid(), *processes.child_pids(os.getpid())}
        stats = [int(path.split("/")[2]) for path in read if path.endswith("/stat")]
        assert set(stats) == ours, "of all processes of the machine, one file of each of ours"
        assert len(stats) == len(ours)
    finally:
        for child in children:
            child.kill()
            child.wait()


def test_a_kernel_without_lists_of_children_is_walked_and_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(pid: int, parent: int, ticks: int) -> None:
        (tmp_path / str(pid) / "task" / str(pid)).mkdir(parents=True)
        (tmp_path / str(pid) / "stat").write_text(
            f"{pid} (postgres) S {parent} 2 2 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 7 0\n"
        )

    for pid, parent, ticks in ((10, 1, 5), (11, 10, 20), (12, 10, 30), (13, 11, 40)):
        write(pid, parent, ticks)
    assert processes.child_pids(10, tmp_path) is None
    assert processes.child_pids(99, tmp_path) == [], "that process is gone, whatever the kernel has"
    assert [stat.pid for stat in processes.children_of(10, tmp_path)] == [11, 12]
    (tmp_path / "10" / "task" / "10" / "children").write_text("12 11 ")
    assert processes.child_pids(10, tmp_path) == [11, 12]
    assert [stat.pid for stat in processes.children_of(10, tmp_path)] == [11, 12]
    monkeypatch.setattr(processes, "child_pids", lambda pid: None)
    own = os.getpid()
    assert ServerCpu(lambda: own).source == f"proc, by every process of the machine: {processes.NO_LISTS}"


def test_a_postmaster_is_looked_for_once_as_long_as_it_lives() -> None:
    asked: list[int | None] = []
    with subprocess.Popen(["sleep", "30"]) as child:
        running: list[int | None] = [child.pid]
        cpu = ServerCpu(lambda: (asked.append(running[0]), running[0])[1])
        assert {cpu.postmaster() for _ in range(5)} == {child.pid}
        assert isinstance(cpu.seconds(), float)
        assert len(asked) == 1
        running[0] = None
        child.kill()
        child.wait()
        assert (cpu.postmaster(), cpu.postmaster(), len(asked)) == (None, None, 3)
        running[0] = os.getpid()
        assert cpu.postmaster() == os.getpid(), "another one was started"


def test_whether_a_postmaster_is_in_its_group_is_asked_once_of_each() -> None:
    asked: list[int] = []

    class Group:
        version = 2
        seconds = staticmethod(lambda: 7.5)

        def holds(self, pid: int, trees: object) -> bool:
            asked.append(pid)
            return pid == os.getpid()

    running = [os.getpid()]
    cpu = ServerCpu(lambda: running[0], cast(CpuGroup, Group()))
    assert [cpu.seconds() for _ in range(3)] == [7.5] * 3
    with subprocess.Popen(["sleep", "30"]) as child:
        running[0] = child.pid
        cpu = ServerCpu(lambda: running[0], cast(CpuGroup, Group()))
        assert {cpu.source for _ in range(3)} == {"proc"}
        assert asked == [os.getpid(), child.pid]
        child.kill()
        child.wait()
        running[0] = os.getpid()
        assert cpu.source == "cgroup v2", "another one was started, and is asked of anew"


@pytest.mark.parametrize("text", ["", "abc\n", "1\n/elsewhere\n", "{own}\n/elsewhere\n", "999999999\n"])
def test_a_pid_file_that_proves_nothing_is_no_server(tmp_path: Path, text: str) -> None:
    (tmp_path / "postmaster.pid").write_text(text.format(own=os.getpid()))
    assert postmaster_lock.postmaster_pid(tmp_path) is None


@pytest.mark.parametrize("number", ["9" * 5000, "²", "१२", "1_0", "+1", "-1", "0x10", "1e3", "", "99999999999"])
def test_what_is_no_number_of_a_process_is_none(tmp_path: Path, number: str) -> None:
    """The file is the owner's: more digits than Python reads, and digits that are none, are no error of ours."""
    assert processes.number_in(number) is None
    lines = [str(os.getpid()), str(tmp_path), "now", number, str(tmp_path)]
    (tmp_path / "postmaster.pid").write_text("\n".join(lines) + "\n")
    assert postmaster_lock.port(tmp_path) is None
    postmaster_lock.clear(tmp_path, reused=True)
    (tmp_path / "postmaster.pid").write_text("\n".join([number, *lines[1:]]) + "\n")
    assert postmaster_lock.postmaster_pid(tmp_path) is None
    assert postmaster_lock.read_lines(tmp_path) == []


def test_no_pid_file_is_no_server(tmp_path: Path) -> None:
    assert postmaster_lock.postmaster_pid(tmp_path) is None


def test_a_process_that_works_in_the_directory_is_found(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "30"], cwd=tmp_path) as child:
        (tmp_path / "postmaster.pid").write_text(f"{child.pid}\n")
        assert postmaster_lock.postmaster_pid(tmp_path) == child.pid
        assert processes.processes_in(tmp_path) == [child.pid]
        child.kill()


LINES = "{pid}\n{data}\n1700000000\n5432\n{data}\n\n  1 2\nready   \n"


def test_a_number_that_went_to_another_process_is_cleared_only_when_told(tmp_path: Path) -> None:
    pid_file, lock = tmp_path / "postmaster.pid", tmp_path / ".s.PGSQL.5432.lock"
    for path in (pid_file, lock):
        path.write_text(LINES.format(pid=os.getpid(), data=tmp_path))
    postmaster_lock.clear(tmp_path)
    assert pid_file.exists()
    postmaster_lock.clear(tmp_path, reused=True)
    assert not pid_file.exists()
    assert not lock.exists()


def test_another_servers_socket_lock_is_left(tmp_path: Path) -> None:
    (tmp_path / "postmaster.pid").write_text(LINES.format(pid=os.getpid(), data=tmp_path))
    lock = tmp_path / ".s.PGSQL.5432.lock"
    lock.write_text("1\n")
    postmaster_lock.clear(tmp_path, reused=True)
    assert lock.exists()


def test_a_number_that_nobody_has_is_left_to_postgresql(tmp_path: Path) -> None:
    (tmp_path / "postmaster.pid").write_text(LINES.format(pid=999_999_999, data=tmp_path))
    postmaster_lock.clear(tmp_path, reused=True)
    assert (tmp_path / "postmaster.pid").exists()


def test_a_live_server_keeps_its_lock(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "30"], cwd=tmp_path) as child:
        (tmp_path / "postmaster.pid").write_text(LINES.format(pid=child.pid, data=tmp_path))
        postmaster_lock.clear(tmp_path, reused=True)
        assert (tmp_path / "postmaster.pid").exists()
        child.kill()
