"""What a rollback will do, for people, before it is done: each line that changes, the settings, reload or restart."""

from __future__ import annotations

from pathlib import Path

from pgdyno.errors import ConnectError, PgdynoError
from pgdyno.routes import route_record
from pgdyno.server import postmaster_lock, snapshot
from pgdyno.server.postgres import Postgres
from pgdyno.server.snapshot import SettingState
from pgdyno.undo import ours, stopped
from pgdyno.undo.bundle import UndoBundle

_OUTAGE = "an outage of seconds"


def undo_plan(bundle: UndoBundle, postgres: Postgres | None = None) -> list[str]:
    """Return the plan, line by line. Reads files and settings, changes nothing.

    What cannot be known, such as the settings of a server that takes no session, is said. Never raises for what is
    wrong with server or bundle: the rollback itself does.
    """
    postgres = postgres or Postgres(bundle.manifest.conninfo)
    lines = [f"session {bundle.id} (study {bundle.manifest.study}) on {bundle.manifest.target}"]
    for part in (_changes, _settings):
        try:
            lines += (f"  {line}" for line in part(bundle, postgres))
        except PgdynoError as error:
            lines.append(f"  unknown: {error.message}")
        except (KeyError, ValueError) as error:
            lines.append(f"  unknown: the bundle does not say how the server is reached ({error})")
    return lines


def _changes(bundle: UndoBundle, postgres: Postgres) -> list[str]:
    kernel = [f"put back {image.knob}" for image in bundle.manifest.kernel]
    return [*route_record.from_record(bundle, postgres).plan(), *kernel]


def _settings(bundle: UndoBundle, postgres: Postgres) -> list[str]:
    manifest, before = bundle.manifest, bundle.settings()
    names = sorted(bundle.written().names)
    touched = [f"settings of this session: {', '.join(names)}"] if names else ["this session has set nothing"]
    directory = Path(manifest.data_directory)
    if manifest.local and postmaster_lock.postmaster_pid(directory) is None:
        if stopped.is_down_by_person(bundle.reading().records, directory):
            return [*touched, stopped.left_down(sandbox=manifest.sandbox)]
        return [*touched, "the server is down, and is started"]
    try:
        with postgres.connect() as connection:
            now = snapshot.read_settings(connection, label=postgres.label)
    except ConnectError as error:
        need = [name for name in names if name in before and before[name].context == "postmaster"]
        how = f"a restart for {', '.join(need)}, {_OUTAGE}" if need else "a reload"
        return [*touched, f"{how}; the server could not be asked: {error.detail or error.message}"]
    need = [name for name in names if _needs_restart(before.get(name), now.get(name))]
    how = f"a restart for {', '.join(need)}, {_OUTAGE}" if need else "a reload, no restart"
    foreign = [
        ours.told(each)
        for each in snapshot.differences(before, now)
        if not ours.is_line_only(each) and each.after is not None and each.after.context != "internal"
        if not bundle.written().may_have_set(each.name) and not (need and ours.is_computed(each))
    ]
    return [*touched, how, *(f"stays: {text}" for text in foreign)]


def _needs_restart(before: SettingState | None, now: SettingState | None) -> bool:
    if before is None or now is None or before.context != "postmaster":
        return False
    return before.setting != now.setting or before.source != now.source
