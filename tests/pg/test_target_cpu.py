"""CPU of the server: the cgroup's counter and the walk of /proc agree, and no exiting backend is counted twice."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from pgdyno.linux import cpu
from pgdyno.linux.cpu import CpuGroup, ServerCpu
from pgdyno.model.facts import Unknown
from pgdyno.owner.runner import LocalRunner
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import postmaster_lock

pytestmark = pytest.mark.pg
BURN = "DO $$ BEGIN FOR i IN 1..2000000 LOOP PERFORM i; END LOOP; END $$"


def proc_only(sandbox: Sandbox) -> ServerCpu:
    return ServerCpu(lambda: postmaster_lock.postmaster_pid(sandbox.data_directory))


def spent(read: Callable[[], float | Unknown], work: Callable[[], None]) -> float:
    before = read()
    work()
    after = read()
    assert isinstance(before, float)
    assert isinstance(after, float)
    return after - before


def test_work_is_seen_both_ways(sandbox18: Sandbox) -> None:
    target = sandbox18.target()
    by_proc = proc_only(sandbox18)

    def both() -> float:
        return spent(target.cpu.seconds, lambda: target.postgres.execute(BURN))

    began = time.monotonic()
    by_walk = 0.0
    by_group = 0.0

    def work() -> None:
        nonlocal by_group
        by_group = both()

    by_walk = spent(by_proc.seconds, work)
    wall_s = time.monotonic() - began
    assert 0.01 < by_group < 3 * wall_s
    assert by_walk == pytest.approx(by_group, abs=0.1, rel=0.2)


def test_backends_that_come_and_go_are_never_lost(sandbox18: Sandbox) -> None:
    target = sandbox18.target()
    by_proc = proc_only(sandbox18)
    readings: list[tuple[float | Unknown, float | Unknown]] = []
    for _ in range(30):
        target.postgres.fetch("SELECT count(*) FROM generate_series(1, 20000)")
        readings.append((target.cpu.seconds(), by_proc.seconds()))
    for series in zip(*readings, strict=True):
        known = [value for value in series if isinstance(value, float)]
        assert len(known) >= 25
        assert known == sorted(known)
        assert known[-1] - known[0] < 30


def test_the_counter_goes_on_over_a_restart(make_sandbox: Callable[..., Sandbox]) -> None:
    sandbox = make_sandbox("counter")
    sandbox.start()
    target = sandbox.target()
    if target.cpu.source == "proc":
        pytest.skip("this machine lets us make no cgroup")
    target.postgres.execute(BURN)
    before = target.cpu.seconds()
    assert target.control is not None
    target.control.restart()
    after = target.cpu.seconds()
    assert isinstance(before, float)
    assert isinstance(after, float)
    assert after > before
    assert target.cpu.source.startswith("cgroup v")


def test_a_server_that_is_down_has_a_reason(make_sandbox: Callable[..., Sandbox]) -> None:
    sandbox = make_sandbox("down")
    assert proc_only(sandbox).seconds() == Unknown("the server is down")
    assert ServerCpu.unavailable("it is far away").seconds() == Unknown("it is far away")


@pytest.mark.parametrize("version", [1, 2])
def test_a_group_counts_a_program_from_its_first_instruction(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    trees = [tree for tree in cpu.accounting_trees() if tree.version == version]
    monkeypatch.setattr(cpu, "accounting_trees", lambda: trees)
    name = f"test-{version}-{os.getpid()}"
    group = CpuGroup.create(name)
    if isinstance(group, Unknown):
        pytest.skip(group.reason)
    try:
        before = group.seconds()
        program = "import time\nwhile time.process_time() < 0.3: pass"
        LocalRunner().run(["python3", "-c", program], cgroups=group.paths)
        assert 0.25 <= group.seconds() - before < 10
        assert CpuGroup.create(name) == group
    finally:
        assert group.remove()
    assert group.remove()


def test_a_group_with_members_stays(sandbox18: Sandbox) -> None:
    pid = postmaster_lock.postmaster_pid(sandbox18.data_directory)
    assert pid is not None
    group = CpuGroup.holding(pid)
    if group is None:
        pytest.skip("this machine lets us make no cgroup")
    assert group.holds(pid)
    assert not group.remove()
    assert group.path.is_dir()
