"""`pgdyno inspect`: what is known of a server and its host, live, over ssh, or from a captured folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.advice_source import check_stand_in
from pgdyno.cli.arguments.flags import flag, verb
from pgdyno.cli.arguments.numbers import Time
from pgdyno.cli.arguments.target import TargetFlags, target_request
from pgdyno.cli.terminal.columns import terminal_width
from pgdyno.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from pgdyno.model.inventory import Inventory
    from pgdyno.targets.target import Target

_CRITICALITY = ("business-critical", "production", "development", "test")


class _Flags(TargetFlags):
    root: Path | None = flag("Read a captured folder, no server.", metavar="DIR")
    capture: Path | None = flag(
        "Write what is read into this folder, with statistics and log lines for advise --root.", metavar="DIR"
    )
    window: float | None = flag(
        "With --capture: how long to watch.  [default: the statistics since their reset]", type=Time("s", 1)
    )
    pg_settings: Path | None = flag("pg_settings as CSV, JSON or psql output.", metavar="FILE")
    pg_conf: Path | None = flag("A postgresql.conf instead.", metavar="FILE")
    pg_version: str | None = flag("The version of --pg-conf or --pg-settings, such as 16, 14.4 or 9.5.", metavar="N")
    criticality: str | None = flag(
        "What depends on the database, which no server knows.", type=click.Choice(_CRITICALITY)
    )
    utilization: str | None = flag("How busy the database is, as you know it.", type=click.Choice(("low", "high")))
    only: tuple[str, ...] = flag("Only this section; may be given again.", "--section", metavar="NAME")
    as_json: bool = flag("Print one JSON object with every field.", "--json")


@verb("inspect")
def command(flags: _Flags) -> int:
    """Show what is known about a server and its host. Changes nothing; the rights of pg_monitor are enough.

    What cannot be read is printed as unknown, with the reason. The first line names the environment, as studies of
    this server do, and has the inventory's own hash, which also changes with any sysctl, device or mount.
    """
    from pgdyno.model.classes import Criticality, Utilization
    from pgdyno.report.inventory_json import inventory_json
    from pgdyno.report.inventory_page import inventory_text

    inventory = _inventory(flags)
    if flags.criticality is not None:
        inventory = replace(inventory, criticality=Criticality(flags.criticality))
    if flags.utilization is not None:
        inventory = replace(inventory, utilization=Utilization(flags.utilization))
    if flags.as_json:
        click.echo(json.dumps(inventory_json(inventory, flags.only)))
    else:
        click.echo(inventory_text(inventory, flags.only, terminal_width()))
    return int(ExitCode.OK)


def _inventory(flags: _Flags) -> Inventory:
    from pgdyno.inventory.inspection import inspect, inspect_capture

    check_stand_in(flags.pg_conf, flags.pg_settings, flags.pg_version)
    root, folder = flags.root, flags.capture
    files = {"settings": flags.pg_settings, "conf": flags.pg_conf}
    if flags.window is not None and folder is None:
        raise UsageError("--window is for --capture", hint="pgdyno advise --window SECONDS judges a window at once.")
    if root is not None or any(files.values()):
        if folder is not None:
            raise UsageError("--capture needs a live server", hint="Leave --root and --pg-... out.")
        return inspect_capture(root, settings=files["settings"], conf=files["conf"], version=flags.pg_version)
    from pgdyno.studies.session.opening import opened

    with opened(target_request(flags), to_read=True) as target:
        return inspect(target) if folder is None else _captured(target, folder, flags.window)


def _captured(target: Target, folder: Path, window_s: float | None) -> Inventory:
    """Write what is known and what happens into a folder, and tell what was written."""
    from pgdyno.studies.advice.captured import capture_target

    inventory, written = capture_target(target, folder, window_s=window_s, progress=lambda text: _say(f"{text} ..."))
    for line in written:
        _say(f"written: {line}")
    return inventory


def _say(text: str) -> None:
    click.echo(text, err=True)
