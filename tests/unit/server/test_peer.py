"""Who is at the other end of a session: the kernel's word for Unix sockets and for TCP of both families."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from pathlib import Path

import pytest

from pgdyno.linux.peer import Peer, peer_of
from pgdyno.targets.connect import Sighting, own_directory


@pytest.mark.parametrize(
    ("family", "bound", "named"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET6, "::1", "::1"),
        (socket.AF_INET6, "::", "127.0.0.1"),
    ],
)
def test_the_account_behind_a_tcp_port_is_known(family: int, bound: str, named: str) -> None:
    listener = socket.socket(family)
    try:
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((bound, 0))
    except OSError as error:
        pytest.skip(f"no {bound} here: {error}")
    with closing(listener):
        listener.listen()
        with closing(socket.create_connection((named, listener.getsockname()[1]), 5)) as session:
            taken, _ = listener.accept()
            with closing(taken):
                assert peer_of(session.fileno()) == Peer(os.geteuid())


def test_a_program_that_is_no_postmaster_has_an_account_and_no_number() -> None:
    ours, theirs = socket.socketpair()
    with closing(ours), closing(theirs):
        assert peer_of(ours.fileno()) == Peer(os.geteuid(), None)


def test_a_session_of_another_host_has_no_account(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    listener = socket.create_server(("127.0.0.1", 0))
    with closing(listener), closing(socket.create_connection(listener.getsockname(), 5)) as session:
        assert peer_of(session.fileno(), tmp_path) == Peer(None)


@pytest.mark.parametrize("peer", [Peer(None), Peer(65_533)])
def test_only_its_own_account_or_root_speaks_for_a_directory(
    peer: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdyno.server.postmaster_lock.postmaster_pid", lambda _: os.getpid())
    monkeypatch.setattr("pgdyno.server.postmaster_lock.read_lines", lambda _: ["1", str(tmp_path), "1000"])
    assert own_directory(Sighting(180_000, 1000.0, tmp_path, None, Peer(os.geteuid()))) == tmp_path
    assert own_directory(Sighting(180_000, 1000.0, tmp_path, None, peer)) is None


@pytest.mark.parametrize(
    ("uid", "words"), [(None, "are not on this host"), (0, "runs as root"), (2**31 - 3, "2147483645")]
)
def test_why_a_server_cannot_be_looked_at_is_told_as_it_is(
    uid: int | None, words: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert words in Sighting(180_000, 1000.0, None, None, Peer(uid)).unseen


def test_a_data_directory_that_a_role_may_not_see_is_not_called_none(tmp_path: Path):
    hidden, closed = (Sighting(180_000, 1000.0, where, None, Peer(0)).unreached for where in (None, tmp_path))
    assert "pg_read_all_settings" in hidden
    assert "None" not in hidden
    assert str(tmp_path) in closed
