"""`pgdyno persist`: make Linux knobs survive a reboot; prints unless told to write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import JsonFlag, argument, flag, verb
from pgdyno.cli.arguments.store import StoreFlag, open_store
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.kernel.persist import Artefact
    from pgdyno.linux.block_devices import KernelPlaces


class _Flags(JsonFlag, StoreFlag):
    conf: Path | None = argument("[FILE]")
    study: str | None = flag(
        "Take the winner of this finished tune instead of FILE; `last` for the newest.", metavar="STUDY"
    )
    apply_it: bool = flag("Write the files; without it they are only printed.", "--apply")
    root: Path = flag("Write below this folder, such as an image.", default=Path("/"), show_default=False)
    data_directory: Path | None = flag(
        "The server's data directory, for knobs of the block devices below it.",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
    )


@verb("persist")
def command(flags: _Flags) -> None:
    """Make Linux knobs survive a reboot: print the files, or write them with --apply.

    FILE holds `name = value` lines; those of PostgreSQL belong in postgresql.conf and are left out. Files go into
    /etc/sysctl.d, /etc/tmpfiles.d, /etc/udev/rules.d or /etc/systemd/system, never into /etc/sysctl.conf. Nothing is
    loaded: the commands that load and remove them are printed. A file that pgdyno did not write is not overwritten.
    """
    from pgdyno.kernel.persist import artefacts, write_artefacts
    from pgdyno.linux.block_devices import find_places, nowhere

    places = find_places(flags.data_directory) if flags.data_directory else nowhere("no data directory was named")
    knobs, others = _chosen(flags.conf, flags.study, flags.store_url, places)
    made = artefacts(knobs, places)
    written = [str(path) for path in write_artefacts(made, flags.root)] if flags.apply_it else []
    if flags.as_json:
        files = [_artefact_json(file) for file in made]
        click.echo(json.dumps({"files": files, "written": written, "left_out": others}))
        return
    for file in made:
        _print(file, is_written=flags.apply_it, root=flags.root)
    if others:
        click.echo(f"left out, because they belong in postgresql.conf: {', '.join(others)}", err=True)
    if not flags.apply_it:
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
        raise UsageError("name either a FILE or a --study", hint="pgdyno persist mine.conf, or --study last.")
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
