"""What the owner of a server can do with his own rights to whoever works on it as root.

A move is a context: it does harm on entry and takes it away on exit. What pgdyno has put in its place meanwhile stays.
Moves run in a process that has the owner's identity, and fail quietly where the kernel forbids them.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

DATA_FILES = (
    "postmaster.pid", "postmaster.opts", "pgdyno.reserve", "postgresql.auto.conf", "PG_VERSION", "pg_hba.conf",
    "global/pg_control", "current_logfiles", ".s.PGSQL.54329.lock", "backup_label", "standby.signal",
)  # fmt: skip
ETC_FILES = ("postgresql.conf", "pgdyno.conf", ".pgdyno.conf.pgdyno-tmp", ".postgresql.conf.pgdyno-tmp")
PROGRAMS = ("pg_ctl", "postgres", "psql", "pgbench", "pg_controldata", "pg_config", "initdb")
KEPT = ("pg_control", "PG_VERSION", "pg_hba.conf")
"""What no session and no server makes anew: without these the server would be lost, which is no attack on root."""
MOST_PENDING = 3
MOST_PROCESSES = 24
_HUGE = 1 << 30


@dataclass(frozen=True)
class Ground:
    """The owner's folders, and what is not his: the canaries of root's, and processes of root's that he can name.

    `log` takes what swapped programs say of who ran them.
    """

    home: Path
    build: Path
    canary: Path
    log: Path
    strangers: tuple[int, ...]

    @property
    def data(self) -> Path:
        """Return the data directory."""
        return self.home / "data"

    @property
    def etc(self) -> Path:
        """Return the configuration directory."""
        return self.home / "etc"


Move = Callable[[Ground, random.Random], AbstractContextManager[None]]


@contextmanager
def _instead(path: Path, plant: Callable[[Path], object]) -> Iterator[None]:
    """Rename what is there away, plant something else, and undo that unless somebody has replaced what was planted."""
    away = path.with_name(f"{path.name}.away-{os.urandom(4).hex()}")
    moved = planted = None
    try:
        with contextlib.suppress(OSError):
            path.rename(away)
            moved = away
        with contextlib.suppress(OSError):
            if moved is not None or not os.path.lexists(path):  # else it could not be moved, and stays what it is
                with contextlib.suppress(OSError):
                    plant(path)
                planted = path.lstat().st_ino
        yield
    finally:
        now = None
        with contextlib.suppress(OSError):
            now = path.lstat()
        # A session may have put a configuration or a pid file there; nobody but us replaces the rest.
        theirs = now is not None and now.st_ino != planted and stat.S_ISREG(now.st_mode) and path.name not in KEPT
        if now is not None and not theirs and (moved is not None or now.st_ino == planted):
            _destroy(path)
        if moved is not None and not theirs:
            with contextlib.suppress(OSError):
                moved.rename(path)
        elif moved is not None:
            _destroy(moved)


def _destroy(path: Path) -> None:
    with contextlib.suppress(OSError):
        if stat.S_ISDIR(path.lstat().st_mode):
            path.chmod(0o700)
            shutil.rmtree(path)
        else:
            path.unlink()


def _some_file(ground: Ground, draw: random.Random) -> Path:
    names = [ground.data / name for name in DATA_FILES] + [ground.etc / name for name in ETC_FILES] * 2
    return draw.choice([*names, ground.home / "log", ground.data / ".s.PGSQL.54329"])


def _some_folder(ground: Ground, draw: random.Random) -> Path:
    return draw.choice([ground.data, ground.etc, ground.etc, ground.build / "bin", ground.data / "global"])


def _some_target(ground: Ground, draw: random.Random, name: str, at: Path) -> str:
    """Return where a link leads: to root's files, in several spellings, or to what never ends."""
    canary = draw.choice([ground.canary / "closed" / name, ground.canary / "readable" / name, ground.canary / "closed"])
    return draw.choice(
        [
            str(canary),
            os.path.relpath(canary, at.parent),
            f"/proc/self/root{canary}",
            f"/proc/1/root{canary}",
            "/dev/zero",
            "/dev/full",
            "/proc/self/mem",
            "/nonexistent/place",
            str(at),
            "/etc/shadow",
        ]
    )


def link(ground: Ground, draw: random.Random) -> AbstractContextManager[None]:
    """Put a link where a file was."""
    path = _some_file(ground, draw)
    return _instead(path, lambda place: place.symlink_to(_some_target(ground, draw, path.name, place)))


def hard_link(ground: Ground, draw: random.Random) -> AbstractContextManager[None]:
    """Put another name of a file of root's there, which the kernel mostly forbids, or of an own one."""
    path = _some_file(ground, draw)
    real = draw.choice([ground.canary / "readable" / "postgresql.conf", ground.log, ground.home / "log"])
    return _instead(path, lambda place: place.hardlink_to(real))


def folder_link(ground: Ground, draw: random.Random) -> AbstractContextManager[None]:
    """Put a link to root's folder where a directory was."""
    path = _some_folder(ground, draw)
    return _instead(
        path, lambda place: place.symlink_to(draw.choice([str(ground.canary / "closed"), "/etc", "/proc/self"]))
    )


