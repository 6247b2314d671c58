"""`pgdyno import sadf|iostat FILE ...`: samples of other machines, read into the same store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import Flags
from pgdyno.cli.arguments.numbers import Time
from pgdyno.cli.arguments.options import open_store, store_option
from pgdyno.cli.terminal.files import read_outputs

if TYPE_CHECKING:
    from pgdyno.probes.evidence.sample_files import SampleFile

_FILES = click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
_LABEL = click.option("--label", help="The machine that they are of: the page shows it as the target.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.command("sadf")
@_FILES
@_LABEL
@_JSON
@store_option
def sadf(**values: object) -> None:
    """Import what sar recorded on another machine, as `sadf -j saDD -- -A` prints it: one run a file."""
    from pgdyno.probes.evidence.sample_files import read_sadf

    _import(Flags(values), lambda text, path: read_sadf(text, source=path))


@click.command("iostat")
@_FILES
@click.option("--interval", type=Time("s", 0, min_open=True),
              help="Time between two reports, where they carry no times.")  # fmt: skip
@_LABEL
@_JSON
@store_option
def iostat(**values: object) -> None:
    """Import reports of `iostat -x -t` of another machine: one run a file."""
    from pgdyno.probes.evidence.sample_files import read_iostat

    flags = Flags(values)
    interval = values["interval"]
    every = interval if isinstance(interval, float) else None
    _import(flags, lambda text, path: read_iostat(text, source=path, interval_s=every))


COMMANDS: tuple[click.Command, ...] = (sadf, iostat)
"""What the verb `import` has for samples."""


def _import(flags: Flags, read: Callable[[str, str], SampleFile]) -> None:
    from pgdyno.cli.requests.study import print_result
    from pgdyno.studies.imported.samples import import_samples, named

    texts = read_outputs(flags.paths("files"), "Name a file that this user may read.")
    files = [named(path.name, text, read(text, str(path))) for path, text in texts]
    with open_store(flags.text("store_url")) as store:
        result = import_samples(store, files, target=flags.text("label") or "")
        print_result(store, result, flags.on("as_json"))
