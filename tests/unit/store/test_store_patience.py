"""A store that another process has locked: waited for as long as was asked, said once, and never in a hurry."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import event

import study_example as example
from pgdyno.errors import StoreError
from pgdyno.store import engine
from pgdyno.store.catalogue import Store
from pgdyno.store.faults import holder_text, parse_locks

_LOCKER = (
    "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
    "c.execute('PRAGMA locking_mode = ' + sys.argv[2]); c.execute('BEGIN EXCLUSIVE'); "
    "print('held', flush=True); input()"
)


def test_a_row_of_the_board_sets_its_session_once(tmp_path: Path) -> None:
    said: list[str] = []
    with Store.open(tmp_path / "s.db") as store:
        event.listen(store._engine, "before_cursor_execute", lambda *what: said.append(what[2]))
        for fleeting in (True, True, False, False, True):
            with store.write(fleeting=fleeting) as connection:
                mode = connection.exec_driver_sql("PRAGMA synchronous").scalar()
            assert mode == (1 if fleeting else 2), "NORMAL, FULL"
    assert [one for one in said if "synchronous =" in one] == [
        f"PRAGMA synchronous = {mode}" for mode in ("NORMAL", "FULL", "NORMAL")
    ]


@contextmanager
def locked(path: Path, mode: str = "NORMAL") -> Iterator[subprocess.Popen[str]]:
    """Hold the file by another process until the block ends."""
    command = [sys.executable, "-c", _LOCKER, str(path), mode]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as locker:
        assert locker.stdout is not None
        assert locker.stdout.readline() == "held\n"
        yield locker
        locker.kill()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


def test_a_patient_store_waits_past_its_usual_time_and_says_so_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "TELL_AFTER_S", 0.2)
    said: list[str] = []
    with Store.open(path, busy_timeout_s=0.1) as store:
        with locked(path) as locker:
            with pytest.raises(StoreError, match="locked by another program") as refused:
                store.add_study(example.make_study())
            assert refused.value.detail == f"process {locker.pid} ({comm(locker.pid)}) holds it"
            store.be_patient(60, said.append)
            threading.Timer(1.5, locker.kill).start()
            store.add_study(example.make_study())
        assert len(said) == 1
        assert f"is locked by process {locker.pid}" in said[0]
        assert "up to 60 s" in said[0]
        assert store.studies() == [example.make_study()]


def test_who_is_in_a_hurry_waits_a_moment_at_most(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "HURRY_S", 0.2)
    with Store.open(path) as store, locked(path):
        store.be_patient(3600, lambda _: None)
        store.hurry()
        began = time.monotonic()
        with pytest.raises(StoreError, match="locked"):
            store.add_study(example.make_study())
        assert time.monotonic() - began < 60


def test_what_is_fleeting_is_not_waited_for_with_patience(path: Path) -> None:
    with Store.open(path, busy_timeout_s=0.1) as store, locked(path):
        store.be_patient(3600, lambda _: None)
        with pytest.raises(StoreError, match="locked"), store.write(fleeting=True):
            pass


def test_readers_are_told_who_holds_a_file_that_cannot_be_read(path: Path) -> None:
    Store.open(path).close()
    with locked(path, "EXCLUSIVE") as locker, pytest.raises(StoreError, match="locked by another program") as refused:
        Store.open(path, busy_timeout_s=0.1)
    assert str(locker.pid) in str(refused.value.detail)


def test_readers_do_not_wait_for_a_writer(path: Path) -> None:
    with Store.open(path, busy_timeout_s=0.1) as store, locked(path):
        assert store.studies() == []


def test_nobody_is_named_where_nobody_holds_it(path: Path) -> None:
    with Store.open(path), closing(sqlite3.connect(path)):
        assert holder_text(str(path)) is None
    assert holder_text("in memory") is None
    assert holder_text("postgresql+psycopg://u@h/db") is None


def test_locks_of_the_kernel() -> None:
    text = (
        "1: POSIX  ADVISORY  WRITE 3568 fd:00:2531452 120 120\n"
        "1: -> POSIX  ADVISORY  WRITE 99 fd:00:2531452 120 120\n"
        "2: POSIX  ADVISORY  READ 3569 fd:00:2531452 123 123\n"
        "3: FLOCK  ADVISORY  WRITE 0 00:19:7 0 EOF\n"
        "4: OFDLCK ADVISORY  WRITE -1 00:19:8 0 EOF\n"
    )
    assert parse_locks(text) == [(3568, 2531452)]


@given(st.text())
def test_whatever_the_kernel_lists_is_read(text: str) -> None:
    assert all(pid > 0 for pid, _ in parse_locks(text))


def comm(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()
