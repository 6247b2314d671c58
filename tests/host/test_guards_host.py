"""Guards that watch the host: memory and kills of a cgroup, volumes that fill up; each is breached for real."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pytest

from guarded_study import Guarded, assert_answered, guarded
from pgdyno.errors import EnvironmentUnsuitable, GuardTripped
from pgdyno.kernel import swap_file
from pgdyno.linux import processes
from pgdyno.model.live import Colour
from pgdyno.model.trial import TrialState
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import postmaster_lock
from server_image import eventually
from small_volume import volume

pytestmark = [
    pytest.mark.host,
    pytest.mark.pg,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="mounts and cgroups need root"),
]
MEMORY_V1 = Path("/sys/fs/cgroup/memory")
MB = 1 << 20
EAT = """
import sys, time
sys.stdin.readline()
eaten = bytearray(b"x") * int(sys.argv[1])
print("full", flush=True)
time.sleep(60)
"""
THRASH = """
import sys
sys.stdin.readline()
pages = range(0, int(sys.argv[1]), 4096)
eaten = bytearray(int(sys.argv[1]))
for page in pages:
    eaten[page] = 1
print("full", flush=True)
while True:
    for page in pages:
        eaten[page] ^= 1
"""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@contextmanager
def group_of(limit: int) -> Iterator[Path]:
    """Make a v1 memory cgroup with a limit; what is in it in the end goes back to where it came from."""
    if not (MEMORY_V1 / "cgroup.procs").exists():
        pytest.skip("no cgroup v1 memory controller is mounted")
    parent = MEMORY_V1 / next(
        line.split(":", 2)[2].lstrip("/")
        for line in Path("/proc/self/cgroup").read_text().splitlines()
        if "memory" in line.split(":")[1].split(",")
    )
    group = parent / f"pgdyno-test-{uuid4().hex[:8]}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(limit))
        yield group
    finally:
        eventually(lambda: left(group), f"{group} is empty")


@pytest.fixture
def memory_group() -> Iterator[Path]:
    with group_of(900 * MB) as group:
        yield group


def enter(group: Path, *pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # an autovacuum worker that has ended since
            (group / "cgroup.procs").write_text(str(pid))


def left(group: Path) -> bool:
    """Move everybody up and remove a group; False while a process that its server has started since is in it."""
    enter(group.parent, *map(int, (group / "cgroup.procs").read_text().split()))
    try:
        group.rmdir()
    except OSError:
        return False
    return True


def eat(group: Path, size: int, stack: ExitStack, program: str = EAT) -> Callable[[], None]:
    """Return what makes another process of the group use this much memory at once."""

    def harm() -> None:
        argv = [sys.executable, "-c", program, str(size)]
        eater = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        stack.callback(eater.wait)
        stack.callback(eater.kill)
        assert eater.stdin is not None
        assert eater.stdout is not None
        stack.callback(eater.stdin.close)
        stack.callback(eater.stdout.close)
        enter(group, eater.pid)
        Path(f"/proc/{eater.pid}/oom_score_adj").write_text("1000")
        eater.stdin.write("\n")
        eater.stdin.flush()
        eater.stdout.readline()

    return harm


@pytest.fixture
def bounded(make_sandbox: Callable[..., Sandbox], memory_group: Path) -> Sandbox:
    """A running sandbox inside the memory cgroup."""
    sandbox = make_sandbox("bounded")
    sandbox.start()
    pid = postmaster_lock.postmaster_pid(sandbox.data_directory)
    assert pid is not None
    enter(memory_group, pid, *(child.pid for child in processes.children_of(pid)))
    return sandbox


def test_memory_of_the_servers_cgroup(bounded: Sandbox, memory_group: Path, tmp_path: Path, stack: ExitStack) -> None:
    with guarded(bounded.target(), tmp_path, "memory=300MB", harm=eat(memory_group, 650 * MB, stack)) as study:
        assert study.run().state is TrialState.FAILED
        assert_answered(study, "memory")
        assert str(memory_group) in study.watched.notices[-2]


@pytest.mark.alone  # whoever watches this machine sees what the kernel kills
def test_a_process_killed_for_want_of_memory(
    bounded: Sandbox, memory_group: Path, tmp_path: Path, stack: ExitStack
) -> None:
    # Just before it kills, the kernel has nothing left in the group: a tick that falls there sees that first.
    for _ in range(3):
        limits = "memory=0.001%", "memory-stall=off"
        with guarded(bounded.target(), tmp_path, *limits, harm=eat(memory_group, 2000 * MB, stack)) as study:
            assert study.run().state is TrialState.FAILED
            outcome = study.last().outcome
            if outcome is not None and (outcome.reason or "").startswith("guard memory: 0 B"):
                continue
            assert_answered(study, "oom")
            assert f'killed in the server\'s cgroup "{memory_group}"' in study.watched.notices[-2]
            return
    pytest.fail("no kill was seen in three of them")


@pytest.mark.alone  # as above
def test_a_process_killed_elsewhere_is_seen_and_is_not_the_servers(bounded: Sandbox, tmp_path: Path) -> None:
    with group_of(100 * MB) as other, ExitStack() as stack:
        harm = eat(other, 400 * MB, stack)
        with guarded(bounded.target(), tmp_path, "memory-stall=off", measure_s=8.0, harm=harm) as study:
            assert study.run().state is not TrialState.FAILED
            indicator = next(indicator for indicator in study.watched.indicators if indicator.name == "oom")
            assert indicator.colour is Colour.AMBER, indicator
            assert re.search(r", [1-9]\d* elsewhere on the host", indicator.text), indicator


@pytest.fixture
def swap(tmp_path: Path) -> Iterator[Path]:
    """A swap file of half a gigabyte, switched off and removed afterwards."""
    file = tmp_path / "swap"
    try:
        swap_file.make(str(file), 512 * MB)
    except OSError as error:
        pytest.skip(f"this machine does not allow a swap file: {error}")
    try:
        yield file
    finally:
        swap_file.remove(str(file))
        assert str(file) not in Path("/proc/swaps").read_text()


@pytest.mark.alone  # all guards of this machine see what is swapped in
def test_memory_that_comes_back_from_swap(
    make_sandbox: Callable[..., Sandbox], memory_group: Path, swap: Path, tmp_path: Path
) -> None:
    """A process that uses twice the memory of its group, over and over; the stack ends it before the swap goes.

    Long enough for one that gets little CPU and swaps slowly.
    """
    (memory_group / "memory.limit_in_bytes").write_text(str(200 * MB))
    sandbox = make_sandbox("swapping")
    sandbox.start()
    with ExitStack() as stack:
        harm = eat(memory_group, 400 * MB, stack, THRASH)
        limits = "memory=0.001%", "memory-stall=off", "swap-in=8MB/s"
        with guarded(sandbox.target(), tmp_path, *limits, measure_s=240.0, harm=harm) as study:
            assert study.run().state is TrialState.FAILED
            assert_answered(study, "swap-in")


def fill(folder: Path, leave: int) -> Callable[[], None]:
    """Return what uses a file system up but for some bytes."""

    def harm() -> None:
        system = os.statvfs(folder)
        with (folder / "ballast").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, system.f_bavail * system.f_frsize - leave)

    return harm


def assert_full(study: Guarded, name: str) -> None:
    with pytest.raises(GuardTripped, match=f"guard {name}"):
        study.run()
    assert_answered(study, name)


def test_the_data_volume_fills_up(make_sandbox: Callable[..., Sandbox], tmp_path: Path) -> None:
    with volume(3 << 30) as root:
        sandbox = make_sandbox("small-disk", root=root)
        sandbox.start()
        with guarded(sandbox.target(), tmp_path, harm=fill(root, 900 * MB)) as study:
            assert_full(study, "disk")
        (root / "ballast").unlink()
        sandbox.destroy()


def test_the_wal_volume_fills_up(make_sandbox: Callable[..., Sandbox], tmp_path: Path) -> None:
    with volume(2 << 30) as root:
        sandbox = make_sandbox("small-wal")
        wal, place = sandbox.data_directory / "pg_wal", root / "wal"
        subprocess.run(["cp", "-a", str(wal), str(place)], check=True)
        subprocess.run(["rm", "-rf", str(wal)], check=True)
        wal.symlink_to(place)
        sandbox.start()
        with guarded(sandbox.target(), tmp_path, "wal-disk=500MB", harm=fill(root, 300 * MB)) as study:
            assert_full(study, "wal-disk")
        sandbox.stop("immediate")


def test_a_small_volume_is_told_before_anything_is_changed(
    make_sandbox: Callable[..., Sandbox], tmp_path: Path
) -> None:
    with volume(700 * MB) as root:
        sandbox = make_sandbox("tiny-disk", root=root)
        sandbox.start()
        words = r"guard disk.*before anything was changed"
        with guarded(sandbox.target(), tmp_path) as study, pytest.raises(EnvironmentUnsuitable, match=words) as caught:
            study.run()
        assert "--guard disk=" in (caught.value.hint or "")
        with guarded(sandbox.target(), tmp_path / "again", "disk=100MB", measure_s=2.0) as study:
            assert study.run().state is not TrialState.FAILED
        sandbox.destroy()
