"""The watchdog on a real server: whoever dies or hangs, the server comes back as it was found, by itself."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
import tuner_process
from tuner_process import await_down, await_line, newest, tuner_of

from pgdyno.errors import EnvironmentUnsuitable, SessionTakenOver
from pgdyno.linux.identity import ProcessIdentity, end_process, wait_until
from pgdyno.model.configuration import Configuration
from pgdyno.routes.dropin import render
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import health, postmaster_lock, snapshot
from pgdyno.server.health import Health
from pgdyno.undo import watch_record
from pgdyno.undo.apply import Session
from pgdyno.undo.bundle import DATA_RESERVE, UndoBundle
from pgdyno.undo.rollback import describe, rollback
from pgdyno.undo.watch_record import WatchdogRole
from server_image import UNHURRIED, eventually, files_of, settings_of

pytestmark = [pytest.mark.pg, pytest.mark.slow]
BEATS = replace(UNHURRIED, heartbeat_s=3)
ANSWERS = replace(UNHURRIED, health_s=2)
STARVING = {"shared_buffers": "48MB", "work_mem": "9MB"}


@pytest.fixture
def victim(server_home: Path) -> Iterator[Sandbox]:
    sandbox = Sandbox.open_or_create("watched", root=server_home)
    sandbox.start()
    yield sandbox
    sandbox.destroy()


def everyone_left(bundle: UndoBundle) -> bool:
    found = [watch_record.identity(bundle.directory, role) for role in WatchdogRole]
    return not any(identity is not None and identity.is_alive() for identity in found)


class Scene:
    """A server as it was, and the assertion that it is so again."""

    def __init__(self, sandbox: Sandbox, undo_root: Path) -> None:
        self.sandbox, self.undo_root = sandbox, undo_root
        self.files, self.settings = files_of(sandbox.data_directory), settings_of(sandbox)

    def assert_restored(self, why: str) -> UndoBundle:
        bundle = newest(self.undo_root)
        eventually(bundle.is_closed, f"closed: {watch_record.last_words(bundle.directory)}")
        assert files_of(self.sandbox.data_directory) == self.files
        assert snapshot.differences(self.settings, settings_of(self.sandbox)) == ()
        assert not (self.sandbox.data_directory / DATA_RESERVE).exists()
        assert why in (describe(bundle.directory).closed_by or "")
        eventually(lambda: everyone_left(bundle), "the watchdogs leave")
        return bundle


@pytest.fixture
def scene(victim: Sandbox, tmp_path: Path) -> Scene:
    return Scene(victim, tmp_path / "undo")


def test_no_room_for_the_servers_reserve_ends_the_session_before_it_began(scene: Scene) -> None:
    target = scene.sandbox.target()
    with pytest.raises(EnvironmentUnsuitable, match="no room for the undo"):
        Session.begin(target, study="x", undo_root=scene.undo_root, watch=UNHURRIED, data_reserve_bytes=1 << 60)
    scene.assert_restored("session")


def test_the_watchdog_stands_before_anything_is_in_the_data_directory(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a kill at any moment leaves nothing behind there."""

    def killed(bundle: UndoBundle, size_bytes: int) -> None:
        assert not (scene.sandbox.data_directory / DATA_RESERVE).exists()
        assert not everyone_left(bundle)
        raise KeyboardInterrupt

    monkeypatch.setattr(UndoBundle, "reserve_beside_data", killed)
    with pytest.raises(KeyboardInterrupt):
        Session.begin(scene.sandbox.target(), study="x", undo_root=scene.undo_root, watch=UNHURRIED)
    scene.assert_restored("session")


