"""What people do to a server while it is tuned: they edit, stop, move, tune themselves; theirs stays, ours goes.

Each scene plays itself: it begins a session in a process of its own, interferes, ends the process with SIGKILL, waits
for the watchdog, and returns how long that took and what is not as it has to be.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo
from stage import CONFIGURATION, WATCH, Stage, await_closed, hold
from state import State, connect, postmaster_of, state_of
from tuner_process import await_down, newest, tuner_of

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.sandbox.cluster import DROP_IN
from pgdyno.undo import watch_record
from pgdyno.undo.apply import Session
from pgdyno.undo.bundle import DATA_RESERVE
from pgdyno.undo.rollback import describe

Played = tuple[float | None, list[str]]
THEIRS = "log_min_duration_statement"
"""A setting that a person changes and no trial does."""
AWAY_S = 8.0
STAYS_DOWN_S = 4.0
_SETTLED_S = 10.0


@contextmanager
def as_found(stage: Stage, *, named: bool = True) -> Iterator[State]:
    """Yield the state before; afterwards make server and files what they were, whatever was played.

    Without `named` the main file does not name our drop-in, as on a server that is no sandbox of ours.
    """
    names = ("postgresql.conf", "postgresql.auto.conf", "pg_hba.conf")
    original = {name: (stage.data / name).read_bytes() for name in names}
    main = stage.data / "postgresql.conf"
    try:
        if not named:
            main.write_bytes(re.sub(rb"include_if_exists = 'pgdyno.conf'\n", b"", main.read_bytes()))
            stage.sandbox.target().postgres.fetch("SELECT pg_reload_conf()")
        yield state_of(stage.data, stage.data.parent)
    finally:
        for name, data in original.items():
            (stage.data / name).write_bytes(data)
        for name in (DROP_IN, DATA_RESERVE):
            (stage.data / name).unlink(missing_ok=True)
        if stage.sandbox.is_running():
            stage.sandbox.stop()
        stage.sandbox.start()


def _differences(stage: Stage, before: State, *but: str) -> list[str]:
    """Return what is different, except for what a person did."""
    found = before.differences(state_of(stage.data, stage.data.parent))
    return [line for line in found if not line.startswith(but)]


def _setting(stage: Stage, name: str) -> str:
    with connect(stage.data.parent) as connection:
        row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
    return str(row[0]) if row else ""


def _kill(stage: Stage, undo_root: Path, tuner: subprocess.Popen[str], meanwhile: Callable[[], None]) -> float | None:
    """End the tuner, or ask it to end in one of three rounds; return how long the restore took."""
    if stage.draw.random() < 1 / 3:
        tuner.terminate()
    else:
        tuner.kill()
    began = time.monotonic()
    meanwhile()
    return await_closed(undo_root, began)


def _nothing() -> None:
    """Let time pass."""


def main_file_edited(stage: Stage, undo_root: Path) -> Played:
    """Append a line to the file that our own line was put into: it survives to the byte, and ours goes."""
    main, line = stage.data / "postgresql.conf", f"\n# by hand\n{THEIRS} = 12345\n".encode()
    with as_found(stage, named=False) as before, hold(stage, undo_root) as tuner:
        was_ours = b"pgdyno.conf" in main.read_bytes()
        with main.open("ab") as file:
            file.write(line)
        seconds = _kill(stage, undo_root, tuner, _nothing)
        lost = _differences(stage, before, "file postgresql.conf", f"setting {THEIRS}")
        now = main.read_bytes()
        if not now.endswith(line):
            lost.append(f"the line of a person is gone from {main.name}")
        if b"pgdyno.conf" in now.removesuffix(line):
            lost.append(f"our line is still in {main.name}")
        if not was_ours:
            lost.append("the suite itself: the session put no line into the main file")
        return seconds, lost


def drop_in_edited(stage: Stage, undo_root: Path) -> Played:
    """Append a line to our own file: it stays, and what we wrote into it goes."""
    ours = stage.data / DROP_IN
    with as_found(stage) as before, hold(stage, undo_root) as tuner:
        with ours.open("a") as file:
            file.write(f"{THEIRS} = 23456\n")
        seconds = _kill(stage, undo_root, tuner, _nothing)
        lost = _differences(stage, before, f"file {DROP_IN}", f"setting {THEIRS}")
        text = ours.read_text() if ours.exists() else ""
        if f"{THEIRS} = 23456" not in text:
            lost.append(f"the line of a person is gone from {DROP_IN}")
        if any(name in text for name in CONFIGURATION):
            lost.append(f"lines of ours are still in {DROP_IN}")
        return seconds, lost


def server_stopped(stage: Stage, undo_root: Path) -> Played:
    """Shut the server down cleanly: it stays down, its files are back, and somebody says so."""
    with as_found(stage) as before, hold(stage, undo_root) as tuner:
        os.kill(stage.postmaster(), signal.SIGINT)
        _await(lambda: not (stage.data / "postmaster.pid").exists())
        seconds = _kill(stage, undo_root, tuner, _nothing)
        lost = []
        deadline = time.monotonic() + STAYS_DOWN_S
        while time.monotonic() < deadline:
            if postmaster_of(stage.data) is not None:
                lost.append("the server that a person stopped was started")
                break
            time.sleep(0.05)
        bundle = newest(undo_root)
        said = f"{watch_record.last_words(bundle.directory)} {describe(bundle.directory).closed_by}"
        if not re.search(r"down|stopped|shut", said):
            lost.append(f"nobody says that the server was left down: {said}")
        if (stage.data / DROP_IN).exists():
            lost.append("our file is still there")
        stage.sandbox.start()
        return seconds, lost + _differences(stage, before)


def killed_in_our_restart(stage: Stage, undo_root: Path) -> Played:
    """End the tuner between its stop and its start: this stop is ours, so the server is started."""
    with as_found(stage) as before:
        with tuner_of(stage.sandbox, undo_root, watch=WATCH, configurations=[CONFIGURATION, {}]) as tuner:
            await_down(stage.sandbox, tuner)
            tuner.kill()
            seconds = await_closed(undo_root, time.monotonic())
        if postmaster_of(stage.data) is None:
            return seconds, ["the server that we stopped was not started"]
        return seconds, _differences(stage, before)


def data_away(stage: Stage, undo_root: Path) -> Played:
    """Rename the data directory away for some seconds, as a mount that is lost, while the watchdog is to restore."""
    away = stage.data.with_name("away")

    def gone() -> None:
        time.sleep(AWAY_S)
        away.rename(stage.data)

    with as_found(stage) as before, hold(stage, undo_root) as tuner:
        stage.data.rename(away)
        seconds = _kill(stage, undo_root, tuner, gone)
        return seconds, _differences(stage, before)


def folder_is_a_link(stage: Stage, undo_root: Path) -> Played:
    """Put a link to a folder of root's where the data directory was, as a hostile owner does, for some seconds."""
    away, root_only = stage.data.with_name("away"), stage.disk / "root only"
    root_only.mkdir(mode=0o700)
    for name in (DROP_IN, "postgresql.conf", "pgdyno.reserve", "postmaster.pid"):
        (root_only / name).write_text("of root's alone\n")
    picture = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in root_only.iterdir()}

    def linked() -> None:
        time.sleep(AWAY_S / 2)
        stage.data.unlink()
        away.rename(stage.data)

    try:
        with as_found(stage) as before, hold(stage, undo_root) as tuner:
            owner = stage.data.stat()
            stage.data.rename(away)
            stage.data.symlink_to(root_only)
            os.lchown(stage.data, owner.st_uid, owner.st_gid)
            seconds = _kill(stage, undo_root, tuner, linked)
            lost = _differences(stage, before)
            if picture != {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in root_only.iterdir()}:
                lost.append("a folder of root's was changed through a link of the owner's")
            return seconds, lost
    finally:
        shutil.rmtree(root_only)


