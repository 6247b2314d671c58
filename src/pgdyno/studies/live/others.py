"""What somebody else changes of a server's settings while a live study switches it: theirs stays, and the study ends.

A setting that came into force in between would be measured under the names of our arms; an edit that nobody has loaded
yet would come into force with our next reload. What ALTER ROLE or ALTER DATABASE sets outranks every file: sessions
that begin after it would see neither arm.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from pgdyno.errors import EnvironmentUnsuitable, PgdynoError
from pgdyno.routes.file_check import FileReading, files_seen_by
from pgdyno.server.postgres import Postgres, query_errors
from pgdyno.server.role_settings import Override, all_overrides, subject
from pgdyno.server.snapshot import SettingState, differences
from pgdyno.studies.live.world import LiveStopped
from pgdyno.targets.target import Target
from pgdyno.undo.one_session import AdvisoryLock, refuse_while_open
from pgdyno.undo.ours import is_computed, is_line_only, told
from pgdyno.undo.server_lock import ServerInUse

SESSIONS_S = 30.0


def sessions_of_others(
    target: Target, undo_root: Path, clock: Callable[[], float] = time.monotonic
) -> Callable[[], None]:
    """Return what looks every SESSIONS_S seconds for an open session of pgdyno, and raises ServerInUse on seeing one.

    Whoever watches a server that another one switches watches that one, and could not begin to switch afterwards.
    """
    due = clock() + SESSIONS_S

    def look() -> None:
        nonlocal due
        if clock() < due:
            return
        due = clock() + SESSIONS_S
        try:
            refuse_while_open(target, undo_root)
        except ServerInUse:
            raise
        except PgdynoError:
            return  # a server that is away, or too busy to answer, is waited for by who reads it

    return look


def told_by_sql(target: Target, session: str, stack: ExitStack) -> AdvisoryLock | None:
    """Tell of a session through files who may read none, too, such as a tuner by SQL alone with the least rights.

    Until `stack` ends; None where the session itself does so. The sessions of other verbs do not: whoever holds the
    lock keeps a person's smart shutdown waiting, as the reader of a live study does anyway. Raises ServerInUse.
    """
    if target.route is not None:
        return None
    lock = AdvisoryLock.take(target.postgres)
    stack.callback(lock.release)
    lock.sign(session)
    return lock


class OthersSettings:
    """The settings of a server as they were, and as our last switch left them. `own` are the knobs of the arms."""

    def __init__(self, postgres: Postgres, own: Collection[str]) -> None:
        self._postgres = postgres
        self._own = frozenset(own)
        self._found, self._overrides = self._read()
        self._last = self._found

    def require_none(self) -> Literal[True]:
        """Raise LiveStopped when a setting is no longer what our last switch left, or a file holds an unread edit.

        So it does for a setting of a role or a database. Returns True, which tells it from a server that was away.
        """
        now, overrides = self._read()
        _refuse(self._last, now, ())
        _refuse_overrides(self._overrides, overrides)
        return True

    def require_calm(self) -> None:
        """Refuse, before the first switch, to compare with a reference of other settings: raise EnvironmentUnsuitable.

        Whoever changed them may be another session of ours.
        """
        try:
            self.require_none()
        except LiveStopped as change:
            raise EnvironmentUnsuitable(
                f"{change.message}, since the reference began",
                detail=change.detail,
                hint="This run has changed nothing: start again when they have finished, a person or another pgdyno.",
            ) from change

    def switched(self) -> Literal[True]:
        """Take down what our switch has left, as `require_none` raises and returns for what came into force with it."""
        now, _ = self._read()
        _refuse(self._found, now, self._own)
        self._last = now
        return True

    def taken_back(self) -> None:
        """Hear that the server is in its baseline again."""
        self._last = self._found

    def _read(self) -> tuple[Mapping[str, SettingState], tuple[Override, ...]]:
        reading, overrides = files_and_overrides(self._postgres)
        edits = reading.unread()
        if edits:
            raise LiveStopped(
                f"somebody else has edited the server's settings: {edits[0]}", detail="\n".join(edits[1:]) or None
            )
        return reading.settings, overrides


def files_and_overrides(postgres: Postgres) -> tuple[FileReading, tuple[Override, ...]]:
    """Return what files, roles and databases set, as one new session sees it. Errors as `read_files`."""
    with postgres.connect() as session, query_errors(postgres.label):
        return files_seen_by(session, postgres.label), all_overrides(session)


def _refuse_overrides(before: tuple[Override, ...], now: tuple[Override, ...]) -> None:
    """Raise LiveStopped where one is another now; those of extensions do not count, and values may be secrets."""
    moved = sorted({f"{one.name}, by {subject(one)}" for one in {*before} ^ {*now} if "." not in one.name})
    if moved:
        raise LiveStopped(
            f"somebody else has changed a setting of sessions: {moved[0]}", detail="\n".join(moved[1:]) or None
        )


def _refuse(before: Mapping[str, SettingState], now: Mapping[str, SettingState], ours: Collection[str]) -> None:
    """Raise LiveStopped where a setting is another now; not for `ours`, and what the server computes from them."""
    moved = (one for one in differences(before, now) if one.name not in ours)
    found = [one for one in moved if not is_line_only(one) and not (ours and is_computed(one))]
    found.sort(key=is_computed)  # first what somebody has set, and then what the server made of it
    if found:
        raise LiveStopped(
            f"somebody else has changed the server's settings: {told(found[0])}",
            detail="\n".join(told(one) for one in found[1:]) or None,
        )
