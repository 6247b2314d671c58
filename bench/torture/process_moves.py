"""Moves on what runs: sockets and programs that are not what they seem, and processes that are ended or stopped."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from bounded import head
from ground import PROGRAMS, Ground, instead

MOST_PROCESSES = 24
_PROGRAM = '#!/bin/sh\necho "$(id -u) $0 $*" >> {log}\n{rest}\n'


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

    with instead(ground.data / ".s.PGSQL.54329", plant):
        try:
            yield
        finally:
            over.set()
            if thread.ident is not None:
                thread.join()
            listener.close()


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

    return instead(path, plant)


def _workers() -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid in (0, os.getuid()):
                owned = f"Uid:\t{os.getuid()}\t" in (entry / "status").read_text()
                if owned and b"pgdyno.owner" in (entry / "cmdline").read_bytes():
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
    with contextlib.suppress(OSError, ValueError, IndexError):
        pid = int(head(ground.data / "postmaster.pid").split()[0])
        if (Path("/proc") / str(pid) / "cwd").samefile(ground.data):
            os.kill(pid, draw.choice([signal.SIGKILL, signal.SIGQUIT, signal.SIGHUP, signal.SIGHUP]))
    yield
