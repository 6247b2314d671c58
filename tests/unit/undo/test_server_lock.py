"""What the lock of a data directory says of its session, where another session's words were in it before."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pgdyno.linux import processes
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.undo.bundle import UndoBundle
from pgdyno.undo.server_lock import NAME, Holder, ServerLock, in_use, look


def signed(directory: Path, session: str) -> ServerLock:
    lock = ServerLock.take(directory, is_over=lambda _: True)
    lock.sign(cast("UndoBundle", SimpleNamespace(id=session, directory=Path("/undo") / session)))
    return lock


def test_a_shorter_name_leaves_nothing_of_the_longer_one_before(tmp_path: Path) -> None:
    """Words that cannot be read name nobody: the next tuner would take a server with an open session."""
    for session in ("20260101T000000Z-a-study-with-a-very-long-name", "20260102T000000Z-b"):
        signed(tmp_path, session).let_go()
        holder = look(tmp_path)
        assert holder is not None
        assert holder.session == session
        assert (tmp_path / NAME).read_bytes() == holder.to_bytes()


def test_the_watchdog_of_this_session_is_named_and_no_other_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its command line names program and bundle: an editor of the bundle has the one, other watchdogs the other."""
    told = {3: ["vi", "/undo/a"], 4: ["python", "-m", "pgdyno.undo.watchdog", "/undo/b"], 5: []}
    for pid, words in told.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cmdline").write_text("".join(f"{word}\0" for word in words))
    monkeypatch.setattr(processes, "PROC", tmp_path)
    monkeypatch.setattr(processes, "all_pids", lambda: [*told, 6])
    gone = ProcessIdentity(1 << 22, 8, "b-o-o-t")  # no kernel gives that number
    holder = Holder("20260101T000000Z-a", "root", "/undo/a", 7, gone)
    left = in_use(tmp_path / NAME, holder, is_held=False)
    assert "ended without a rollback" in str(left.detail)
    (tmp_path / "6").mkdir()
    (tmp_path / "6" / "cmdline").write_text("python\0-m\0pgdyno.undo.watchdog\0/undo/a\0")
    watched = in_use(tmp_path / NAME, holder, is_held=False)
    assert str(watched.detail) == f"Process {gone.pid} of user root is gone; watchdog 6 restores the server."


@pytest.mark.parametrize("name", ["session", "user", "boot_id"])
def test_a_lock_with_one_word_that_nobody_writes_names_nobody(name: str) -> None:
    holder = Holder("20260101T000000Z-a", "root", "/undo/a", 7, ProcessIdentity(9, 8, "b-o-o-t"))
    assert Holder.from_bytes(holder.to_bytes()) == holder
    fields = {**json.loads(holder.to_bytes()), name: "two words\n"}
    assert Holder.from_bytes(json.dumps(fields).encode()) is None
