"""The files by which a session and its watchdog know of each other, in the undo bundle.

watchdog.json       the deadlines
watchdog.first      who watches, and what would keep it from restoring
watchdog.second     who waits to take the first one's place, and the same
watchdog.lock       held by the first; the kernel hands it to the second when the first dies
watchdog.log        what they did, one line each
watchdog.left       that they gave up and left the session to a person
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from pgdyno.errors import PgdynoError, UsageError
from pgdyno.linux.identity import ProcessIdentity

LOG = "watchdog.log"
LOCK = "watchdog.lock"
_LEFT = "watchdog.left"
_DEADLINES = "watchdog.json"
_SHOWN_BYTES = 2000


class WatchdogRole(StrEnum):
    """Which of the two watchdog processes."""

    FIRST = "first"
    SECOND = "second"


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long the watchdog waits, in seconds, before it acts.

    `heartbeat_s`: without a sign of life from the session. `health_s`: with a server that does not answer although
    the session is not restarting it. `grace_s`: for a session that was asked to end by itself.
    """

    heartbeat_s: float = 10.0
    health_s: float = 30.0
    grace_s: float = 10.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 1.0 <= value <= 3600.0:
                raise UsageError(f"the watchdog's {name} = {value:g} is not between 1 and 3600 s")


def write_deadlines(folder: Path, deadlines: Deadlines) -> None:
    """Keep the deadlines, and this process's OOM score, for every watchdog process of this session."""
    score = Path("/proc/self/oom_score_adj").read_text().strip()
    with open(folder / _DEADLINES, "w", opener=private) as file:
        json.dump({"deadlines": asdict(deadlines), "oom_score_adj": score}, file)


def read_deadlines(folder: Path) -> Deadlines:
    """Return the deadlines, the defaults when they cannot be read: a watchdog without them still watches."""
    try:
        return Deadlines(**json.loads((folder / _DEADLINES).read_bytes())["deadlines"])
    except (OSError, ValueError, TypeError, KeyError, UsageError):
        return Deadlines()


def read_oom_score(folder: Path) -> str:
    """Return the session's own `oom_score_adj`, which a server that the watchdog starts should inherit."""
    try:
        return str(int(json.loads((folder / _DEADLINES).read_bytes())["oom_score_adj"]))
    except (OSError, ValueError, TypeError, KeyError):
        return "0"


@dataclass(frozen=True, slots=True)
class Entry:
    """Who plays a role, and what it found that would keep it from restoring; None when it proved that it can."""

    process: ProcessIdentity
    obstacle: tuple[str, str | None, str | None] | None = None


def sign_in(folder: Path, role: WatchdogRole, process: ProcessIdentity, obstacle: PgdynoError | None = None) -> None:
    """Say who plays this role now, and with what obstacle.

    `folder` is the undo bundle's, and `process` is who plays the `role`. `obstacle` is what would keep it from
    restoring, None when it proved that it can. A file that cannot be written is no error.
    """
    path, staged = _path(folder, role), _path(folder, role).with_suffix(f".{role}-new")
    why = None if obstacle is None else (obstacle.message, obstacle.detail, obstacle.hint)
    with contextlib.suppress(OSError):  # a full disk: the other cannot see us, and starts another one; that is safe
        with open(staged, "w", opener=private) as file:
            json.dump(asdict(Entry(process, why)), file)
        staged.replace(path)


def entry(folder: Path, role: WatchdogRole) -> Entry | None:
    """Return who signed in for this role, None when nobody has."""
    try:
        fields = json.loads(_path(folder, role).read_bytes())
        message, detail, hint = fields["obstacle"] or (None, None, None)
        process = ProcessIdentity(**fields["process"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return Entry(process, None if message is None else (str(message), detail, hint))


def identity(folder: Path, role: WatchdogRole) -> ProcessIdentity | None:
    """Return who plays this role, None when nobody has signed in."""
    found = entry(folder, role)
    return None if found is None else found.process


def leave_to_person(folder: Path) -> None:
    """Keep that trying on makes no sense, so that the other watchdog does not begin all over."""
    with contextlib.suppress(OSError):
        (folder / _LEFT).touch(0o600)


def is_left_to_person(folder: Path) -> bool:
    """Tell whether a watchdog of this session gave up; not where the disk does not tell."""
    with contextlib.suppress(OSError):
        return (folder / _LEFT).exists()
    return False


@contextmanager
def open_log(folder: Path) -> Iterator[BinaryIO]:
    """Open the log for appending, owner-only."""
    descriptor = os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "ab") as file:
        yield file


def last_words(folder: Path) -> str | None:
    """Return the end of the log, None when there is none."""
    try:
        data = (folder / LOG).read_bytes()
    except OSError:
        return None
    return data[-_SHOWN_BYTES:].decode(errors="replace").strip() or None


def _path(folder: Path, role: WatchdogRole) -> Path:
    return folder / f"watchdog.{role}"


def private(path: str, flags: int) -> int:
    """Open a file that this account alone may read and no program of ours inherits: an `opener`."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
