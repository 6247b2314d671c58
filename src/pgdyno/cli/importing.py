"""`pgdyno import TOOL FILE ...`: runs of other tools, read into the same store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import Flags
from pgdyno.cli.arguments.numbers import Time
from pgdyno.cli.arguments.store import open_store, store_option
from pgdyno.cli.terminal.files import read_outputs, read_text
from pgdyno.model.matrix import BASELINE_NAME, MODES

if TYPE_CHECKING:
    from pgdyno.probes.evidence.sample_files import SampleFile

_FILES = click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
_LABEL = click.option("--label", help="The machine that they are of: the page shows it as the target.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group("import")
def command() -> None:
    """Read what other tools measured into the store. Nothing is measured, and no server is asked."""


@command.command("sadf")
@_FILES
@_LABEL
@_JSON
@store_option
def sadf(**values: object) -> None:
    """Import what sar recorded on another machine, as `sadf -j saDD -- -A` prints it: one run a file."""
    from pgdyno.probes.evidence.sample_files import read_sadf

    _import(Flags(values), lambda text, path: read_sadf(text, source=path))


@command.command("iostat")
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
    _import(flags, lambda text, path: read_iostat(text, source=path, interval_s=flags.number("interval")))


@command.command("hammerdb")
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
@click.option("--label", help="What the runs were made on: the page shows it as the target.")
@_JSON
@store_option
def hammerdb(**values: object) -> None:
    """Import logs and JSON results of HammerDB's TPROC-C as one study of kind imported.

    A log is what a timed test prints (vuset showoutput 1, or the file of vuset logtotemp 1); JSON is what the jobs
    commands (result, summaryjson) and the web service give. One file may hold several runs. The time profile
    (hdbxtprofile.log) is given beside the log of the same tests.
    """
    from pgdyno.cli.requests.study import print_result
    from pgdyno.studies.imported.hammerdb import ImportedFile, import_hammerdb
    from pgdyno.workloads.hammerdb.results import parse_files

    flags = Flags(values)
    texts = read_outputs(flags.paths("files"), "Name a log or a JSON file of HammerDB.")
    runs = parse_files([(str(path), text) for path, text in texts])
    files = [ImportedFile(path.name, text, found) for (path, text), found in zip(texts, runs, strict=True)]
    with open_store(flags.text("store_url")) as store:
        result = import_hammerdb(store, files, target=flags.text("label") or "")
        print_result(store, result, flags.on("as_json"))


@command.command("rows")
@click.argument("file", type=click.Path(), metavar="FILE")
@click.option("--table", metavar="NAME", help="Which table of a JSON file that holds several.")
@click.option("-b", "--mode", type=click.Choice(MODES), default="tpcb-like", show_default=True,
              help="pgbench's script, where no column tells it.")  # fmt: skip
@click.option("-s", "--scale", type=click.IntRange(min=1), required=True,
              help="Scale of pgbench's tables, where no column tells it.")  # fmt: skip
@click.option("--default", "default", default=BASELINE_NAME, show_default=True, metavar="TEST",
              help="Which test is the default configuration: the others are compared with it.")  # fmt: skip
@click.option("--label", help="What the rows were measured on: the page shows it as the target.")
@_JSON
@store_option
def rows(**values: object) -> None:
    """Import the rows of a matrix that was printed elsewhere, as CSV or JSON: pgdyno computes what follows from them.

    Columns are those of a matrix's own table (Test, PODs, C/J, TPS, LAT, CPU %, SMT, Row Exclusive, Access Share,
    Exclusive Lock), and mode, placement, scale, cores and vcpus; only C/J and TPS have to be there. Two such matrices
    are compared by pgdyno compare --platforms.
    """
    from pgdyno.cli.requests.study import print_result
    from pgdyno.studies.matrix.printed_rows import PrintedTable, import_rows, read_table

    flags = Flags(values)
    path = Path(flags.text("file") or "")
    text = read_text(path, hint="Name a CSV or JSON file of rows.")
    plain = PrintedTable(flags.choice("mode"), flags.whole("scale"), flags.text("default") or BASELINE_NAME)
    found = read_table(text, path.name, plain, flags.text("table") or "")
    with open_store(flags.text("store_url")) as store:
        result = import_rows(store, found, name=path.name, text=text, target=flags.text("label") or "")
        print_result(store, result, flags.on("as_json"))


@command.command("pods")
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
@click.option("--label", help="The server that the pods loaded: the page shows it as the target.")
@_JSON
@store_option
def pods(**values: object) -> int:
    """Import what the pods of matrix --manifests printed, one file a pod, as one matrix.

    run.sh beside the manifests fetches it into logs/. Exit code 0 when every row is complete, 3 when some are not.
    """
    from pgdyno.cli.requests.study import print_result
    from pgdyno.fleet.pod_log import read_pod
    from pgdyno.studies.matrix.imported_pods import import_pods

    flags = Flags(values)
    texts = read_outputs(flags.paths("files"), "Name what kubectl logs printed.")
    files = [(read_pod(text, name=path.name), text) for path, text in texts]
    with open_store(flags.text("store_url")) as store:
        result = import_pods(store, files, target=flags.text("label") or "")
        print_result(store, result, flags.on("as_json"))
    return int(result.exit_code)


def _import(flags: Flags, read: Callable[[str, str], SampleFile]) -> None:
    from pgdyno.cli.requests.study import print_result
    from pgdyno.studies.imported.samples import import_samples, named

    texts = read_outputs(flags.paths("files"), "Name a file that this user may read.")
    files = [named(path.name, text, read(text, str(path))) for path, text in texts]
    with open_store(flags.text("store_url")) as store:
        result = import_samples(store, files, target=flags.text("label") or "")
        print_result(store, result, flags.on("as_json"))