def folder_away(ground: Ground, draw: random.Random) -> AbstractContextManager[None]:
    """Rename a directory away."""
    return _instead(_some_folder(ground, draw), lambda _: None)


def folder_copy(ground: Ground, draw: random.Random) -> AbstractContextManager[None]:
    """Put another directory where one was, with the same names in it."""
    path = draw.choice([ground.etc, ground.data])
    names = ETC_FILES if path == ground.etc else DATA_FILES

    def plant(place: Path) -> None:
        place.mkdir()
        for name in names:
            if "/" not in name:
                (place / name).symlink_to(_some_target(ground, draw, name, place / name))

    return _instead(path, plant)


def odd_file(ground: Ground, draw: random.Random) -> AbstractContextManager[None]:
    """Put a pipe, a socket or a directory where a file was."""

    def bound(place: Path) -> None:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(place))

    plants: list[Callable[[Path], None]] = [os.mkfifo, Path.mkdir, bound]
    return _instead(_some_file(ground, draw), draw.choice(plants))


def huge_file(ground: Ground, draw: random.Random) -> AbstractContextManager[None]:
    """Put a file of a gigabyte there that takes no room."""

    def plant(place: Path) -> None:
        with place.open("wb") as file:
            file.truncate(_HUGE)

    return _instead(_some_file(ground, draw), plant)


def garbage(ground: Ground, draw: random.Random) -> AbstractContextManager[None]:
    """Put bytes there that mean harm to whoever believes them."""
    path = _some_file(ground, draw)
    evil = [
        b"\0\xff" * 100, b"include '/etc/shadow'\n" * 10, b"include_dir '.'\ninclude 'postgresql.conf'\n",
        b"9" * 5000 + b"\n", b"-1\n", b"0\n", b"\x1b]0;owned\x07\x1b[2J\n", b"[" * 100_000, b"a" * (10 << 20),
        f'/bin/sh "-c" "; rm -rf {ground.canary}; touch {ground.canary}/x" "$(touch {ground.canary}/y)"\n'.encode(),
        f"archive_command = 'id -u >> {ground.log}'\nshared_preload_libraries = '/tmp/evil'\n".encode(),
    ]  # fmt: skip
    return _instead(path, lambda place: place.write_bytes(draw.choice(evil)))


def stranger(ground: Ground, draw: random.Random) -> AbstractContextManager[None]:
    """Claim that a process of somebody else's is the postmaster."""
    pid = draw.choice([*ground.strangers, 1, os.getpid(), 2**31, 2**64])
    lines = [str(pid), str(ground.data), str(int(time.time())), "54329", str(ground.data), "", "ready   "]
    return _instead(ground.data / "postmaster.pid", lambda place: place.write_text("\n".join(lines) + "\n"))


@contextmanager
def fake_socket(ground: Ground, draw: random.Random) -> Iterator[None]:
    """Listen in the server's place: say nothing, talk nonsense without end, or hang up."""
    manner = draw.choice(["silent", "nonsense", "hang up", "long"])
    listener = socket.socket(socket.AF_UNIX)
    over = threading.Event()

    def serve() -> None:
        held = []
        while not over.is_set():
            with contextlib.suppress(OSError):
                peer, _ = listener.accept()
                peer.settimeout(0.2)
                held.append(peer)
                if manner == "nonsense":
                    for _ in range(20):
                        peer.send(draw.randbytes(4096))
                elif manner == "long":
                    peer.send(b"R\x7f\xff\xff\xff" + b"\0" * 4096)
                elif manner == "hang up":
                    held.pop().close()
        for peer in held:
            peer.close()

    thread = threading.Thread(target=serve)

    def plant(place: Path) -> None:
        listener.bind(str(place))
        listener.listen(8)
        listener.settimeout(0.1)
        thread.start()

    with _instead(ground.data / ".s.PGSQL.54329", plant):
        try:
            yield
        finally:
            over.set()
            if thread.ident is not None:
                thread.join()
            listener.close()


_PROGRAM = '#!/bin/sh\necho "$(id -u) $0 $*" >> {log}\n{rest}\n'


def program(ground: Ground, draw: random.Random) -> AbstractContextManager[None]:
    """Swap a program for one that says who ran it, and then fails, is slow, talks without end or ends its parent."""
    path = ground.build / "bin" / draw.choice(PROGRAMS)
    rest = draw.choice(
        [
            "exit 1", "sleep 5; exit 1", "kill -9 $PPID", "exec cat /dev/urandom | head -c 10000000", "exit 0",
            f"id -u > {ground.canary}/z; cat {ground.canary}/closed/postgresql.conf",
        ]
    )  # fmt: skip

    def plant(place: Path) -> None:
        if draw.random() < 0.2:
            place.symlink_to(draw.choice(["/bin/sh", "/usr/bin/env", str(ground.canary / "closed" / "pg_ctl")]))
            return
        place.write_text(_PROGRAM.format(log=ground.log, rest=rest))
        place.chmod(draw.choice([0o755, 0o6777]))

    return _instead(path, plant)


