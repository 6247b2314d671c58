"""`pgdyno cleanup`: list what pgdyno made and left on a server and on this host, and drop it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import JsonFlag, flag, verb
from pgdyno.cli.arguments.target import TargetFlags, target_request
from pgdyno.cli.terminal.columns import print_columns
from pgdyno.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from pgdyno.studies.session.leftovers import Leftover

KINDS = ("database", "drop-in", "log", "migration", "restore", "sandbox")


class _Flags(TargetFlags, JsonFlag):
    only: tuple[str, ...] = flag("This kind only; may be given again.", type=click.Choice(KINDS))
    dry_run: bool = flag("List only; nothing is dropped.")
    yes: bool = flag("Do not ask before dropping.")


@verb("cleanup")
def command(flags: _Flags) -> int:
    """List what pgdyno left on --target and on this host, and drop it.

    On the server: databases of loads and, if its files can be reached, pgdyno.conf with the line that includes it,
    pgdyno-server.log, the lock of a session that was killed before it changed anything, and what a killed restore of a
    replay left. On this host: the sandboxes of this account; restores that were killed while they exchanged a server's
    files, which are finished before the server is started; and what rehearsals of migrations left that were killed
    together with their guard: publication, slot, servers of pg_upgrade. What an open session, a kept change, or
    somebody else's session needs stays, with the reason; so does anything that pgdyno did not make. Exit code 1 when
    something could not be dropped.
    """
    from pgdyno.server import places
    from pgdyno.studies.session.leftovers import exchanges, on_server, rehearsals, removable, sandboxes
    from pgdyno.studies.session.opening import opened

    request, undo_root = target_request(flags), places.state_dir() / "undo"
    with ExitStack() as stack:
        found: list[Leftover] = exchanges() + rehearsals()
        if request.dsn is not None or request.host is not None:
            # No setting is changed: the rights that --sql-only asks for are not needed.
            target = stack.enter_context(opened(replace(request, sql_only=False)))
            found += on_server(target, undo_root, files=not request.sql_only)
        found += sandboxes(undo_root)
        chosen = [one for one in found if not flags.only or one.kind.value in flags.only]
        as_json, going = flags.as_json, removable(chosen)
        if not as_json:
            _print(chosen)
        if flags.dry_run or not going:
            if as_json:
                click.echo(json.dumps({"left": [_json(one) for one in chosen], "dropped": []}))
            return ExitCode.OK
        _ask(going, ask=not flags.yes)
        stayed = {one.name: why for one in going if (why := one.remove()) is not None}
        dropped = [one.name for one in going if one.name not in stayed]
    if as_json:
        left = [{**_json(one), "why": stayed.get(one.name, one.refused)} for one in chosen if one.name not in dropped]
        click.echo(json.dumps({"left": left, "dropped": dropped}))
    else:
        click.echo(f"dropped {', '.join(dropped) or 'nothing'}")
        for name, why in stayed.items():
            click.echo(f"{name} stays: {why}", err=True)
    return ExitCode.FINDINGS if stayed else ExitCode.OK


def _ask(going: Sequence[Leftover], *, ask: bool) -> None:
    if not ask:
        return
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask before something is dropped", hint="Add --yes, or --dry-run.")
    click.confirm(f"Drop {len(going)} of these?", abort=True, err=True)


def _print(found: Sequence[Leftover]) -> None:
    if not found:
        click.echo("nothing that pgdyno left was found", err=True)
        return
    rows = [
        [one.kind.value, one.name, one.about, f"stays: {one.refused}" if one.refused else "can go"] for one in found
    ]
    print_columns(("what", "name", "about", "then"), rows)


def _json(one: Leftover) -> dict[str, object]:
    return {"kind": one.kind.value, "name": one.name, "about": one.about, "why": one.refused}
