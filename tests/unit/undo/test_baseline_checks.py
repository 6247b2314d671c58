"""Whether a session may begin: edits that wait, files of another machine or session, places that are read-only."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.configuration import Configuration
from pgdyno.routes.dropin import render
from pgdyno.undo import baseline
from pgdyno.undo.baseline import Baseline, check_no_leftover


@pytest.mark.parametrize(
    ("text", "session"),
    [
        (b"", None),
        (b"work_mem = '1MB'\n", None),
        (render(Configuration.of({"work_mem": "1MB"}), session="20260101T000000Z-a"), "20260101T000000Z-a"),
        (None, None),  # settings do not go through files
    ],
)
def test_a_file_of_a_session_that_is_not_ours_is_named(text: bytes | None, session: str | None) -> None:
    dropin = None if text is None else SimpleNamespace(path=Path("/data/pgdyno.conf"), read=lambda: text)
    found = Baseline("", Path("/data"), cast(Any, dropin), {}, None)
    refused = pytest.raises(EnvironmentUnsuitable, match=f"is left over from session {session}")
    with contextlib.nullcontext() if session is None else refused:
        check_no_leftover(found)


@pytest.mark.parametrize(
    ("postmaster", "parent", "is_here"), [(7, 7, True), (7, 8, False), (None, 7, False), (7, None, False)]
)
def test_the_files_are_here_where_our_session_is_a_child_of_their_server(
    monkeypatch: pytest.MonkeyPatch, postmaster: int | None, parent: int | None, is_here: bool
) -> None:
    stat = None if parent is None else SimpleNamespace(parent=parent)
    monkeypatch.setattr(baseline.postmaster_lock, "postmaster_pid", lambda _: postmaster)
    monkeypatch.setattr(baseline.processes, "read_stat", lambda _: stat)
    refused = pytest.raises(EnvironmentUnsuitable, match='the files of "db1" are not on this machine')
    with contextlib.nullcontext() if is_here else refused:
        baseline._check_local(41, Path("/data"), "db1")


def test_what_waits_is_told_up_to_five(monkeypatch: pytest.MonkeyPatch) -> None:
    unread: list[str] = []
    monkeypatch.setattr(baseline, "read_files", lambda _: SimpleNamespace(unread=lambda: unread))
    target: Any = SimpleNamespace(postgres=SimpleNamespace(label="db1"))
    calm, waits = (cast(Any, SimpleNamespace(pending_restart=wait)) for wait in (False, True))
    baseline._check_read(target, {"work_mem": calm})
    with pytest.raises(EnvironmentUnsuitable, match="changes in its files that are not in force") as raised:
        baseline._check_read(target, {"work_mem": calm, "port": waits})
    assert raised.value.detail == "port waits for a restart"
    unread += [f"line {number}" for number in range(1, 9)]
    with pytest.raises(EnvironmentUnsuitable) as raised:
        baseline._check_read(target, {"port": waits})
    assert raised.value.detail == "\n".join(["port waits for a restart", *unread[:4]])


@pytest.mark.parametrize(
    ("included", "writable", "refused"),
    [
        (True, {"/conf"}, None),
        (False, {"/conf", "/real"}, None),
        (False, {"/conf"}, "/real"),  # our line has to go into the main file
        (True, set(), "/conf"),
        (None, {"/conf"}, "/conf/postgresql.conf"),
    ],
)
def test_what_has_to_be_written_is_looked_at(included: bool | None, writable: set[str], refused: str | None) -> None:
    def is_included() -> bool:
        if included is None:
            raise OSError(13, "Permission denied")
        return included

    dropin: Any = SimpleNamespace(
        path=Path("/conf/pgdyno.conf"), main=Path("/conf/postgresql.conf"), main_real=Path("/real/postgresql.conf"),
        is_included=is_included, hands=SimpleNamespace(may_write=lambda place: str(place) in writable),
    )  # fmt: skip
    expected = pytest.raises(EnvironmentUnsuitable, match=f'the configuration in "{refused}" cannot be changed')
    with contextlib.nullcontext() if refused is None else expected:
        baseline._check_writable(dropin)


def test_a_connection_is_told_by_what_was_given_and_never_by_a_secret() -> None:
    def option(keyword: str, val: str | None, compiled: str | None) -> SimpleNamespace:
        encoded = [None if text is None else text.encode() for text in (val, compiled)]
        return SimpleNamespace(keyword=keyword.encode(), val=encoded[0], compiled=encoded[1])

    info = [option("host", "db1", None), option("port", "5432", "5432"), option("user", None, "x"),
            option("password", "sesame", None), option("service", "shop", None)]  # fmt: skip
    connection: Any = SimpleNamespace(pgconn=SimpleNamespace(info=info))
    assert baseline._conninfo(connection) == "host=db1"
