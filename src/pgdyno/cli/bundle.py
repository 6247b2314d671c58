"""`pgdyno bundle export|import|show`: take studies to another machine's store, whole and unchanged."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import NEW_FILE, JsonFlag, argument, flag, verb
from pgdyno.cli.arguments.store import StoreFlag, open_store
from pgdyno.units import plural

if TYPE_CHECKING:
    from pgdyno.store.bundle_format import BundleManifest


@click.group("bundle")
def command() -> None:
    """Copy studies to the store of another machine, in one file."""


class _ExportFlags(StoreFlag):
    studies: tuple[str, ...] = argument("STUDY...")
    output: Path = flag("The new file, such as power.pgdyno.", "-o", type=NEW_FILE, metavar="FILE")
    as_json: bool = flag("Print what is in the file as one JSON object.", "--json")


@verb("export", command)
def export(flags: _ExportFlags) -> None:
    """Write studies with all that was measured in them: runs, settings, histograms, samples, events, plans.

    A STUDY is an id, a prefix of one, or `last`. Passwords, and how the server is reached, stay here. The same
    studies give the same bytes.
    """
    from pgdyno.studies.bundles import export_studies

    with open_store(flags.store_url) as store:
        manifest = export_studies(store, flags.studies, flags.output)
    _tell(manifest, as_json=flags.as_json)
    click.echo(f"wrote {flags.output}, {flags.output.stat().st_size:,} bytes", err=True)


class _ImportFlags(StoreFlag):
    file: Path = argument("FILE", type=NEW_FILE)
    as_json: bool = flag("Print what came of each study as a JSON list.", "--json")


@verb("import", command)
def import_(flags: _ImportFlags) -> None:
    """Read the studies of a bundle into the store, all of them or none.

    Their ids stay, so that a study is never there twice; its trials get numbers of this store. The studies are marked
    as measured elsewhere, and keep the facts of the machine that they were measured on.
    """
    from pgdyno.studies.bundles import import_studies

    with open_store(flags.store_url) as store:
        done = import_studies(store, flags.file)
    if flags.as_json:
        click.echo(json.dumps([asdict(one) for one in done]))
        return
    for one in done:
        word = "unchanged: it is in the store already" if one.unchanged else "imported"
        click.echo(f"{one.study}  {plural(one.trials, 'trial')}, {word}")


class _ShowFlags(JsonFlag):
    file: Path = argument("FILE", type=NEW_FILE)


@verb("show", command)
def show(flags: _ShowFlags) -> None:
    """Check every hash of a bundle and list what is in it."""
    from pgdyno.studies.bundles import read_manifest

    _tell(read_manifest(flags.file), as_json=flags.as_json)


def _tell(manifest: BundleManifest, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(asdict(manifest)))
        return
    for study in manifest.studies:
        rows = sum(member.rows for member in manifest.members if member.study == study.id)
        counted = f"{plural(study.trials, 'trial')}, {plural(rows, 'row')}"
        click.echo(f"{study.id}  {study.kind}, {counted}, environment {study.environment}")
    click.echo(f"SHA-256 of the contents {manifest.whole}, written by pgdyno {manifest.pgdyno}")
