"""`pgdyno persist`: make Linux knobs survive a reboot; prints unless told to write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.store import open_store, store_option
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.kernel.persist import Artefact
    from pgdyno.linux.block_devices import KernelPlaces


@click.command(name="persist")
@click.argument("conf", required=False, type=click.Path(path_type=Path), metavar="[FILE]")
@click.option(
    "--study", metavar="STUDY", help="Take the winner of this finished tune instead of FILE; `last` for the newest."
)
@click.option("--apply", "apply_it", is_flag=True, help="Write the files; without it they are only printed.")
@click.option(
    "--root", type=click.Path(path_type=Path), default=Path("/"), help="Write below this folder, such as an image."
)
@click.option(
    "--data-directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The server's data directory, for knobs of the block devices below it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@store_option
def command(
    conf: Path | None,
    study: str | None,
    apply_it: bool,
    root: Path,
    data_directory: Path | None,
    as_json: bool,
    store_url: str | None,
) -> None:
    """Make Linux knobs survive a reboot: print the files, or write them with --apply.

    FILE holds `name = value` lines; those of PostgreSQL belong into postgresql.conf and are left out. Files go into
    /etc/sysctl.d, /etc/tmpfiles.d, /etc/udev/rules.d or /etc/systemd/system, never into /etc/sysctl.conf. Nothing is
    loaded: the commands that load and remove them are printed. A file that pgdyno did not write is not overwritten.
    """
    from pgdyno.kernel.persist import artefacts, write_artefacts
    from pgdyno.linux.block_devices import find_places, nowhere

    places = find_places(data_directory) if data_directory else nowhere("no data directory was named")
    knobs, others = _chosen(conf, study, store_url, places)
    made = artefacts(knobs, places)
    written = [str(path) for path in write_artefacts(made, root)] if apply_it else []
    if as_json:
        files = [_artefact_json(file) for file in made]
        click.echo(json.dumps({"files": files, "written": written, "left_out": others}))
        return
    for file in made:
        _print(file, is_written=apply_it, root=root)
    if others:
        click.echo(f"left out, they belong into postgresql.conf: {', '.join(others)}", err=True)
    if not apply_it:
        click.echo("nothing was written; add --apply", err=True)


def _chosen(
    conf: Path | None, study: str | None, store_url: str | None, places: KernelPlaces
) -> tuple[dict[str, str], list[str]]:
    """Return the Linux knobs with values as the kernel writes them, and the names of the other settings."""
    from pgdyno.cli.requests.study import settings_from
    from pgdyno.kernel.kernel_facts import read_kernel
    from pgdyno.knobs.linux import checked_for_persisting
    from pgdyno.model.configuration import Configuration
    from pgdyno.studies.winner import offered_by, study_of

    if (conf is None) == (study is None):
        raise UsageError("name a FILE or a --study, one of the two", hint="pgdyno persist mine.conf, or --study last.")
    if conf is not None:
        settings = Configuration.of(settings_from(conf))
    else:
        settings = Configuration.of(offered_by(study_of(open_store(store_url), str(study))).settings).linux()
    knobs = checked_for_persisting(settings.linux(), read_kernel(places))
    if not knobs:
        raise UsageError("there is no Linux knob to persist", hint="pgdyno knobs host lists them.")
    return knobs, list(settings.postgresql())


def _artefact_json(file: Artefact) -> dict[str, object]:
    return {"path": file.path, "text": file.text, "load": list(file.load), "remove": list(file.remove)}


def _print(file: Artefact, *, is_written: bool, root: Path) -> None:
    click.echo(f"wrote {root / file.path.lstrip('/')}" if is_written else f"# {file.path}\n{file.text}")
    click.echo("".join(f"to load it:   {line}\n" for line in file.load), nl=False)
    click.echo("".join(f"to remove it: {line}\n" for line in file.remove))
