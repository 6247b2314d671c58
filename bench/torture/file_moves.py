"""Moves on files and folders: links, other folders, pipes, gigabytes, garbage, and what a mode forbids or allows."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from ground import DATA_FILES, ETC_FILES, Ground, destroy, instead, some_file, some_folder, some_target

_HUGE = 1 << 30


def link(ground: Ground, draw: random.Random) -> AbstractContextManager[None]:
    """Put a link where a file was."""
    path = some_file(ground, draw)
    return instead(path, lambda place: place.symlink_to(some_target(ground, draw, path.name, place)))


def hard_link(ground: Ground, draw: random.Random) -> AbstractContextManager[None]:
    """Put another name of a file of root's there, which the kernel mostly forbids, or of an own one."""
    path = some_file(ground, draw)
    real = draw.choice([ground.canary / "readable" / "postgresql.conf", ground.log, ground.home / "log"])
    return instead(path, lambda place: place.hardlink_to(real))


def folder_link(ground: Ground, draw: random.Random) -> AbstractContextManager[None]:
    """Put a link to root's folder where a directory was."""
    path = some_folder(ground, draw)
    return instead(
        path, lambda place: place.symlink_to(draw.choice([str(ground.canary / "closed"), "/etc", "/proc/self"]))
    )


def folder_away(ground: Ground, draw: random.Random) -> AbstractContextManager[None]:
    """Rename a directory away."""
    return instead(some_folder(ground, draw), lambda _: None)


def folder_copy(ground: Ground, draw: random.Random) -> AbstractContextManager[None]:
    """Put another directory where one was, with the same names in it."""
    path = draw.choice([ground.etc, ground.data])
    names = ETC_FILES if path == ground.etc else DATA_FILES

    def plant(place: Path) -> None:
        place.mkdir()
        for name in names:
            if "/" not in name:
                (place / name).symlink_to(some_target(ground, draw, name, place / name))

    return instead(path, plant)


def odd_file(ground: Ground, draw: random.Random) -> AbstractContextManager[None]:
    """Put a pipe, a socket or a directory where a file was."""

    def bound(place: Path) -> None:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(place))

    plants: list[Callable[[Path], None]] = [os.mkfifo, Path.mkdir, bound]
    return instead(some_file(ground, draw), draw.choice(plants))


def huge_file(ground: Ground, draw: random.Random) -> AbstractContextManager[None]:
    """Put a file of a gigabyte there that takes no room."""

    def plant(place: Path) -> None:
        with place.open("wb") as file:
            file.truncate(_HUGE)

    return instead(some_file(ground, draw), plant)


def garbage(ground: Ground, draw: random.Random) -> AbstractContextManager[None]:
    """Put bytes there that mean harm to whoever believes them."""
    path = some_file(ground, draw)
    evil = [
        b"\0\xff" * 100, b"include '/etc/shadow'\n" * 10, b"include_dir '.'\ninclude 'postgresql.conf'\n",
        b"9" * 5000 + b"\n", b"-1\n", b"0\n", b"\x1b]0;owned\x07\x1b[2J\n", b"[" * 100_000, b"a" * (10 << 20),
        f'/bin/sh "-c" "; rm -rf {ground.canary}; touch {ground.canary}/x" "$(touch {ground.canary}/y)"\n'.encode(),
        f"archive_command = 'id -u >> {ground.log}'\nshared_preload_libraries = '/tmp/evil'\n".encode(),
    ]  # fmt: skip

    def plant(place: Path) -> None:
        draft = place.with_name(f"{place.name}.away-draft")  # whole at once, as an editor saves
        draft.write_bytes(draw.choice(evil))
        draft.rename(place)

    return instead(path, plant)


def stranger(ground: Ground, draw: random.Random) -> AbstractContextManager[None]:
    """Claim that a process of somebody else's is the postmaster."""
    pid = draw.choice([*ground.strangers, 1, os.getpid(), 2**31, 2**64])
    lines = [str(pid), str(ground.data), str(int(time.time())), "54329", str(ground.data), "", "ready   "]
    return instead(ground.data / "postmaster.pid", lambda place: place.write_text("\n".join(lines) + "\n"))


@contextmanager
def mode(ground: Ground, draw: random.Random) -> Iterator[None]:
    """Take all rights away from a file or a directory, or give them to all."""
    path = draw.choice([some_file, some_folder])(ground, draw)
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
    destroy(ground.data / "pgdyno.reserve")
    yield
