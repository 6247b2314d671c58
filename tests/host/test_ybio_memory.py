"""A sandbox's server in a memory cgroup: what does not fit is read from the disk, and nothing of it stays."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.trial import LoadPlan
from pgdyno.owner.hands import OURS
from pgdyno.sandbox import memory_group
from pgdyno.sandbox.memory_group import MemoryGroup
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import postmaster_lock
from pgdyno.targets.inspect import read_facts
from pgdyno.workloads.registry import make_workload
from pgdyno.workloads.working_set import sized

pytestmark = pytest.mark.pg
MB = 1 << 20
LIMIT = 192 * MB


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A folder that every user can enter, not in memory: on such a file system nothing is bounded."""
    with tempfile.TemporaryDirectory(prefix="pgdyno-test-", dir=os.environ.get("PGDYNO_TEST_DISK", "/var/tmp")) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def has_group(name: str) -> bool:
    """Tell whether a cgroup of this name exists; those of others may go while they are walked through."""
    return any(name in folders for _, folders, _ in os.walk("/sys/fs/cgroup"))


@pytest.mark.skipif(os.geteuid() != 0, reason="a cgroup needs root")
@pytest.mark.requirement("R-YBI-04", "R-YBI-08")
def test_a_working_set_beyond_the_bound_is_read_from_the_disk(on_disk: Path, tmp_path: Path) -> None:
    sandbox = Sandbox.open_or_create("bounded", root=on_disk, memory_bytes=LIMIT)
    try:
        try:
            sandbox.start()
        except EnvironmentUnsuitable as error:
            pytest.skip(str(error))
        target = sandbox.target()
        pid = postmaster_lock.postmaster_pid(sandbox.data_directory)
        assert pid is not None
        folders = (line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines())
        (name,) = {Path(path).name for _, kind, path in folders if kind == "memory" or (not kind and "memory" in path)}
        facts = read_facts(target)
        assert facts.host.memory_limit_bytes == LIMIT
        parameters, found = sized({"class": "exceeds", "batch_size": 500, "filler": 1000}, facts)
        assert found is not None
        assert found.whole == LIMIT
        load = make_workload("ybio", parameters)
        load.prepare(target, progress=lambda text: None)
        running = load.begin(target, load.reset(target), LoadPlan(1, 1, warmup_s=0.0, measure_s=4.0), tmp_path)
        while not running.poll():
            time.sleep(0.05)
        result = running.finish()
        assert result.reason is None
        if target.block_reads is not None:  # who counts them is the machine's to say
            (_, before), (_, after) = result.device_reads[0], result.device_reads[-1]
            assert after > before, "a set larger than memory reaches the disk"
        assert has_group(name)
    finally:
        sandbox.destroy()
    assert not has_group(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="a cgroup needs root")
def test_a_bound_that_a_killed_pgdyno_left_is_taken_off(on_disk: Path) -> None:
    first = Sandbox.open_or_create("left", root=on_disk, memory_bytes=LIMIT)
    try:
        first.start()
    except EnvironmentUnsuitable as error:
        first.destroy()
        pytest.skip(str(error))
    assert read_facts(first.target()).host.memory_limit_bytes == LIMIT
    first._lock.release()  # as a kill does: the server lives on in its group
    second = Sandbox.open_or_create("left", root=on_disk)
    try:
        assert second.is_running()
        second.start()
        facts = read_facts(second.target())
        assert facts.host.memory_limit_bytes != LIMIT
    finally:
        second.destroy()


def test_only_root_bounds_memory_and_only_of_files_on_a_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory_group.os, "geteuid", lambda: 1000)
    with pytest.raises(EnvironmentUnsuitable, match="needs root"):
        MemoryGroup.create("test", LIMIT, None, tmp_path)
    with pytest.raises(EnvironmentUnsuitable, match="cannot live"):
        MemoryGroup.create("test", MB, None, tmp_path)
    monkeypatch.setattr(memory_group.os, "geteuid", lambda: 0)
    monkeypatch.setattr(memory_group, "filesystem_of", lambda *_: "tmpfs")
    with pytest.raises(EnvironmentUnsuitable, match="lies on tmpfs") as caught:
        MemoryGroup.create("test", LIMIT, None, tmp_path)
    assert caught.value.exit_code == 6


def test_forgetting_a_folder_leaves_its_files(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/file").write_bytes(b"x" * 100_000)
    (tmp_path / "link").symlink_to("/nowhere")
    OURS.forget_cached(tmp_path)
    assert (tmp_path / "sub/file").read_bytes() == b"x" * 100_000