def password_in_dsn(stage: Stage, undo_root: Path) -> Played:
    """Tune by TCP with a password that is in the connection string alone: a watchdog has to do without it."""
    stage.sandbox.open_loopback()
    try:
        parameters = stage.sandbox.target().postgres.parameters
        password = Path(parameters["passfile"]).read_text().strip().split(":")[-1]
        dsn = make_conninfo("", host="127.0.0.1", port=parameters["port"], user="postgres", dbname="postgres")
        before = state_of(stage.data, stage.data.parent)
        with hold(stage, undo_root, conninfo=make_conninfo(dsn, password=password)) as tuner:
            kept = [path for path in undo_root.rglob("*") if path.is_file() and password.encode() in path.read_bytes()]
            tuner.kill()
            seconds = await_closed(undo_root, time.monotonic())
            lost = _differences(stage, before)
            return seconds, lost + [f"the password is in {path}" for path in kept]
    finally:
        stage.sandbox.close()
        stage.reopen()


def two_tuners(stage: Stage, undo_root: Path) -> Played:
    """Let the server's owner begin a session too, with a state folder of his own: he is refused."""
    with as_found(stage) as before, hold(stage, undo_root) as first:
        second = stage.disk / "second"
        second.mkdir()
        shutil.chown(second, stage.data.owner(), stage.data.group())
        try:
            told = _begin_as_owner(stage, second / "undo")
        finally:
            shutil.rmtree(second)
        lost = [] if told.startswith("refused") else [f"a second tuner: {told}"]
        first.kill()
        seconds = await_closed(undo_root, time.monotonic())
        return seconds, lost + _differences(stage, before)