@contextmanager
def mode(ground: Ground, draw: random.Random) -> Iterator[None]:
    """Take all rights away from a file or a directory, or give them to all."""
    path = draw.choice([_some_file, _some_folder])(ground, draw)
    before = None
    with contextlib.suppress(OSError):
        if not path.is_symlink():
            before = stat.S_IMODE(path.stat().st_mode)
            path.chmod(draw.choice([0, 0o6777, 0o7777, 0o111]))
    try:
        yield
    finally:
        if before is not None:
            with contextlib.suppress(OSError):
                path.chmod(before)


@contextmanager
def no_reserve(ground: Ground, _draw: random.Random) -> Iterator[None]:
    """Delete what is reserved for the way back."""
    _destroy(ground.data / "pgdyno.reserve")
    yield


def _workers() -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid in (0, os.getuid()):
                owned = f"Uid:\t{os.getuid()}\t" in (entry / "status").read_text()
                if owned and b"pgdyno.target.owner" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


@contextmanager
def worker_killed(_ground: Ground, _draw: random.Random) -> Iterator[None]:
    """End the process that works for root with the owner's rights: it is one of his."""
    for pid in _workers():
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    yield


@contextmanager
def worker_stopped(_ground: Ground, _draw: random.Random) -> Iterator[None]:
    """Stop it, and let it go on later."""
    stopped = _workers()
    for pid in stopped:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in stopped:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGCONT)


@contextmanager
def crowd(ground: Ground, _draw: random.Random) -> Iterator[None]:
    """Run many processes that look like the server's: named postgres, at work in the data directory."""
    idle: list[subprocess.Popen[bytes]] = []
    try:
        with contextlib.suppress(OSError):
            for _ in range(MOST_PROCESSES):
                idle.append(subprocess.Popen(["postgres", "20"], executable="/bin/sleep", cwd=ground.data))
        yield
    finally:
        for process in idle:
            process.kill()
            process.wait()


@contextmanager
def server_ended(ground: Ground, draw: random.Random) -> Iterator[None]:
    """End the server, one way or another but a clean shutdown: that one is the owner's wish, and is left so."""
    with contextlib.suppress(OSError, ValueError):
        pid = int((ground.data / "postmaster.pid").read_text().split()[0])
        if (Path("/proc") / str(pid) / "cwd").samefile(ground.data):
            os.kill(pid, draw.choice([signal.SIGKILL, signal.SIGQUIT, signal.SIGHUP, signal.SIGHUP]))
    yield


MOVES: dict[str, tuple[Move, int]] = {
    "link": (link, 8),
    "hard link": (hard_link, 3),
    "folder replaced by a link": (folder_link, 5),
    "folder away": (folder_away, 3),
    "folder replaced by another": (folder_copy, 4),
    "pipe, socket or folder for a file": (odd_file, 5),
    "1 GB file": (huge_file, 4),
    "garbage": (garbage, 6),
    "somebody else's pid": (stranger, 4),
    "fake socket": (fake_socket, 2),
    "swapped program": (program, 6),
    "mode": (mode, 4),
    "reserve deleted": (no_reserve, 2),
    "worker killed": (worker_killed, 3),
    "worker stopped": (worker_stopped, 2),
    "crowd": (crowd, 1),
    "server ended": (server_ended, 1),
}
"""Each with its share."""


def run(ground: Ground, count: int, seed: int, start: Callable[[], object], pause_s: float) -> Counter[str]:
    """Make so many moves, a few pending at a time; now and then all is put right and the server started."""
    draw, done = random.Random(seed), Counter[str]()
    names = list(MOVES)
    while sum(done.values()) < count:
        if draw.random() < 0.5:
            _await_session(ground, 15 * pause_s)
        with contextlib.ExitStack() as stack:
            for name in draw.choices(names, [MOVES[name][1] for name in names], k=draw.randint(1, MOST_PENDING)):
                with contextlib.suppress(OSError):
                    stack.enter_context(MOVES[name][0](ground, draw))
                done[name] += 1
                time.sleep(draw.uniform(0, pause_s))
        if draw.random() < 0.4:
            start()
            time.sleep(draw.uniform(0, 20 * pause_s))
    start()
    return done


def _await_session(ground: Ground, longest_s: float) -> None:
    """Wait a while for a session to be at work: the owner sees what it puts into his folders."""
    deadline = time.monotonic() + longest_s
    while time.monotonic() < deadline and not (ground.etc / "pgdyno.conf").exists():
        time.sleep(0.01)


def names(ground: Ground) -> frozenset[Path]:
    """Return what is in the folders that moves change, when all is right."""
    folders = (ground.home, ground.etc, ground.data, ground.data / "global")
    return frozenset(path for folder in folders if folder.is_dir() for path in folder.iterdir())


def tidy(ground: Ground, right: frozenset[Path]) -> None:
    """Take away what two parties who renamed at the same time have left: links, pipes and names of ours."""
    for path in names(ground) - right:
        original = path.with_name(path.name.partition(".away-")[0])
        if original != path and original in right and not os.path.lexists(original):
            path.rename(original)
        elif original != path or not stat.S_ISREG(path.lstat().st_mode):
            _destroy(path)
