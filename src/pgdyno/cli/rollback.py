"""`pgdyno rollback`: put a server back after a session that was killed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import JsonFlag, argument, flag, verb
from pgdyno.cli.arguments.store import StoreFlag, open_store
from pgdyno.cli.arguments.target import HostFlags, host_request
from pgdyno.cli.terminal.columns import column_lines, terminal_width
from pgdyno.errors import ExitCode, PgdynoError, RollbackError, UsageError
from pgdyno.units import plural

if TYPE_CHECKING:
    from pathlib import Path

    from pgdyno.remote.deploy import HostRequest
    from pgdyno.undo.restore import Restored
    from pgdyno.undo.rollback import BundleInfo, Sessions


class _SessionFlags(JsonFlag):
    session: str | None = argument("[ID]")
    last: bool = flag("The newest session that is not closed, instead of all abandoned ones.")
    list_only: bool = flag("List the sessions; change nothing.", "--list")
    dry_run: bool = flag("Print what would be done, line by line; change nothing.")
    forget: bool = flag("Close session ID without restoring: its server is gone, or you accept it.")


class _Flags(_SessionFlags, HostFlags, StoreFlag):
    pass


@verb("rollback")
def command(flags: _Flags) -> int:
    """Restore a server as it was found: after the pgdyno that changed it was killed, or after `pgdyno apply`.

    Without ID, every abandoned session is rolled back, newest first. A change of `pgdyno apply` is taken back by its
    ID alone, the newest first. Before anything is done, each line that will change is printed, and whether the server
    is reloaded or restarted. Only what pgdyno wrote is undone: what somebody else has changed since stays and is
    reported, and a server that somebody else has shut down is left down. Running it again does nothing. Exit code 5
    means that something of ours could not be undone; the text says what. --host selects the sessions of that host.
    """
    if flags.forget and flags.dry_run:
        raise UsageError("--forget and --dry-run cannot go together", hint="Leave one of them out.")
    with _sessions(host_request(flags)) as place:
        found = place.sessions()
        if flags.list_only:
            click.echo(
                json.dumps({"sessions": [_session_json(info) for info in found]}) if flags.as_json else _table(found)
            )
            return ExitCode.OK
        chosen = _unfinished(found, last=flags.last) if flags.session is None else _named(found, flags.session)
        if not chosen and not flags.as_json and not flags.forget:
            click.echo(nothing_text(found, flags.host))
            return ExitCode.OK
        if flags.dry_run:
            return _show_plans(place, chosen, as_json=flags.as_json)
        if flags.forget:
            return _forget(place, flags.session, chosen, as_json=flags.as_json)
        return _roll_back(place, chosen, as_json=flags.as_json, store_url=flags.store_url)


@contextmanager
def _sessions(host: HostRequest | None) -> Iterator[Sessions]:
    if host is None:
        from pgdyno.server import places
        from pgdyno.undo import rollback

        yield rollback.LocalSessions(places.state_dir() / "undo")
        return
    from pgdyno.remote.host import opened_host

    with opened_host(host) as there:
        yield there


def _named(found: list[BundleInfo], session: str) -> list[BundleInfo]:
    from pgdyno.undo.rollback import full_id

    name = full_id([info.directory.name for info in found], session)
    return [info for info in found if info.directory.name == name]


def _unfinished(found: list[BundleInfo], *, last: bool) -> list[BundleInfo]:
    from pgdyno.undo.rollback import SessionState

    if last:
        return [info for info in found if info.state not in (SessionState.CLOSED, SessionState.KEPT)][:1]
    return [info for info in found if info.state in (SessionState.ABANDONED, SessionState.UNREADABLE)]


def nothing_text(found: list[BundleInfo], host: str | None) -> str:
    """Say that nothing was left open, and how a change that `apply` kept is taken back where there is one."""
    from pgdyno.undo.rollback import SessionState

    kept = [info.directory.name for info in found if info.state is SessionState.KEPT]
    if not kept:
        return "nothing to roll back"
    command = shlex.join(["pgdyno", "rollback", kept[0], *(("--host", host) if host else ())])
    changes = plural(len(kept), "change")
    return f"no session was left open; {changes} that apply kept can be taken back, newest first: {command}"


def _roll_back(place: Sessions, chosen: list[BundleInfo], *, as_json: bool, store_url: str | None) -> int:
    from pgdyno.cli.main import print_error
    from pgdyno.undo.restore import Restored
    from pgdyno.undo.rollback import SessionState

    results: list[dict[str, object]] = []
    worst = ExitCode.OK
    for info in chosen:
        name = info.directory.name
        try:
            if info.state is SessionState.CLOSED:
                restored = Restored(already_closed=True)
            else:
                _require_readable(info)
                click.echo("\n".join(place.plan(name)), err=True)
                restored = place.roll_back(name)
        except UsageError:
            raise
        except PgdynoError as error:
            # One server that cannot be put back must not keep the others from it.
            print_error(error)
            worst = ExitCode.DAMAGED
            continue
        results.append(_restored_json(name, restored))
        if info.state is SessionState.KEPT and not restored.already_closed:
            _record(name, store_url)
        if not as_json:
            click.echo(_story(info.directory, restored))
        if not restored.is_whole:
            worst = ExitCode.DAMAGED
    if as_json:
        click.echo(json.dumps({"restored": results}))
    return worst


def _record(session: str, store_url: str | None) -> None:
    """Record that the changes of a session were taken back; a store that is gone does not undo the rollback."""
    import time

    from pgdyno.studies.advice.accept import record_rollback

    try:
        with open_store(store_url) as store:
            record_rollback(store, session, time.time())
    except PgdynoError as error:
        click.echo(f"warning: the rollback was not recorded in the store: {error.message}", err=True)


def _require_readable(info: BundleInfo) -> None:
    if info.bundle is None:
        raise RollbackError(
            f'the undo bundle "{info.directory}" cannot be read',
            detail=info.damage,
            hint=f"Restore by hand: {info.directory / 'UNDO.md'} lists the commands. Then run "
            f"pgdyno rollback {info.directory.name} --forget.",
        )


def _show_plans(place: Sessions, chosen: list[BundleInfo], *, as_json: bool) -> int:
    from pgdyno.undo.rollback import SessionState

    plans: dict[str, list[str]] = {}
    for info in chosen:
        name = info.directory.name
        if info.state is SessionState.CLOSED:
            plans[name] = [f"session {name}: nothing to do, the server was restored before"]
        else:
            _require_readable(info)
            plans[name] = place.plan(name)
    if as_json:
        click.echo(json.dumps({"plans": [{"session": name, "plan": lines} for name, lines in plans.items()]}))
    else:
        click.echo("\n".join(line for lines in plans.values() for line in lines))
    return ExitCode.OK


def _forget(place: Sessions, session: str | None, chosen: list[BundleInfo], *, as_json: bool) -> int:
    if session is None:
        raise UsageError("--forget needs the ID of one session", hint="pgdyno rollback --list shows them.")
    name = chosen[0].directory.name
    place.forget(name)
    click.echo(json.dumps({"forgotten": name}) if as_json else f"session {name} is closed; nothing was restored")
    return ExitCode.OK


def _story(directory: Path, restored: Restored) -> str:
    if restored.already_closed:
        return f"session {directory.name}: nothing to do, the server was restored before"
    lines = [f"session {directory.name}: ended {process}" for process in restored.ended]
    lines += [f"session {directory.name}: put back {path}" for path in restored.files]
    how = "restarted" if restored.restarted else "left down" if restored.left_down else "reloaded"
    if restored.is_whole:
        lines += [f"session {directory.name}: note: {note}" for note in restored.notes]
        what = "what pgdyno had changed is undone" if restored.notes else "files and settings are as they were found"
        what = "files are as they were found" if restored.not_compared and not restored.notes else what
        lines.append(f"session {directory.name}: server {how}; {what}")
        if restored.not_compared:
            lines.append(f"  settings not compared: {restored.not_compared}")
            lines.append(f"  {directory / 'settings.json'} holds every row of pg_settings before the session")
    else:
        lines.append(f"session {directory.name}: server {how}, but it is not as it was found:")
        lines += [f"  {text}" for text in _remaining(restored)]
        lines.append(f"  fix that and roll back again, or accept it with: pgdyno rollback {directory.name} --forget")
    return "\n".join(lines)


def _remaining(restored: Restored) -> list[str]:
    return [*restored.damage, *(str(difference) for difference in restored.settings_differences)]


def _restored_json(name: str, restored: Restored) -> dict[str, object]:
    return {
        "session": name,
        "files": list(restored.files),
        "restarted": restored.restarted,
        "already_closed": restored.already_closed,
        "ended": list(restored.ended),
        "seconds": round(restored.seconds, 3),
        "whole": restored.is_whole,
        "left_down": restored.left_down,
        "notes": list(restored.notes),
        "remaining": _remaining(restored),
        "not_compared": restored.not_compared,
    }


def _session_json(info: BundleInfo) -> dict[str, object]:
    manifest = info.bundle.manifest if info.bundle else None
    return {
        "session": info.directory.name,
        "state": info.state.value,
        "study": manifest.study if manifest else None,
        "target": manifest.target if manifest else None,
        "began": _began(manifest.created_at) if manifest else None,
        "applied": info.applied,
        "damage": info.damage,
        "closed_by": info.closed_by,
        "directory": str(info.directory),
    }


def _began(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _table(found: list[BundleInfo]) -> str:
    if not found:
        return "no sessions"
    rows = []
    for info in found:
        target = info.bundle.manifest.target if info.bundle else f"damaged: {info.damage}"
        by = f"  (by {info.closed_by})" if info.closed_by not in (None, "session") else ""
        rows.append((info.directory.name, info.state.value, str(info.applied), target + by))
    lines = column_lines(("session", "state", "applied", "target"), rows, width=terminal_width())
    return "\n".join([*lines, *_passwords(found)])


def _passwords(found: list[BundleInfo]) -> list[str]:
    """Return what a person types for sessions that wait for a rollback on a server that asks for a password."""
    from pgdyno.undo.rollback import SessionState

    return [
        f"{info.directory.name}: the server asks for a password, which is not kept: "
        f"PGPASSWORD=... pgdyno rollback {info.directory.name}, or a line in ~/.pgpass"
        for info in found
        if info.state is SessionState.ABANDONED and info.bundle is not None and info.bundle.manifest.asks_password
    ]
