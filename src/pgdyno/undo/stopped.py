"""Whether a server that is down was stopped by us, by a person, or not at all: a pure judgement, and what it goes by.

The journal holds `stopping` before each stop of ours and `started` after the start that belongs to it. So a stop
without its start is ours, and the server is started. Else the cluster's own control file says how the server went
down: a clean shutdown that is not ours is a person's, and theirs to end. Everything else (a crash, SIGKILL, the OOM
killer, and `pg_ctl stop -m immediate`, which leaves the same state as a crash) is repaired by a start, as is what
cannot be read.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, ServerStopped
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.owner.hands import hands_of
from pgdyno.server import postmaster_lock
from pgdyno.undo import stuck_stop
from pgdyno.undo.journal import JournalRecord

LEFT_DOWN = "the server was shut down outside of this session, and is left down"
SANDBOX_STOPPED = "the sandbox is stopped, as it is between commands, and is left so"
"""A sandbox has no user to miss it: each pgdyno starts it and stops it again, after `apply` too."""
STOPPING = "stopping"
STARTED = "started"
_HEAD = struct.Struct("=QIII")
"""`ControlFileData` in pg_control.h: system identifier, version of the file, version of the catalogue, state."""
_VERSIONS = range(1300, 2000)
_CLEAN = (1, 2)
"""DB_SHUTDOWNED and DB_SHUTDOWNED_IN_RECOVERY of `DBState`, the same in every supported version."""

Append = Callable[[str, Mapping[str, object]], object]


@contextmanager
def our_restart(append: Append, postmaster: ProcessIdentity | None = None) -> Iterator[None]:
    """Journal a restart of ours: durably before it begins, and after it has ended well.

    A shutdown of this `postmaster` that hangs is ended meanwhile (stuck_stop.py).
    """
    append(STOPPING, {})
    with stuck_stop.ended(postmaster):
        yield
    with contextlib.suppress(
        OSError, EnvironmentUnsuitable
    ):  # a stop without its start only means that the server may be started
        append(STARTED, {})


def is_our_stop_open(records: Iterable[JournalRecord]) -> bool:
    """Tell whether the last stop of ours has no start yet."""
    kinds = [record.kind for record in records if record.kind in (STOPPING, STARTED)]
    return bool(kinds) and kinds[-1] == STOPPING


def was_shut_down(control_file: bytes) -> bool:
    """Tell by the beginning of `global/pg_control` whether the cluster was shut down cleanly; False when unknown."""
    if len(control_file) < _HEAD.size:
        return False
    _, version, _, state = _HEAD.unpack_from(control_file)
    return version in _VERSIONS and state in _CLEAN


def left_down(*, sandbox: bool) -> str:
    """Return the words for a server that was shut down cleanly, and not by the session that is put back."""
    return SANDBOX_STOPPED if sandbox else LEFT_DOWN


def is_down_by_person(records: Iterable[JournalRecord], data_directory: Path) -> bool:
    """Tell whether the server of a data directory of this host is down because somebody else shut it down cleanly."""
    if is_our_stop_open(records) or postmaster_lock.postmaster_pid(data_directory) is not None:
        return False
    return was_shut_down(_control_file(data_directory))


def refusal(label: str, session: str) -> ServerStopped:
    """Return the error that ends a session whose server a person has shut down."""
    return ServerStopped(
        f'server "{label}" was shut down outside of this session',
        detail="Its files are put back, and it is left down.",
        hint=f"Start it when you like; pgdyno rollback --list shows how session {session} ended.",
    )


def _control_file(data_directory: Path) -> bytes:
    try:
        return hands_of(data_directory).read(data_directory / "global" / "pg_control", at_most=_HEAD.size)
    except (OSError, EnvironmentUnsuitable):
        return b""
