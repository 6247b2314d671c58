"""A fast shutdown that falls into a crash recovery: PostgreSQL 18 hangs in it, and the server must come back anyway."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from fix_edited_server import RESTARTED, Scene, killed
from pgdyno.control import PgCtl
from pgdyno.linux import processes
from pgdyno.model.configuration import Configuration
from pgdyno.server import postmaster_lock, snapshot
from pgdyno.undo import stuck_stop
from server_image import eventually

pytestmark = pytest.mark.pg
TRIES = 12
ATTACHED_S = 3.0
"""A shutdown of an idle server takes a few hundredths of a second."""


def checkpointer(postmaster: int) -> int:
    """Return the checkpointer of a server, which tells its name a moment after the start."""
    found: list[int] = []

    def title(pid: int) -> str:
        with suppress(OSError):  # it has ended since
            return (processes.PROC / str(pid) / "cmdline").read_text(errors="replace").strip("\0 ")
        return ""

    def is_there() -> bool:
        found[:] = [one.pid for one in processes.children_of(postmaster) if title(one.pid).endswith("checkpointer")]
        return bool(found)

    eventually(is_there, "a checkpointer", step_s=0.01)
    return found[0]


def hang(control: PgCtl) -> bool:
    """Have a server crash, stop it while it recovers, and tell whether it hangs: some builds and some moments do."""
    for attempt in range(TRIES):
        control.start()
        pid = postmaster_lock.postmaster_pid(control.data_directory)
        assert pid is not None
        os.kill(checkpointer(pid), signal.SIGKILL)
        time.sleep(0.005 + 0.002 * attempt)
        os.kill(pid, signal.SIGINT)
        deadline = time.monotonic() + ATTACHED_S
        while processes.alive(pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        if processes.alive(pid):
            return True
    return False


def test_a_restart_ends_a_shutdown_that_hangs(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after our stop was told, by which time the server had crashed: nothing but SIGQUIT brings it back."""
    monkeypatch.setattr(stuck_stop, "QUIET_S", 1.0)
    session = scene.changed(RESTARTED, tmp_path)

    def told_to_stop(control: PgCtl) -> None:
        if not hang(control):
            pytest.skip("this build does not hang in a fast shutdown during recovery")
        raise KeyboardInterrupt

    with monkeypatch.context() as killing:
        killing.setattr(PgCtl, "restart", told_to_stop)
        try:
            with pytest.raises(KeyboardInterrupt):
                session.apply(Configuration.of({**RESTARTED, "max_connections": "43"}))
        finally:
            if scene.is_down():
                scene.control().start()
    began = time.monotonic()
    restored = killed(session)
    assert restored.is_whole
    assert restored.restarted
    assert time.monotonic() - began < scene.control().timeout_s / 2
    assert snapshot.differences(scene.settings, scene.read()) == ()
    assert scene.main.read_bytes() == scene.before


def test_a_server_that_works_is_not_touched(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle, with all of its parts asleep: only who is alone with the checkpointer is taken for stuck."""
    monkeypatch.setattr(stuck_stop, "QUIET_S", 0.0)
    started = scene.started_at()
    with stuck_stop.ended(stuck_stop.server_in(scene.data)):
        time.sleep(2.0)
    assert scene.started_at() == started


def test_without_a_server_there_is_nothing_to_end(tmp_path: Path) -> None:
    with stuck_stop.ended(stuck_stop.server_in(tmp_path)), stuck_stop.ended(None):
        pass
