"""`pgdyno inspect`: what is known of a server and its host, live, over ssh, or from a captured folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import Flags
from pgdyno.cli.arguments.numbers import Time
from pgdyno.cli.arguments.stand_in import check_stand_in
from pgdyno.cli.arguments.target import target_options, target_request
from pgdyno.cli.terminal.columns import terminal_width
from pgdyno.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from pgdyno.model.inventory import Inventory
    from pgdyno.targets.target import Target

_CRITICALITY = ("business-critical", "production", "development", "test")


@click.command("inspect")
@target_options
@click.option("--root", metavar="DIR", type=click.Path(path_type=Path), help="Read a captured folder, no server.")
@click.option(
    "--capture",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Write what is read into this folder, with statistics and log lines for advise --root.",
)
@click.option("--window", type=Time("s", 1),
              help="With --capture: how long to watch.  [default: the statistics since their reset]")  # fmt: skip
@click.option(
    "--pg-settings",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="pg_settings as CSV, JSON or psql prints it.",
)
@click.option("--pg-conf", metavar="FILE", type=click.Path(path_type=Path), help="A postgresql.conf instead.")
@click.option("--pg-version", metavar="N", help="The version of --pg-conf or --pg-settings, such as 16, 14.4 or 9.5.")
@click.option(
    "--criticality", type=click.Choice(_CRITICALITY), help="What depends on the database; no server knows it."
)
@click.option("--utilization", type=click.Choice(("low", "high")), help="How busy the database is, as you know it.")
@click.option("--section", "only", multiple=True, metavar="NAME", help="Only this section; may be given again.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with every field.")
def command(**values: object) -> int:
    """Show what is known of a server and its host. Changes nothing; the rights of pg_monitor are enough.

    What cannot be read is printed as unknown, with the reason. The first line names the environment: two readings of
    an unchanged one have the same name.
    """
    from pgdyno.model.classes import Criticality, Utilization
    from pgdyno.report.inventory_page import inventory_text

    flags = Flags(values)
    inventory = _inventory(flags)
    criticality = flags.text("criticality")
    if criticality is not None:
        inventory = replace(inventory, criticality=Criticality(criticality))
    utilization = flags.text("utilization")
    if utilization is not None:
        inventory = replace(inventory, utilization=Utilization(utilization))
    if flags.on("as_json"):
        click.echo(json.dumps(_as_json(inventory, flags.words("only"))))
    else:
        click.echo(inventory_text(inventory, flags.words("only"), terminal_width()))
    return int(ExitCode.OK)


def _inventory(flags: Flags) -> Inventory:
    from pgdyno.inventory.inspection import inspect, inspect_capture

    check_stand_in(flags)
    root, folder = flags.path("root"), flags.path("capture")
    files = {"settings": flags.path("pg_settings"), "conf": flags.path("pg_conf")}
    if flags.values["window"] is not None and folder is None:
        raise UsageError("--window is for --capture", hint="pgdyno advise --window SECONDS judges a window at once.")
    if root is not None or any(files.values()):
        if folder is not None:
            raise UsageError("--capture writes what a live server says", hint="Leave --root and --pg-... out.")
        return inspect_capture(root, settings=files["settings"], conf=files["conf"], version=flags.text("pg_version"))
    from pgdyno.studies.session.opening import opened

    with opened(target_request(flags)) as target:
        return inspect(target) if folder is None else _captured(target, folder, flags.number("window"))


def _captured(target: Target, folder: Path, window_s: float | None) -> Inventory:
    """Write what is known and what happens into a folder, and tell what was written."""
    from pgdyno.studies.advice.captured import capture_target

    inventory, written = capture_target(target, folder, window_s=window_s, progress=lambda text: _say(f"{text} ..."))
    for line in written:
        _say(f"written: {line}")
    return inventory


def _say(text: str) -> None:
    click.echo(text, err=True)


def _as_json(inventory: Inventory, only: tuple[str, ...]) -> dict[str, object]:
    from pgdyno.report.inventory_json import inventory_json
    from pgdyno.report.inventory_page import SECTIONS

    for name in only:
        if name not in SECTIONS:
            raise UsageError(f'--section "{name}" is not one of {", ".join(SECTIONS)}', hint="Name one of these.")
    return inventory_json(inventory, only)
