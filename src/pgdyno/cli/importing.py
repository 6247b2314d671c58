"""`pgdyno import TOOL FILE ...`: runs of other tools, read into the same store."""

from __future__ import annotations

from pathlib import Path

import click

from pgdyno.cli.flags import Flags
from pgdyno.cli.import_samples import COMMANDS
from pgdyno.cli.options import open_store, store_option
from pgdyno.errors import UsageError


@click.group("import")
def command() -> None:
    """Read what other tools measured into the store. Nothing is measured, and no server is asked."""


for samples in COMMANDS:
    command.add_command(samples)


@command.command("hammerdb")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--label", help="What the runs were made on: the page shows it as the target.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_option
def hammerdb(**values: object) -> None:
    """Import logs and JSON results of HammerDB's TPROC-C as one study of kind imported.

    A log is what a timed test prints (vuset showoutput 1, or the file of vuset logtotemp 1); JSON is what the jobs
    command and the web service give. One file may hold several runs.
    """
    from pgdyno.cli.study import print_result
    from pgdyno.studies.imported import ImportedFile, import_hammerdb
    from pgdyno.workloads.hammerdb.results import parse_results

    flags = Flags(values)
    texts = [(path, _read(path)) for path in flags.paths("files")]
    files = [ImportedFile(path.name, text, parse_results(text, source=str(path))) for path, text in texts]
    with open_store(flags.text("store_url")) as store:
        result = import_hammerdb(store, files, target=flags.text("label") or "")
        print_result(store, result, flags.on("as_json"))


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise UsageError(
            f'file "{path}" cannot be read', detail=error.strerror, hint="Name a log or a JSON file of HammerDB."
        ) from error
