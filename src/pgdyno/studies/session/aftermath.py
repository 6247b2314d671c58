"""What is left to do after a study of which nothing is heard any more: whether its server was restored.

The undo bundles of this account on this host say it. Of a study that another host or account ran nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from pgdyno.linux.identity import ProcessIdentity, pid_namespace
from pgdyno.model.live import Live
from pgdyno.model.study import STUDY_ID, Study
from pgdyno.server import places
from pgdyno.store.live import boot_id
from pgdyno.studies.kinds import kind_of
from pgdyno.undo.rollback import SessionState, list_bundles


class Aftermath(StrEnum):
    """How the session of a silent study stands."""

    CLOSED = "closed"
    """Its process is gone, and its settings were restored or never changed: there is nothing to do."""
    OPEN = "open"
    """Its session is not closed: its process hangs, or pgdyno rollback is to restore its server."""
    UNKNOWN = "unknown"
    NO_SESSION = "none"
    """It hangs, or ran elsewhere; it changes no setting, so that there is nothing to restore."""


class Aftermaths:
    """The sessions of this account on this host, read once. A folder that cannot be read has none."""

    def __init__(self, state_dir: Path | None = None) -> None:
        self._folder = state_dir or places.state_dir()
        self._sessions: dict[str, list[SessionState]] = {}
        with suppress(OSError):
            for info in list_bundles(self._folder / "undo"):
                if info.bundle is not None:
                    self._sessions.setdefault(info.bundle.manifest.study, []).append(info.state)

    def of(self, study: Study, live: Live) -> Aftermath:
        """Say how the session of a silent study stands; `live` is its last sign of life."""
        sessions = self._sessions.get(study.id, [])
        if any(state not in (SessionState.CLOSED, SessionState.KEPT) for state in sessions):
            return Aftermath.OPEN
        if sessions:
            return Aftermath.CLOSED
        is_here = live.boot_id == boot_id() and live.namespace == pid_namespace()
        is_gone = is_here and not ProcessIdentity(live.pid, live.start_ticks, live.boot_id).is_alive()
        if not kind_of(study.kind).may_change(study):
            return Aftermath.CLOSED if is_gone else Aftermath.NO_SESSION
        target = study.options.get("target")
        is_remote = isinstance(target, Mapping) and target.get("host") is not None
        # A study without a session changed nothing, if it was begun here: else its bundle is where it was.
        if is_remote or not is_here or not self._was_begun(study):
            return Aftermath.UNKNOWN
        return Aftermath.CLOSED if is_gone else Aftermath.OPEN

    def is_over(self, study: Study, live: Live) -> bool:
        """Tell whether nothing is left to do after a silent study."""
        return self.of(study, live) is Aftermath.CLOSED

    def _was_begun(self, study: Study) -> bool:
        try:
            return STUDY_ID.fullmatch(study.id) is not None and (self._folder / "runs" / study.id).is_dir()
        except OSError:
            return False
