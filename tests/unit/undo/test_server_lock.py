"""What the lock of a data directory says of its session, where another session's words were in it before."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

from pgdyno.undo.bundle import UndoBundle
from pgdyno.undo.server_lock import NAME, ServerLock, look


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
