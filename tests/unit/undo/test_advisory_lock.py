"""The lock in SQL: who is named, who may hold it and keep nobody out, and what is given back."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from pgdyno.errors import ConnectError, EnvironmentUnsuitable
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.undo import one_session
from pgdyno.undo.one_session import AdvisoryLock, OneSession, refuse_advisory, refuse_while_open
from pgdyno.undo.server_lock import Holder, ServerInUse, ServerLock, look

HOLDER = Holder("s9", "alice", "/undo/s9", 7, ProcessIdentity(99, 8, "b-o-o-t"))


class Server:
    """A server whose lock is `taken` by us where it is asked for, with the rows of `others` that hold it, too."""

    label = "db1"

    def __init__(self, *others: dict[str, object], taken: bool = True, text: object = "") -> None:
        self.others, self.taken, self.text = list(others), taken, text
        self.said, self.open = list[tuple[str, object]](), 0

    def connect(self) -> Any:
        self.open += 1
        return Session(self)

    def fetch(self, query: str, params: object) -> list[dict[str, object]]:
        assert (query, params) == (one_session._FILE, ["pgdyno.lock"])
        if isinstance(self.text, Exception):
            raise self.text
        return [{"text": self.text}]


class Session:
    def __init__(self, server: Server) -> None:
        self.server, self.is_lost, self.is_open = server, False, True

    def execute(self, query: str, params: object = None) -> Session:
        if self.is_lost:
            raise psycopg.OperationalError("gone")
        self.server.said.append((query, params))
        self.query = query
        return self

    def fetchone(self) -> dict[str, object]:
        return {"taken": self.server.taken}

    def fetchall(self) -> list[dict[str, object]]:
        assert self.query == one_session._OTHERS
        return self.server.others

    def close(self) -> None:
        self.server.open -= self.is_open
        self.is_open = False

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_session, "LEAVING_S", 0.0)
    monkeypatch.setattr(one_session, "_LOOK_S", 0.0)


def other(name: str = "pgdyno s9", user: str | None = "bob", *, may: bool = True) -> dict[str, object]:
    return {"pid": 41, "user": user, "name": name, "may_have_session": may}


def test_the_lock_is_held_in_a_session_that_never_times_out_and_shows_its_name() -> None:
    server = Server()
    lock = AdvisoryLock.take(cast(Any, server))
    assert server.said[:2] == [(one_session._NO_TIMEOUT, None), (one_session._TAKE, (0x70676479, 0x6E6F))]
    lock.sign("s" * 80)
    assert server.said[-1] == (one_session._NAME, ["pgdyno " + "s" * 56])
    assert server.open == 1
    before = len(server.said)
    lock.renew()
    assert server.said[before:] == [("SELECT 1", None)], "its session is there"
    cast(Any, lock)._connection.is_lost = True
    lock.renew()
    assert server.said[-1] == (one_session._NAME, ["pgdyno " + "s" * 56])
    assert server.open == 1
    lock.release()
    lock.release()
    assert server.open == 0


@pytest.mark.parametrize(
    ("row", "detail"),
    [
        (other(), "Session s9 of role bob, server process 41."),
        (other("", None), "Held by role unknown, server process 41."),
        (other("psql"), "Session psql of role bob, server process 41."),
        (other("pgdyno a\x07b"), "Held by role bob, server process 41."),
        (other(may=False), "Session s9 of role bob, server process 41."),  # a new session is kept out by anybody
    ],
)
def test_who_else_has_it_is_named(row: dict[str, object], detail: str) -> None:
    server = Server(row)
    for take in (AdvisoryLock.take, refuse_advisory):
        with pytest.raises(ServerInUse, match='another session on "db1" is open') as raised:
            take(cast(Any, server))
        assert raised.value.detail == detail
    assert server.open == 0


class Leaving(Server):
    """A server that lists a session that was closed for two looks."""

    def looks(self) -> int:
        return [query for query, _ in self.said].count(one_session._OTHERS)

    def connect(self) -> Any:
        self.open += 1
        return LeavingSession(self)


class LeavingSession(Session):
    server: Leaving

    def fetchone(self) -> dict[str, object]:
        return {"taken": self.server.looks() >= 2}

    def fetchall(self) -> list[dict[str, object]]:
        return super().fetchall() if self.server.looks() <= 2 else []


@pytest.mark.parametrize(
    "begin",
    [
        lambda server: AdvisoryLock.take(server).release(),
        refuse_advisory,
        lambda server: one_session._locked_for_restore(server, "s2").close(),
    ],
)
def test_a_session_that_was_closed_and_is_still_listed_keeps_nobody_out(
    monkeypatch: pytest.MonkeyPatch, begin: Callable[[Any], None]
) -> None:
    """The server ends it some milliseconds after its client: one session in two hundred was refused for that."""
    monkeypatch.setattr(one_session, "LEAVING_S", 60.0)
    server = Leaving(other())
    begin(server)
    assert (server.open, server.looks()) == (0, 3)
    taken = [query for query, _ in server.said].count(one_session._TAKE)
    assert taken == (0 if begin is refuse_advisory else 3), "it is taken when it has become free"


def test_a_holder_that_is_just_ending_is_waited_for_by_a_person() -> None:
    server = Server(taken=False)
    with pytest.raises(ServerInUse) as raised:
        AdvisoryLock.take(cast(Any, server))
    assert raised.value.detail == "Its holder is just ending."
    assert server.open == 0


@pytest.mark.parametrize(
    ("row", "is_refused"),
    [
        (other("pgdyno s1"), False),  # our dead session's own has not ended
        (other("pgdyno s2"), True),
        (other("pgdyno s2", may=False), False),  # who can have no session keeps no server from being put back
    ],
)
def test_a_restore_is_kept_out_by_other_sessions_alone(row: dict[str, object], is_refused: bool) -> None:
    server = Server(row)
    with pytest.raises(ServerInUse) if is_refused else contextlib.nullcontext():
        one_session._locked_for_restore(cast(Any, server), "s1").close()
    assert server.open == 0
    assert [query for query, _ in server.said] == [
        one_session._NAME, one_session._NO_TIMEOUT, one_session._TAKE, one_session._OTHERS,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "but", "is_refused"),
    [
        (HOLDER.to_bytes().decode(), "", True),
        (HOLDER.to_bytes().decode(), "s9", False),
        ("", "", False),
        (None, "", False),
        (EnvironmentUnsuitable("no right to read it"), "", False),
    ],
)
def test_a_file_out_of_reach_is_read_by_sql(text: object, but: str, is_refused: bool) -> None:
    with pytest.raises(ServerInUse) if is_refused else contextlib.nullcontext() as raised:
        one_session._refuse_file_through_sql(cast(Any, Server(text=text)), but)
    if is_refused:
        assert raised is not None
        assert raised.value.detail == "Session s9 of user alice on the server's host."


def target(server: Server, directory: Path | None) -> Any:
    return SimpleNamespace(postgres=server, directory=directory)


def found(directory: Path, *, files: bool) -> Any:
    return SimpleNamespace(data_directory=directory, dropin="drop-in" if files else None)


def test_files_have_the_lock_in_the_directory_and_look_for_the_other(tmp_path: Path) -> None:
    server = Server()
    held = OneSession.take(target(server, tmp_path), found(tmp_path, files=True), tmp_path)
    assert held.file is not None
    assert held.advisory is None
    held.renew()
    held.release()
    assert not (tmp_path / "pgdyno.lock").exists()
    with pytest.raises(ServerInUse):
        OneSession.take(target(Server(other()), tmp_path), found(tmp_path, files=True), tmp_path)
    assert not (tmp_path / "pgdyno.lock").exists(), "what was taken is given back"


@pytest.mark.parametrize("reach", ["writable", "read-only", "none"])
def test_by_sql_both_are_taken_where_the_directory_is_at_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reach: str
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: reach == "writable" and mode == os.W_OK | os.X_OK)
    at_hand = reach == "writable"
    server = Server(text="" if at_hand else HOLDER.to_bytes().decode())
    with contextlib.nullcontext() if at_hand else pytest.raises(ServerInUse):
        directory = None if reach == "none" else tmp_path
        held = OneSession.take(target(server, directory), found(Path("/elsewhere"), files=False), tmp_path)
        assert held.file is not None
        assert held.advisory is not None
        assert server.open == 1
        held.sign(cast(Any, SimpleNamespace(id="s1", directory=Path("/undo/s1"))))
        assert server.said[-1] == (one_session._NAME, ["pgdyno s1"])
        held.let_go()
        signed = look(tmp_path)
        assert signed is not None
        assert signed.session == "s1"
    assert server.open == 0


@pytest.mark.parametrize(("local", "own", "locks"), [(True, False, False), (False, True, False), (False, False, True)])
def test_a_restore_by_sql_takes_the_lock_unless_this_process_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, local: bool, own: bool, locks: bool
) -> None:
    @contextlib.contextmanager
    def nothing(_: object) -> Iterator[None]:
        yield

    monkeypatch.setattr(one_session.server_lock, "restoring", nothing)
    owner = ProcessIdentity.own() if own else HOLDER.process
    bundle: Any = SimpleNamespace(id="s1", manifest=SimpleNamespace(local=local, owner=owner))
    server = Server()
    with one_session.restoring(bundle, cast(Any, server)):
        assert server.open == locks
    assert server.open == 0

    def no_session() -> None:
        raise ConnectError("down")

    monkeypatch.setattr(server, "connect", no_session)
    with one_session.restoring(bundle, cast(Any, server)):
        pass


def test_one_that_holds_nothing_signs_and_gives_back_nothing() -> None:
    none = OneSession(None, None)
    none.sign(cast(Any, None))
    none.renew()
    none.let_go()
    none.release()


def test_who_only_looks_sees_a_file_and_the_lock_in_sql(tmp_path: Path) -> None:
    refuse_while_open(target(Server(), None), tmp_path)
    refuse_while_open(target(Server(), tmp_path), tmp_path)
    lock = ServerLock.take(tmp_path, is_over=lambda _: False)
    lock.sign(cast(Any, SimpleNamespace(id="s1", directory=tmp_path / "undo" / "s1")))
    with pytest.raises(ServerInUse, match="session s1 on"):
        refuse_while_open(target(Server(), tmp_path), tmp_path)
    lock.release()
    with pytest.raises(ServerInUse, match='another session on "db1"'):
        refuse_while_open(target(Server(other()), tmp_path), tmp_path)
