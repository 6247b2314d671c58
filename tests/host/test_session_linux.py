"""PostgreSQL and Linux knobs in one session: in force together, and back together, whoever ends it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from state import state_of
from tuner_process import await_line, newest, tuner_of

from fix_postgres import find_build
from pgdyno.errors import ApplyError, EnvironmentUnsuitable
from pgdyno.linux import processes
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import postmaster_lock
from pgdyno.undo.apply import Session
from pgdyno.undo.kernel_route import KernelRoute
from pgdyno.undo.restore import restore
from server_image import UNHURRIED, eventually

pytestmark = [
    pytest.mark.host,
    pytest.mark.pg,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="kernel values are root's to write"),
]
DIRTY, BACKGROUND, HUGE = "vm.dirty_bytes", "vm.dirty_background_bytes", "transparent_hugepage.enabled"
POOL_PAGES = 120
JOINT = {DIRTY: "536870912", BACKGROUND: "67108864", HUGE: "never", "work_mem": "8MB"}


@pytest.fixture
def server(server_home: Path) -> Iterator[Sandbox]:
    sandbox = Sandbox.open_or_create("linux", root=server_home)
    sandbox.start()
    yield sandbox
    sandbox.destroy()


@pytest.fixture
def dirty_bytes() -> str:
    """What the kernel has before the session: 0 where the ratio counts."""
    return value("/proc/sys/vm/dirty_bytes")


def value(path: str) -> str:
    return Path(path).read_text().strip()


def surplus() -> str:
    found = re.search(r"HugePages_Surp: +([0-9]+)", Path("/proc/meminfo").read_text())
    assert found, "Linux has the line"
    return found[1]


def postmaster(sandbox: Sandbox) -> int:
    pid = postmaster_lock.postmaster_pid(sandbox.data_directory)
    assert pid is not None, "the server runs"
    return pid


def begin(server: Sandbox, undo_root: Path) -> Session:
    names = (DIRTY, BACKGROUND, HUGE)
    return Session.begin(server.target(), study="joint", undo_root=undo_root, kernel=names)


def test_both_kinds_come_into_force_and_go_back(server: Sandbox, tmp_path: Path, dirty_bytes: str) -> None:
    before = state_of(server.data_directory, server.folder)
    with begin(server, tmp_path / "undo") as session:
        applied = session.apply(Configuration.of(JOINT))
        assert applied.values[DIRTY] == "536870912"
        assert (value("/proc/sys/vm/dirty_bytes"), value("/proc/sys/vm/dirty_ratio")) == ("536870912", "0")
        assert "[never]" in value("/sys/kernel/mm/transparent_hugepage/enabled")
        some = session.apply(Configuration.of({BACKGROUND: "33554432"}))
        assert some.fingerprint != applied.fingerprint
        assert value("/proc/sys/vm/dirty_bytes") == dirty_bytes, (
            "a knob that is not in the configuration is as it was found"
        )
        assert session.apply(BASELINE).values == {}
    assert before.differences(state_of(server.data_directory, server.folder)) == []


def test_a_refused_value_leaves_neither_kind(server: Sandbox, tmp_path: Path, dirty_bytes: str) -> None:
    before = state_of(server.data_directory, server.folder)
    with begin(server, tmp_path / "undo") as session:
        with pytest.raises(ApplyError, match="work_mem"):
            session.apply(Configuration.of({DIRTY: "536870912", "work_mem": "7 parsecs"}))
        assert value("/proc/sys/vm/dirty_bytes") == dirty_bytes
        with pytest.raises(ApplyError, match=r"vm\.swappiness .* did not take down"):
            session.apply(Configuration.of({"vm.swappiness": "10"}))
        assert not (server.data_directory / "pgdyno.conf").exists()
    assert before.differences(state_of(server.data_directory, server.folder)) == []


def test_a_knob_that_somebody_else_changed_is_told(server: Sandbox, tmp_path: Path) -> None:
    with begin(server, tmp_path / "undo") as session:
        session.apply(Configuration.of(JOINT))
        Path("/proc/sys/vm/dirty_bytes").write_text("268435456")
        assert session._linux.shortfalls(Configuration.of(JOINT)) == [
            "vm.dirty_bytes = 536870912 was written, but the kernel has 268435456"
        ]


def test_a_value_that_the_kernel_did_not_take_is_not_in_force(
    server: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dirty_bytes: str
) -> None:
    with begin(server, tmp_path / "undo") as session:
        monkeypatch.setattr(KernelRoute, "set", lambda self, configuration: None)
        with pytest.raises(ApplyError, match=rf"536870912 was written, but the kernel has {dirty_bytes}\Z"):
            session.apply(Configuration.of({DIRTY: "536870912"}))


@pytest.mark.requirement("R-KRN-13")
@pytest.mark.parametrize("build", ["embedded-18", "debian-15"])
def test_a_pool_of_huge_pages_is_used_after_a_restart_and_gone_at_the_end(
    make_sandbox: Callable[..., Sandbox], tmp_path: Path, build: str
) -> None:
    sandbox = make_sandbox(f"pool-{build}", bin_dir=find_build(build))
    sandbox.start()
    before = surplus(), value("/proc/sys/vm/nr_hugepages")
    pool = Configuration.of({"vm.nr_hugepages": str(int(before[1]) + POOL_PAGES)})
    with Session.begin(
        sandbox.target(), study="pool", undo_root=tmp_path / "undo", kernel=("vm.nr_hugepages",)
    ) as session:
        try:
            applied = session.apply(pool)
        except ApplyError as error:
            if "found room for" in str(error.detail):
                pytest.skip("this machine has no memory in one piece for the pool")
            raise
        assert applied.restarted, "a running server has nothing of a pool that came later"
        assert processes.huge_pages_mapped(postmaster(sandbox))
    assert not processes.huge_pages_mapped(postmaster(sandbox))
    assert (surplus(), value("/proc/sys/vm/nr_hugepages")) == before, "nobody holds pages of it any more"


def test_a_host_that_is_not_this_one(server: Sandbox, tmp_path: Path) -> None:
    elsewhere = replace(server.target(), local=False)
    with pytest.raises(EnvironmentUnsuitable, match="cannot be changed from here"):
        Session.begin(elsewhere, study="x", undo_root=tmp_path / "undo", kernel=(DIRTY,))


def test_the_watchdog_puts_both_back(server: Sandbox, tmp_path: Path) -> None:
    before = state_of(server.data_directory, server.folder)
    with tuner_of(
        server, tmp_path / "undo", watch=UNHURRIED, configurations=[JOINT], kernel=(DIRTY, BACKGROUND, HUGE), hold=True
    ) as tuner:
        await_line(tuner, "applied")
        assert value("/proc/sys/vm/dirty_bytes") == "536870912"
        tuner.kill()
        bundle = newest(tmp_path / "undo")
        eventually(bundle.is_closed, "closed")
    assert before.differences(state_of(server.data_directory, server.folder)) == []


def test_by_hand_with_nothing_but_a_shell(server: Sandbox, tmp_path: Path) -> None:
    before = state_of(server.data_directory, server.folder)
    session = begin(server, tmp_path / "undo")
    session.apply(Configuration.of(JOINT))
    text = (session.bundle.directory / "UNDO.md").read_text()
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        subprocess.run(["sh", "-e", "-c", block], check=True, capture_output=True)
    found = before.differences(state_of(server.data_directory, server.folder))
    # A person's restart makes the server a child of that shell, and the lock names a session that is still open.
    assert [text for text in found if not text.startswith(("process ", "file pgdyno.lock"))] == []
    target = server.target()
    again = restore(session.bundle, postgres=target.postgres, control=target.control, route=session._route)
    assert (again.files, again.is_whole) == ((), True)
