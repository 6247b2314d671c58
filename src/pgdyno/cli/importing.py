"""`pgdyno import TOOL FILE ...`: runs of other tools, read into the same store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import JsonFlag, argument, flag, verb
from pgdyno.cli.arguments.numbers import Time
from pgdyno.cli.arguments.store import StoreFlag, open_store
from pgdyno.cli.terminal.files import read_outputs, read_text
from pgdyno.model.matrix import BASELINE_NAME, MODES

if TYPE_CHECKING:
    from pgdyno.probes.evidence.sample_files import SampleFile


@click.group("import")
def command() -> None:
    """Read what other tools measured into the store. Nothing is measured, and no server is asked."""


class _SamplesFlags(JsonFlag, StoreFlag):
    files: tuple[Path, ...] = argument("FILE...")
    label: str | None = flag("The machine that they are of: the page shows it as the target.")


@verb("sadf", command)
def sadf(flags: _SamplesFlags) -> None:
    """Import what sar recorded on another machine, as `sadf -j saDD -- -A` prints it: one run per file."""
    from pgdyno.probes.evidence.sample_files import read_sadf

    _import(flags, lambda text, path: read_sadf(text, source=path))


class _IostatFlags(_SamplesFlags):
    interval: float | None = flag("Time between two reports, if they have no times.", type=Time("s", 0, min_open=True))


@verb("iostat", command)
def iostat(flags: _IostatFlags) -> None:
    """Import reports of `iostat -x -t` of another machine: one run per file."""
    from pgdyno.probes.evidence.sample_files import read_iostat

    _import(flags, lambda text, path: read_iostat(text, source=path, interval_s=flags.interval))


class _HammerdbFlags(JsonFlag, StoreFlag):
    files: tuple[Path, ...] = argument("FILE...")
    label: str | None = flag("What the runs were made on: the page shows it as the target.")


@verb("hammerdb", command)
def hammerdb(flags: _HammerdbFlags) -> None:
    """Import logs and JSON results of HammerDB's TPROC-C as one study of kind imported.

    A log is what a timed test prints (vuset showoutput 1, or the file of vuset logtotemp 1); JSON is what the jobs
    commands (result, summaryjson) and the web service give. One file may hold several runs. The time profile
    (hdbxtprofile.log) is given beside the log of the same tests.
    """
    from pgdyno.cli.requests.study import print_result
    from pgdyno.studies.imported.hammerdb import ImportedFile, import_hammerdb
    from pgdyno.workloads.hammerdb.results import parse_files

    texts = read_outputs(flags.files, "Name a log or a JSON file of HammerDB.")
    runs = parse_files([(str(path), text) for path, text in texts])
    files = [ImportedFile(path.name, text, found) for (path, text), found in zip(texts, runs, strict=True)]
    with open_store(flags.store_url) as store:
        result = import_hammerdb(store, files, target=flags.label or "")
        print_result(store, result, flags.as_json)


class _RowsFlags(JsonFlag, StoreFlag):
    file: Path = argument("FILE")
    table: str | None = flag("Which table of a JSON file that holds several.", metavar="NAME")
    mode: str = flag(
        "pgbench's script, if no column has it.", "-b", "--mode", default="tpcb-like", type=click.Choice(MODES)
    )
    scale: int = flag("Scale of pgbench's tables, if no column has it.", "-s", "--scale", type=click.IntRange(min=1))
    default: str = flag(
        "Which test is the default configuration: the others are compared with it.",
        default=BASELINE_NAME,
        metavar="TEST",
    )
    label: str | None = flag("What the rows were measured on: the page shows it as the target.")


@verb("rows", command)
def rows(flags: _RowsFlags) -> None:
    """Import the rows of a matrix that was printed elsewhere, as CSV or JSON: pgdyno computes what follows from them.

    Columns are those of a matrix's own table (Test, PODs, C/J, TPS, LAT, CPU %, SMT, Row Exclusive, Access Share,
    Exclusive Lock), and mode, placement, scale, cores and vcpus; only C/J and TPS have to be there. Two such matrices
    are compared by pgdyno compare --platforms.
    """
    from pgdyno.cli.requests.study import print_result
    from pgdyno.studies.matrix.printed_rows import PrintedTable, import_rows, read_table

    text = read_text(flags.file, hint="Name a CSV or JSON file of rows.")
    plain = PrintedTable(flags.mode, flags.scale, flags.default or BASELINE_NAME)
    found = read_table(text, flags.file.name, plain, flags.table or "")
    with open_store(flags.store_url) as store:
        result = import_rows(store, found, name=flags.file.name, text=text, target=flags.label or "")
        print_result(store, result, flags.as_json)


class _PodsFlags(JsonFlag, StoreFlag):
    files: tuple[Path, ...] = argument("FILE...")
    label: str | None = flag("The server that the pods loaded: the page shows it as the target.")


@verb("pods", command)
def pods(flags: _PodsFlags) -> int:
    """Import what the pods of matrix --manifests printed, one file per pod, as one matrix.

    run.sh beside the manifests fetches it into logs/. Exit code 0 when every row is complete, 3 when some are not.
    """
    from pgdyno.cli.requests.study import print_result
    from pgdyno.fleet.pod_log import read_pod
    from pgdyno.studies.matrix.imported_pods import import_pods

    texts = read_outputs(flags.files, "Name what kubectl logs printed.")
    files = [(read_pod(text, name=path.name), text) for path, text in texts]
    with open_store(flags.store_url) as store:
        result = import_pods(store, files, target=flags.label or "")
        print_result(store, result, flags.as_json)
    return int(result.exit_code)


def _import(flags: _SamplesFlags, read: Callable[[str, str], SampleFile]) -> None:
    from pgdyno.cli.requests.study import print_result
    from pgdyno.studies.imported.samples import import_samples, named

    texts = read_outputs(flags.files, "Name a file that this user may read.")
    files = [named(path.name, text, read(text, str(path))) for path, text in texts]
    with open_store(flags.store_url) as store:
        result = import_samples(store, files, target=flags.label or "")
        print_result(store, result, flags.as_json)
