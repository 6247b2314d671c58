"""huge_pages = on with a real pool: it is in force, it is released for the next start, and a larger need is refused."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fix_postgres import BUILDS, find_build
from pgdyno.errors import ApplyError
from pgdyno.linux import processes
from pgdyno.model.configuration import Configuration
from pgdyno.preflight.reading_host import SharedSegment, read_host_limits
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import postmaster_lock
from pgdyno.undo.apply import Session

POOL = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
PAGES = 64
pytestmark = [
    pytest.mark.host,
    pytest.mark.pg,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0 or not POOL.exists(), reason="the pool is root's, and needs pages of 2 MB"),
]


@pytest.fixture
def pool() -> Iterator[None]:
    """So many more huge pages than there were, given back at the end."""
    with (Path(tempfile.gettempdir()) / "pgdyno-test-huge-pages.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # what two workers add to each other, neither gives back
        yield from _more_pages()


def _more_pages() -> Iterator[None]:
    # The count holds surplus pages too, which go by themselves; written back, they would stay for good.
    before = int(POOL.read_text()) - int((POOL.parent / "surplus_hugepages").read_text())
    try:
        POOL.write_text(str(before + PAGES))
        if int(POOL.read_text()) < before + PAGES:
            pytest.skip("this machine has no memory in one piece for the pool")
        yield
    finally:
        POOL.write_text(str(before))


@pytest.mark.requirement("R-PG-29", "R-PG-30", "R-KRN-13", "R-SAF-07")
@pytest.mark.parametrize("build", BUILDS)
def test_a_pool_is_used_released_and_enough_or_not(
    make_sandbox: Callable[..., Sandbox], pool: None, tmp_path: Path, build: str
) -> None:
    sandbox = make_sandbox(f"huge-{build}", bin_dir=find_build(build))
    sandbox.start()
    fits = Configuration.of({"shared_buffers": "64MB", "huge_pages": "on", "max_connections": "20"})
    with Session.begin(sandbox.target(), study="test", undo_root=tmp_path / "undo") as session:
        session.apply(fits)
        pid = postmaster_lock.postmaster_pid(sandbox.data_directory)
        assert pid is not None
        segment = read_host_limits(pid, inherits_ours=True).segment
        assert isinstance(segment, SharedSegment)
        assert segment.huge_page_bytes == 2 << 20
        assert processes.huge_pages_mapped(pid)
        session.apply(fits, restart="always")  # its own pages count as free for the next start
        again = postmaster_lock.postmaster_pid(sandbox.data_directory)
        assert again != pid
        with pytest.raises(ApplyError, match="preflight: huge_pages = on needs"):
            session.apply(Configuration.of({**fits, "shared_buffers": "8GB"}))
        assert postmaster_lock.postmaster_pid(sandbox.data_directory) == again