def _begin_as_owner(stage: Stage, undo_root: Path) -> str:
    """Begin a session with the owner's rights, in a copy of this process: he may not be able to run our interpreter."""
    target, account = stage.sandbox.target(), stage.data.stat()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        told = "nothing"
        try:
            os.setgroups([])
            os.setresgid(*(account.st_gid,) * 3)
            os.setresuid(*(account.st_uid,) * 3)
            with Session.begin(target, study="second", undo_root=undo_root):
                told = "let in"
        except EnvironmentUnsuitable as error:
            told = f"refused: {error.message}"
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        finally:
            os.write(writing, told.encode()[:4000])
            os._exit(0)
    os.close(writing)
    os.waitpid(pid, 0)
    with os.fdopen(reading) as answer:
        return answer.read()


def altered_before(stage: Stage, undo_root: Path) -> Played:
    """Set a knob by ALTER SYSTEM before a session that tunes it: the trial is in force, and the order comes back."""
    with as_found(stage):
        stage.sandbox.target().postgres.execute("ALTER SYSTEM SET work_mem = '7MB'")
        stage.sandbox.target().postgres.fetch("SELECT pg_reload_conf()")
        _await(lambda: _setting(stage, "work_mem") == "7MB")
        before = state_of(stage.data, stage.data.parent)
        with hold(stage, undo_root) as tuner:
            lost = []
            if _setting(stage, "work_mem") != CONFIGURATION["work_mem"]:
                lost.append("the configuration is called in force and is not")
            tuner.kill()
            seconds = await_closed(undo_root, time.monotonic())
            return seconds, lost + _differences(stage, before)


def altered_in_between(stage: Stage, undo_root: Path) -> Played:
    """Set another knob by ALTER SYSTEM in mid-session: it stays."""
    with as_found(stage) as before, hold(stage, undo_root) as tuner:
        stage.sandbox.target().postgres.execute(f"ALTER SYSTEM SET {THEIRS} = 777")
        stage.sandbox.target().postgres.fetch("SELECT pg_reload_conf()")
        seconds = _kill(stage, undo_root, tuner, _nothing)
        lost = _differences(stage, before, "file postgresql.auto.conf", f"setting {THEIRS}")
        if _setting(stage, THEIRS) != "777ms":
            lost.append("what a person set by ALTER SYSTEM is gone")
        return seconds, lost


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SETTLED_S
    while time.monotonic() < deadline:
        with contextlib.suppress(psycopg.Error):
            if condition():
                return
        time.sleep(0.05)
    raise RuntimeError("the stage of a scene cannot be set")


PEOPLE: dict[str, Callable[[Stage, Path], Played]] = {
    "main file edited": main_file_edited,
    "drop-in edited": drop_in_edited,
    "server stopped": server_stopped,
    "killed in our restart": killed_in_our_restart,
    "data directory away": data_away,
    "folder is a link": folder_is_a_link,
    "password in the DSN": password_in_dsn,
    "two tuners": two_tuners,
    "ALTER SYSTEM before": altered_before,
    "ALTER SYSTEM in between": altered_in_between,
}