def test_a_killed_tuner(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """All processes are started as a user's are; those of the other tests here are forks."""
    monkeypatch.setattr(tuner_process, "begin", tuner_process.begin_python)
    with tuner_of(scene.sandbox, scene.undo_root, watch=UNHURRIED, configurations=[STARVING], hold=True) as tuner:
        await_line(tuner, "applied")
        tuner.kill()
        scene.assert_restored("is gone")


def test_a_tuner_killed_in_a_restart(scene: Scene) -> None:
    with tuner_of(scene.sandbox, scene.undo_root, watch=UNHURRIED, configurations=[STARVING, {}]) as tuner:
        await_down(scene.sandbox, tuner)
        tuner.kill()
        scene.assert_restored("is gone")


@pytest.mark.parametrize(
    "order", [(WatchdogRole.FIRST, WatchdogRole.SECOND), (WatchdogRole.SECOND, WatchdogRole.FIRST)]
)
def test_tuner_and_watchdogs_killed_one_after_another(scene: Scene, order: tuple[WatchdogRole, ...]) -> None:
    """Each watchdog process is replaced, and its replacement carries on, also when the tuner dies in between."""
    with tuner_of(scene.sandbox, scene.undo_root, watch=UNHURRIED, configurations=[STARVING], hold=True) as tuner:
        await_line(tuner, "applied")
        folder = newest(scene.undo_root).directory
        for role in order:
            before = watch_record.identity(folder, WatchdogRole.FIRST)
            victim = watch_record.identity(folder, role)
            kill_and_wait(victim)
            eventually(lambda: _pair_is_complete(folder), "two watchdogs again")
            assert role is WatchdogRole.SECOND or watch_record.identity(folder, WatchdogRole.FIRST) != before
        tuner.kill()
        kill_and_wait(watch_record.identity(folder, WatchdogRole.FIRST))
        scene.assert_restored("is gone")


def kill_and_wait(process: ProcessIdentity | None) -> None:
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    assert wait_until(lambda: not process.is_alive(), timeout_s=30)


def _pair_is_complete(folder: Path) -> bool:
    found = [watch_record.identity(folder, role) for role in WatchdogRole]
    return len({identity.pid for identity in found if identity is not None and identity.is_alive()}) == len(
        WatchdogRole
    )


def test_both_watchdogs_killed_at_once_are_replaced_by_the_session(scene: Scene) -> None:
    with tuner_of(scene.sandbox, scene.undo_root, watch=UNHURRIED, configurations=[STARVING], hold=True) as tuner:
        await_line(tuner, "applied")
        folder = newest(scene.undo_root).directory
        eventually(lambda: _pair_is_complete(folder), "two watchdogs")
        old = [watch_record.identity(folder, role) for role in WatchdogRole]
        for identity in old:
            assert identity is not None
            os.kill(identity.pid, signal.SIGSTOP)  # so that neither sees the other die
        for identity in old:
            kill_and_wait(identity)
        eventually(lambda: _pair_is_complete(folder), "two watchdogs again")
        tuner.kill()
        scene.assert_restored("is gone")


def test_a_tuner_that_hangs_is_ended_first(scene: Scene) -> None:
    with tuner_of(scene.sandbox, scene.undo_root, watch=BEATS, configurations=[STARVING], hold=True) as tuner:
        await_line(tuner, "applied")
        tuner.send_signal(signal.SIGSTOP)
        scene.assert_restored("no heartbeat")
        assert tuner.wait(30) == -signal.SIGKILL


def test_sigterm_to_the_watchdogs_puts_back_and_ends_all(scene: Scene) -> None:
    with tuner_of(scene.sandbox, scene.undo_root, watch=UNHURRIED, configurations=[STARVING], hold=True) as tuner:
        await_line(tuner, "applied")
        for role in (WatchdogRole.SECOND, WatchdogRole.FIRST):
            process = watch_record.identity(newest(scene.undo_root).directory, role)
            assert process is not None
            os.kill(process.pid, signal.SIGTERM)
        scene.assert_restored("")
        assert tuner.wait(30) != 0


def test_a_server_that_died_is_started(scene: Scene) -> None:
    """The session lives and does nothing about it: past the deadline the watchdog does."""
    with tuner_of(scene.sandbox, scene.undo_root, watch=ANSWERS, configurations=[STARVING], hold=True) as tuner:
        await_line(tuner, "applied")
        scene.sandbox.crash()
        scene.assert_restored("the server has been absent")


def test_a_server_that_hangs_goes_on(scene: Scene) -> None:
    with tuner_of(scene.sandbox, scene.undo_root, watch=ANSWERS, configurations=[STARVING], hold=True) as tuner:
        await_line(tuner, "applied")
        pid = postmaster_lock.postmaster_pid(scene.sandbox.data_directory)
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        scene.assert_restored("the server has been silent")


def test_no_free_connection(scene: Scene) -> None:
    """With every slot taken, the reserved ones too, no SQL gets through: the server comes back all the same."""
    few = {"max_connections": "8", "superuser_reserved_connections": "2"}
    with tuner_of(scene.sandbox, scene.undo_root, watch=UNHURRIED, configurations=[few], hold=True) as tuner:
        await_line(tuner, "applied")
        with contextlib.ExitStack() as stack:
            with pytest.raises(psycopg.OperationalError, match="too many clients"):
                _take_every_slot(scene.sandbox, stack)
            address = newest(scene.undo_root).manifest.address
            assert address is not None
            eventually(lambda: health.ask(address) is Health.ALIVE, "an answer, for which each question waits 2 s")
            tuner.kill()
            scene.assert_restored("is gone")


def _take_every_slot(sandbox: Sandbox, stack: contextlib.ExitStack) -> None:
    for _ in range(20):
        stack.enter_context(psycopg.connect(sandbox.target().postgres.conninfo))


def test_a_configuration_that_cannot_start(scene: Scene) -> None:
    """The tuner dies while the server cannot come up: the watchdog puts the files back and starts it."""
    with tuner_of(scene.sandbox, scene.undo_root, watch=UNHURRIED, configurations=[STARVING], hold=True) as tuner:
        await_line(tuner, "applied")
        dropin = scene.sandbox.data_directory / "pgdyno.conf"
        cannot_start = Configuration.of({"huge_pages": "on", "huge_page_size": "1GB", "shared_buffers": "900GB"})
        bundle = newest(scene.undo_root)
        bundle.journal().append("intent", {"settings": dict(cannot_start)})
        dropin.write_bytes(render(cannot_start, session=bundle.id))
        tuner.kill()
        scene.sandbox.crash()
        scene.assert_restored("is gone")


def test_a_session_that_was_taken_over_stops(scene: Scene) -> None:
    """What the watchdog has restored, the session does not change again."""
    session = Session.begin(scene.sandbox.target(), study="x", undo_root=scene.undo_root, watch=UNHURRIED)
    session.apply(Configuration.of(STARVING))
    session.bundle.journal().append("closed", {"by": "watchdog: a test"})
    with pytest.raises(SessionTakenOver, match="ended by its watchdog"):
        session.apply(Configuration.of({"work_mem": "10MB"}))
    with pytest.raises(SessionTakenOver):
        session.record_process(os.getpid(), "driver")
    assert session.rollback().already_closed
    eventually(lambda: everyone_left(session.bundle), "the watchdogs leave")
    (scene.sandbox.data_directory / "pgdyno.conf").unlink()


def test_no_change_without_a_watchdog(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    monkeypatch.setattr("pgdyno.undo.watch._START_S", 1.0)
    with pytest.raises(EnvironmentUnsuitable, match=r"watchdog of session .* did not start"):
        Session.begin(scene.sandbox.target(), study="x", undo_root=scene.undo_root, watch=UNHURRIED)
    assert newest(scene.undo_root).is_closed()
    assert files_of(scene.sandbox.data_directory) == scene.files
    assert not (scene.sandbox.data_directory / DATA_RESERVE).exists()


def test_a_session_that_ends_well_leaves_nobody(scene: Scene) -> None:
    with Session.begin(scene.sandbox.target(), study="x", undo_root=scene.undo_root, watch=UNHURRIED) as session:
        session.apply(Configuration.of(STARVING))
        first = watch_record.identity(session.bundle.directory, WatchdogRole.FIRST)
    assert first is not None
    scene.assert_restored("session")
    assert not end_process(first)


def test_what_somebody_else_sets_is_told_and_costs_no_restart(scene: Scene) -> None:
    """In another file and in ours: both stay. One restart for what is ours; the session is closed."""
    with tuner_of(scene.sandbox, scene.undo_root, watch=UNHURRIED, configurations=[STARVING], hold=True) as tuner:
        await_line(tuner, "applied")
        theirs = scene.sandbox.data_directory / "postgresql.auto.conf"
        theirs.write_bytes(theirs.read_bytes() + b"maintenance_work_mem = '99MB'\n")
        ours = scene.sandbox.data_directory / "pgdyno.conf"
        ours.write_bytes(ours.read_bytes() + b"random_page_cost = 1.5\n")
        tuner.kill()
        bundle = newest(scene.undo_root)
        eventually(bundle.is_closed, f"closed: {watch_record.last_words(bundle.directory)}")
        eventually(lambda: everyone_left(bundle), "both watchdogs leave")
    words = watch_record.last_words(bundle.directory) or ""
    assert "restarted" in words
    assert "maintenance_work_mem: was 64MB" in words
    assert ours.read_bytes() == b"random_page_cost = 1.5\n"
    found = snapshot.differences(scene.settings, settings_of(scene.sandbox))
    assert {each.name for each in found} == {"maintenance_work_mem", "random_page_cost"}
    assert rollback(bundle).already_closed


def test_a_server_that_a_person_shuts_down_is_left_down(scene: Scene) -> None:
    """The tuner lives and hangs in its load: it is ended, the files are put back, and the server stays down."""
    with tuner_of(scene.sandbox, scene.undo_root, watch=ANSWERS, configurations=[STARVING], hold=True) as tuner:
        await_line(tuner, "applied")
        scene.sandbox.stop()
        bundle = newest(scene.undo_root)
        eventually(bundle.is_closed, f"closed: {watch_record.last_words(bundle.directory)}")
        eventually(lambda: everyone_left(bundle), "both watchdogs leave")
        assert tuner.wait(30) != 0
    assert postmaster_lock.postmaster_pid(scene.sandbox.data_directory) is None
    assert files_of(scene.sandbox.data_directory) == scene.files
    assert "the sandbox is stopped" in (describe(bundle.directory).closed_by or "")
    scene.sandbox.start()
    assert snapshot.differences(scene.settings, settings_of(scene.sandbox)) == ()
