"""`pgdyno bundle export|import|show`: take studies to another machine's store, whole and unchanged."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import Flags
from pgdyno.cli.arguments.store import open_store, store_option

if TYPE_CHECKING:
    from pgdyno.store.bundle_format import BundleManifest

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group("bundle")
def command() -> None:
    """Take studies to the store of another machine, in one file."""


@command.command("export")
@click.argument("studies", nargs=-1, required=True, metavar="STUDY...")
@click.option("--output", "-o", type=_FILE, required=True, metavar="FILE", help="The new file, such as power.pgdyno.")
@click.option("--json", "as_json", is_flag=True, help="Print what is in the file as one JSON object.")
@store_option
def export(**values: object) -> None:
    """Write studies with all that was measured in them: runs, settings, histograms, samples, events, plans.

    A STUDY is an id, a prefix of one, or `last`. Passwords, and how the server is reached, stay here. The same
    studies give the same bytes.
    """
    from pgdyno.studies.bundles import export_studies

    flags, path = Flags(values), Flags(values).path("output")
    assert path is not None, "it is required"
    with open_store(flags.text("store_url")) as store:
        manifest = export_studies(store, flags.words("studies"), path)
    _tell(manifest, as_json=flags.on("as_json"))
    click.echo(f"wrote {path}, {path.stat().st_size:,} bytes", err=True)


@command.command("import")
@click.argument("file", type=_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print what came of each study as a JSON list.")
@store_option
def import_(**values: object) -> None:
    """Read the studies of a bundle into the store, all of them or none.

    Their ids stay, so that a study is never there twice; its trials get numbers of this store. The studies are marked
    as measured elsewhere, and keep the facts of the machine that they were measured on.
    """
    from pgdyno.studies.bundles import import_studies
    from pgdyno.units import plural

    flags, path = Flags(values), Flags(values).path("file")
    assert path is not None, "it is an argument"
    with open_store(flags.text("store_url")) as store:
        done = import_studies(store, path)
    if flags.on("as_json"):
        click.echo(json.dumps([asdict(one) for one in done]))
        return
    for one in done:
        word = "unchanged: it is in the store already" if one.unchanged else "imported"
        click.echo(f"{one.study}  {plural(one.trials, 'trial')}, {word}")


@command.command("show")
@click.argument("file", type=_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show(**values: object) -> None:
    """Check every hash of a bundle and list what is in it."""
    from pgdyno.studies.bundles import read_manifest

    flags, path = Flags(values), Flags(values).path("file")
    assert path is not None, "it is an argument"
    _tell(read_manifest(path), as_json=flags.on("as_json"))


def _tell(manifest: BundleManifest, *, as_json: bool) -> None:
    from pgdyno.units import plural

    if as_json:
        click.echo(json.dumps(asdict(manifest)))
        return
    for study in manifest.studies:
        rows = sum(member.rows for member in manifest.members if member.study == study.id)
        counted = f"{plural(study.trials, 'trial')}, {rows:,} rows"
        click.echo(f"{study.id}  {study.kind}, {counted}, environment {study.environment}")
    click.echo(f"SHA-256 of the contents {manifest.whole}, written by pgdyno {manifest.pgdyno}")
