"""The lock of a data directory in each of its states: held, left behind, of another session, copied, gone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.undo import server_lock
from pgdyno.undo.server_lock import NAME, Holder, ServerInUse, ServerLock, is_over_for, look, refuse_open, restoring

GONE = ProcessIdentity(1 << 22, 8, "b-o-o-t")


def bundle_of(data: Path, session: str = "s1", *, closed: bool = False, local: bool = True) -> Any:
    manifest = SimpleNamespace(data_directory=str(data), local=local)
    return SimpleNamespace(id=session, directory=Path("/undo") / session, manifest=manifest, is_closed=lambda: closed)


def never(_: Holder) -> bool:
    return False


def left_by(data: Path, session: str) -> None:
    """Leave the lock of a session whose process is gone."""
    holder = Holder(session, "root", f"/undo/{session}", data.stat().st_ino, GONE)
    (data / NAME).write_bytes(holder.to_bytes())


@pytest.mark.parametrize(
    ("pid", "is_read"), [(0, False), (1, True), (1 << 22, True), ((1 << 22) + 1, False), (-1, False)]
)
def test_a_process_number_is_one_that_the_kernel_gives(pid: int, is_read: bool) -> None:
    holder = Holder("s1", "root", "/undo/s1", 7, ProcessIdentity(pid, 8, "b-o-o-t"))
    assert Holder.from_bytes(holder.to_bytes()) == (holder if is_read else None)


def test_a_bundle_of_a_holder_is_text_on_one_line() -> None:
    holder = Holder("s1", "root", "/undo/s1", 7, GONE)
    for bundle, found in (("/undo/s 2", True), ("/undo/\ns1", False)):
        fields = {**json.loads(holder.to_bytes()), "bundle": bundle}
        assert (Holder.from_bytes(json.dumps(fields).encode()) is not None) is found


def test_a_lock_names_who_signed_it_until_it_is_released(tmp_path: Path) -> None:
    lock = ServerLock.take(tmp_path, is_over=never)
    assert look(tmp_path) is None, "a lock that nobody signed names nobody"
    lock.sign(bundle_of(tmp_path))
    holder = look(tmp_path)
    assert holder is not None
    assert (holder.session, holder.bundle, holder.inode) == ("s1", "/undo/s1", tmp_path.stat().st_ino)
    assert holder.process == ProcessIdentity.own()
    assert [holder.names(bundle_of(tmp_path, session)) for session in ("s1", "s2")] == [True, False]
    elsewhere = bundle_of(tmp_path)
    elsewhere.directory = Path("/home/undo/s1")
    assert not holder.names(elsewhere)
    with pytest.raises(ServerInUse, match="session s1 on") as raised:
        ServerLock.take(tmp_path, is_over=lambda _: True)
    assert raised.value.detail == f"Process {os.getpid()} of user {holder.user} is working on it."
    lock.release()
    lock.release()
    assert not (tmp_path / NAME).exists()


def test_a_lock_that_another_has_replaced_is_left_there(tmp_path: Path) -> None:
    lock = ServerLock.take(tmp_path, is_over=never)
    (tmp_path / NAME).unlink()
    left_by(tmp_path, "s2")
    lock.release()
    assert (tmp_path / NAME).exists()


def test_a_lock_that_is_let_go_stays_and_keeps_others_out(tmp_path: Path) -> None:
    lock = ServerLock.take(tmp_path, is_over=never)
    lock.sign(bundle_of(tmp_path))
    lock.let_go()
    lock.let_go()
    with pytest.raises(ServerInUse, match="is still open"):
        ServerLock.take(tmp_path, is_over=never)
    with pytest.raises(ServerInUse, match=rf'session s1 on "{tmp_path}" is still open'):
        refuse_open(tmp_path, is_over=never)
    refuse_open(tmp_path, is_over=lambda _: True)
    ServerLock.take(tmp_path, is_over=lambda holder: holder.session == "s1").release()
    refuse_open(tmp_path, is_over=never)


def test_a_copy_of_another_directory_s_lock_binds_nobody(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    left_by(tmp_path, "s1")
    (tmp_path / "copy" / NAME).write_bytes((tmp_path / NAME).read_bytes())
    assert look(tmp_path) is not None
    assert look(tmp_path / "copy") is None
    ServerLock.take(tmp_path / "copy", is_over=never).release()


@pytest.mark.parametrize(
    ("act", "words"), [("take", "cannot be taken: no space"), ("sign", "cannot be written: no space")]
)
def test_a_full_disk_is_named_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str, words: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    lock = ServerLock.take(tmp_path, is_over=never)
    monkeypatch.setattr(os, "pwrite" if act == "sign" else "pread", full)
    with pytest.raises(EnvironmentUnsuitable, match=f'the lock "{tmp_path / NAME}" {words}'):
        lock.sign(bundle_of(tmp_path)) if act == "sign" else ServerLock.take(tmp_path, is_over=never)
    monkeypatch.undo()
    lock.release()


@pytest.mark.parametrize(
    ("folder", "name", "state", "is_over"),
    [
        ("undo", "s1", "open", False),
        ("undo", "s1", "closed", True),
        ("undo", "s1", "gone", True),
        ("other", "s1", "gone", False),  # of somebody else's folder nothing is known
        ("undo", "s2", "gone", False),  # its name is not that of the session
    ],
)
def test_a_session_of_this_folder_is_over_where_its_bundle_is_closed_or_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, name: str, state: str, is_over: bool
) -> None:
    bundle = tmp_path / folder / name
    if state != "gone":
        bundle.mkdir(parents=True)
    monkeypatch.setattr(server_lock, "is_closed_in", lambda _: state == "closed")
    assert is_over_for(tmp_path / "undo")(Holder("s1", "root", str(bundle), 7, GONE)) is is_over


@pytest.mark.parametrize(("session", "stays"), [("s1", False), ("s2", True), (None, False)])
def test_only_the_lock_of_this_session_is_removed(tmp_path: Path, session: str | None, stays: bool) -> None:
    if session is not None:
        left_by(tmp_path, session)
    server_lock.remove(bundle_of(tmp_path))
    assert (tmp_path / NAME).exists() is stays


@pytest.mark.parametrize(("closed", "stays"), [(True, False), (False, True)])
def test_a_restore_holds_the_lock_and_removes_it_where_the_session_is_over(
    tmp_path: Path, closed: bool, stays: bool
) -> None:
    left_by(tmp_path, "s1")
    with restoring(bundle_of(tmp_path, closed=closed)):
        with pytest.raises(ServerInUse, match="session s1 on") as raised:
            ServerLock.take(tmp_path, is_over=lambda _: True)
        assert f"Process {os.getpid()} of user" in str(raised.value.detail)
    assert (tmp_path / NAME).exists() is stays
    ServerLock.take(tmp_path, is_over=lambda _: True).release()


def test_a_restore_is_refused_while_another_session_is_open(tmp_path: Path) -> None:
    left_by(tmp_path, "s2")
    with pytest.raises(ServerInUse, match="session s2 on"), restoring(bundle_of(tmp_path)):
        pass
    with restoring(bundle_of(tmp_path, local=False)), restoring(bundle_of(tmp_path / "gone")):
        pass
    assert (tmp_path / NAME).exists()


def test_a_session_that_holds_its_lock_itself_is_restored(tmp_path: Path) -> None:
    lock = ServerLock.take(tmp_path, is_over=never)
    lock.sign(bundle_of(tmp_path))
    with restoring(bundle_of(tmp_path)):
        pass
    assert (tmp_path / NAME).exists()
    lock.release()


def test_a_lock_that_cannot_be_written_keeps_nobody_from_a_restore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    done = list[int]()
    with restoring(bundle_of(tmp_path)):
        done.append(1)
    assert done == [1]


def test_one_who_has_the_lock_and_has_not_signed_is_just_beginning(tmp_path: Path) -> None:
    lock = ServerLock.take(tmp_path, is_over=never)
    with pytest.raises(ServerInUse, match="is just beginning or ending"):
        ServerLock.take(tmp_path, is_over=never)
    lock.release()


def test_a_file_that_was_removed_between_its_opening_and_its_lock_is_opened_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock: Callable[[int], bool] = server_lock.durable.try_lock
    tries = list[int]()

    def removed(descriptor: int) -> bool:
        tries.append(descriptor)
        if len(tries) == 1:
            (tmp_path / NAME).unlink()
        return lock(descriptor)

    monkeypatch.setattr(server_lock.durable, "try_lock", removed)
    ServerLock.take(tmp_path, is_over=never).let_go()
    assert len(tries) == 2
    assert (tmp_path / NAME).exists()


@pytest.mark.parametrize(
    ("is_held", "alive", "guards", "words"),
    [
        (True, False, [9], "is working on it."),
        (False, True, [9], "is working on it."),
        (False, False, [9], "is gone; watchdog 9 restores the server."),
        (False, False, [], "ended without a rollback."),
    ],
)
def test_who_has_a_server_is_told_by_what_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_held: bool, alive: bool, guards: list[int], words: str
) -> None:
    monkeypatch.setattr(ProcessIdentity, "is_alive", lambda _: alive)
    monkeypatch.setattr(server_lock, "_watchdogs_of", lambda _: guards)
    found = server_lock.in_use(tmp_path / NAME, Holder("s1", "root", "/undo/s1", 7, GONE), is_held=is_held)
    assert found.detail == f"Process {GONE.pid} of user root {words}"
