"""A memory limit of the server's cgroup is the memory there is, whatever RAM the machine has."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgdyno.errors import ApplyError
from pgdyno.model.configuration import Configuration
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import postmaster_lock
from pgdyno.undo.apply import Session
from server_image import eventually

ROOT = Path("/sys/fs/cgroup")
LIMIT = 1 << 30
pytestmark = [
    pytest.mark.host,
    pytest.mark.pg,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="cgroups need root"),
]


@pytest.fixture
def group() -> Iterator[Path]:
    """A cgroup with a limit of 1 GB: of the memory controller of v1, or of the unified hierarchy."""
    v1 = ROOT / "memory"
    folder = (v1 if v1.is_dir() else ROOT) / f"pgdyno-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / ("memory.limit_in_bytes" if v1.is_dir() else "memory.max")).write_text(str(LIMIT))
    except OSError as error:
        pytest.skip(f"this machine does not allow a cgroup with a memory limit: {error}")
    try:
        yield folder
    finally:
        eventually(lambda: is_removed(folder), f"{folder} is empty")


def is_removed(group: Path) -> bool:
    """Remove a group; False while a process of the server's is still on its way out of it."""
    try:
        group.rmdir()
    except OSError:
        return False
    return True


def test_the_limit_of_the_servers_cgroup_counts(
    make_sandbox: Callable[..., Sandbox], group: Path, tmp_path: Path
) -> None:
    sandbox = make_sandbox("bounded")
    sandbox.start()
    pid = postmaster_lock.postmaster_pid(sandbox.data_directory)
    assert pid is not None
    (group / "cgroup.procs").write_text(str(pid))
    with Session.begin(sandbox.target(), study="test", undo_root=tmp_path / "undo") as session:
        with pytest.raises(ApplyError, match=r"shared_buffers = 2GB needs .* host and cgroup give 1 GB"):
            session.apply(Configuration.of({"shared_buffers": "2GB", "huge_pages": "off"}))
        assert postmaster_lock.postmaster_pid(sandbox.data_directory) == pid
        session.apply(Configuration.of({"shared_buffers": "256MB", "huge_pages": "off"}))
    sandbox.destroy()
