"""Whether a server must be restarted to lose what a session started it with: pure, from the session's own journal.

So it is known without asking the server, and nothing that somebody else changed is a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict

from pgdyno.linux.identity import ProcessIdentity
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.shapes import inner
from pgdyno.server.effectiveness import needs_restart
from pgdyno.server.snapshot import SettingState
from pgdyno.undo.journal import JournalRecord

RETURN = "return by restart"
"""The kind of the record that is written when the old files are in place, before the server is started on them."""


def knobs(
    records: Iterable[JournalRecord], settings: Mapping[str, SettingState], running: ProcessIdentity | None
) -> list[str]:
    """Return the knobs of the session that the server may have been started with, and sees only at a start.

    That is: of the last configuration that came into force, and of one that was tried after it, unless the postmaster
    that runs is the one of before that try. `settings` are those before the session.
    """
    in_force = tried = BASELINE
    was_running: object = None
    for record in records:
        if record.kind == "intent":  # the one before has come into force, or was taken back: else this had not come
            asked, was_running = inner(record.data, "settings"), record.data.get("instead_of")
            tried = Configuration.of({name: str(value) for name, value in asked.items()})
        elif record.kind == "in force":
            in_force = tried
    never_started = running is not None and was_running == asdict(running)
    candidates = (in_force,) if never_started else (in_force, tried)
    return sorted({name for found in candidates for name in needs_restart(BASELINE, found, settings)})


def note(running: ProcessIdentity | None) -> dict[str, object]:
    """Return what a record of an intent or a RETURN says of the postmaster that may be replaced, None without one."""
    return {"instead_of": None if running is None else asdict(running)}


def has_returned(records: Iterable[JournalRecord], running: ProcessIdentity | None) -> bool:
    """Tell whether the server that runs was started on the old files: it is another than the one of a RETURN record."""
    noted = [record.data.get("instead_of") for record in records if record.kind == RETURN]
    return running is not None and bool(noted) and noted[-1] != asdict(running)
