"""The folders of a hostile owner: what is in them, what they were, and how they become that again."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bounded import head

DATA_FILES = (
    "postmaster.pid", "postmaster.opts", "pgdyno.reserve", "postgresql.auto.conf", "PG_VERSION", "pg_hba.conf",
    "global/pg_control", "current_logfiles", ".s.PGSQL.54329.lock", "backup_label", "standby.signal",
)  # fmt: skip
ETC_FILES = ("postgresql.conf", "pgdyno.conf", ".pgdyno.conf.pgdyno-tmp", ".postgresql.conf.pgdyno-tmp")
PROGRAMS = ("pg_ctl", "postgres", "psql", "pgbench", "pg_controldata", "pg_config", "initdb")
KEPT = ("pg_control", "PG_VERSION", "pg_hba.conf")
"""What no session and no server makes anew: without these the server would be lost, which is no attack on root."""
MAIN = "postgresql.conf"
MAIN_HEAD = b"# the last line has no newline\n"
"""How the server's main file begins: a session puts its line behind what it finds there, garbage as well."""
OURS = b"# pgdyno session "
INCLUDE = (
    b"\n# Added by pgdyno for a session; `pgdyno rollback` takes it away again.\ninclude_if_exists 'pgdyno.conf'\n"
)
_BLOCK = re.compile(rb"^" + OURS + rb".*?^# end of pgdyno session .*?$", re.DOTALL | re.MULTILINE)
"""The lines that a session writes into a file of its own."""


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


@contextmanager
def instead(path: Path, plant: Callable[[Path], object]) -> Iterator[None]:
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
        theirs = now is not None and now.st_ino != planted and stat.S_ISREG(now.st_mode) and not _is_missed(path)
        if now is not None and not theirs and (moved is not None or now.st_ino == planted):
            destroy(path)
        if moved is not None and not theirs:
            if path.name == MAIN and not os.path.lexists(path.with_name("pgdyno.conf")):
                with contextlib.suppress(OSError):
                    _take_include_away(moved)
            with contextlib.suppress(OSError):
                moved.rename(path)
        elif moved is not None:
            destroy(moved)


def _take_include_away(copy: Path) -> None:
    """Take pgdyno's lines out of a copy that was moved away during a session which has ended meanwhile.

    It ended well: its lines were not in the file that it found. The copy would bring them back for good.
    """
    words = head(copy)
    if INCLUDE in words:
        copy.write_bytes(words.replace(INCLUDE, b""))


def _is_missed(path: Path) -> bool:
    """Tell whether what is there now cannot stand in for the owner's own file."""
    with contextlib.suppress(OSError):
        return path.name in KEPT or (path.name == MAIN and not head(path).startswith(MAIN_HEAD))
    return True


def destroy(path: Path) -> None:
    """Remove whatever is there, also folders that nobody may enter."""
    with contextlib.suppress(OSError):
        if stat.S_ISDIR(path.lstat().st_mode):
            _let_in(path)
            shutil.rmtree(path)
        else:
            path.unlink()


def _let_in(folder: Path) -> None:
    folder.chmod(0o700)
    for path in folder.iterdir():
        if stat.S_ISDIR(path.lstat().st_mode):
            _let_in(path)


def some_file(ground: Ground, draw: random.Random) -> Path:
    """Draw a file of the server's, which may be missing."""
    names = [ground.data / name for name in DATA_FILES] + [ground.etc / name for name in ETC_FILES] * 2
    return draw.choice([*names, ground.home / "log", ground.data / ".s.PGSQL.54329"])


def some_folder(ground: Ground, draw: random.Random) -> Path:
    """Draw a folder of the server's."""
    return draw.choice([ground.data, ground.etc, ground.etc, ground.build / "bin", ground.data / "global"])


def some_target(ground: Ground, draw: random.Random, name: str, at: Path) -> str:
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


@dataclass(frozen=True)
class Original:
    """What was there when all was right: each folder that moves change, with inode and mode, and the names in it.

    `files` are those that nobody makes anew, by their inodes.
    """

    folders: Mapping[Path, tuple[int, int]]
    files: Mapping[Path, int]
    names: frozenset[Path]

    @classmethod
    def of(cls, ground: Ground) -> Original:
        """Look at the folders as they are now."""
        folders = (ground.data, ground.etc, ground.data / "global", ground.build / "bin")
        statuses = {path: path.lstat() for path in folders}
        found = {path: (status.st_ino, stat.S_IMODE(status.st_mode)) for path, status in statuses.items()}
        names = _names(ground)
        return cls(found, {path: path.lstat().st_ino for path in names if path.name in KEPT}, names)

    def put_back(self, ground: Ground) -> None:
        """Make the very same folders be in their places, and take away what is beside them.

        Two parties who rename at the same time, or one that is ended between two renames, leave another folder there,
        links, pipes and names of ours. Raises RuntimeError when a folder or a file is lost.
        """
        for path, (inode, mode) in self.folders.items():
            if not _is_folder(path, inode):
                kept = next((other for other in path.parent.iterdir() if _is_folder(other, inode)), None)
                if kept is None:
                    raise RuntimeError(f"{path} is lost")
                destroy(path)
                kept.rename(path)
            path.chmod(mode)
        for path, inode in self.files.items():
            if not _is_file(path, inode):
                _bring_back(path, partial(_is_file, inode=inode))
        main = ground.etc / MAIN
        if not _is_main(main):
            _bring_back(main, _is_main)
        for path in _names(ground) - self.names:
            original = path.with_name(path.name.partition(".away-")[0])
            if original != path and original in self.names and not os.path.lexists(original):
                path.rename(original)
            elif original != path or not stat.S_ISREG(path.lstat().st_mode):
                destroy(path)


def _bring_back(path: Path, is_right: Callable[[Path], bool]) -> None:
    """Put a file that was moved away in its place again: a folder that could not be put back held both."""
    kept = next((other for other in path.parent.glob(f"{path.name}.away-*") if is_right(other)), None)
    if kept is None:
        raise RuntimeError(f"{path} is lost")
    destroy(path)
    kept.rename(path)


def _is_main(path: Path) -> bool:
    """Tell whether this is the server's main file, whatever sessions have added to it."""
    with contextlib.suppress(OSError):
        return stat.S_ISREG(path.lstat().st_mode) and head(path).startswith(MAIN_HEAD)
    return False


def take_own_words_away(ground: Ground, *, session_is_over: bool = False) -> None:
    """Remove pgdyno's file where words of the owner's are in it: a session keeps what it finds there, garbage as well.

    Nothing that a session reads or starts would work any more, and the moves would show nothing. When no session is
    open, lines of pgdyno's must not be there, and the file stays to be found.
    """
    dropin = ground.etc / "pgdyno.conf"
    with contextlib.suppress(OSError):
        words = head(dropin)
        if OURS not in words if session_is_over else _BLOCK.sub(b"", words).strip():
            dropin.unlink()


def _names(ground: Ground) -> frozenset[Path]:
    folders = (ground.home, ground.etc, ground.data, ground.data / "global")
    return frozenset(path for folder in folders if folder.is_dir() for path in folder.iterdir())


def _is_file(path: Path, inode: int) -> bool:
    with contextlib.suppress(OSError):
        return path.lstat().st_ino == inode
    return False


def _is_folder(path: Path, inode: int) -> bool:
    with contextlib.suppress(OSError):
        status = path.lstat()
        return stat.S_ISDIR(status.st_mode) and status.st_ino == inode
    return False
