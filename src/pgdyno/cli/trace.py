"""`pgdyno trace build|show|check|cut`: server logs as a trace, and what is in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import Flags
from pgdyno.cli.terminal.reporting import emit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgdyno.trace.build import BuildOptions
    from pgdyno.trace.schema import TraceMeta


@click.group("trace")
def command() -> None:
    """Make a trace of server logs, and say what it holds.

    A trace is NAME.parquet, one row a statement, with NAME.json beside it; both hold what users typed, and only their
    owner can read them. Any tool that reads Parquet can ask it questions.
    """


_LOGS = click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=click.Path(path_type=Path))
_TRACE = click.argument("trace", metavar="TRACE", type=click.Path(path_type=Path))
_OUTPUT = click.option("--output", "-o", required=True, metavar="NAME.parquet", type=click.Path(path_type=Path),
                       help="Write the trace here.")  # fmt: skip
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_READING = (
    click.option("--prefix", metavar="TEXT", help="log_line_prefix of a log to stderr; with %m or %n, and %c or %p."),
    click.option("--encoding", "encodings", multiple=True, metavar="DB=NAME",
                 help="Encoding of a database that is not UTF8, such as old=LATIN1."),
    click.option("--log-timezone", metavar="ZONE", help="log_timezone of the server, where it is not UTC."),
    click.option("--allow-truncated", is_flag=True, help="Keep statements whose values the log cut."),
)  # fmt: skip


@command.command("build")
@_LOGS
@_OUTPUT
@_READING[0]
@_READING[1]
@_READING[2]
@_READING[3]
@click.option("--captured-level", type=click.FloatRange(0, min_open=True), default=100.0, show_default=True,
              help="Per cent of production's rate that the logged time stands for.")  # fmt: skip
@_JSON
def build(**values: object) -> int:
    """Make a trace of logs: csvlog, jsonlog, or stderr with --prefix, of PostgreSQL 13 to 18.

    LOG may be several rotated files, packed by gzip or zstd, or the folder of a pgdyno capture. The server must have
    logged every statement with its duration: log_min_duration_statement = 0, with or without log_statement = all.
    Exit code 1 where something of the load is not in the trace.
    """
    from pgdyno.trace.build import build_trace

    flags = Flags(values)
    out = _trace_name(Path(flags.choice("output")))
    meta = build_trace(flags.paths("logs"), out, _options(flags))
    return _tell(meta, out, as_json=flags.on("as_json"))


@command.command("check")
@click.argument("paths", metavar="TRACE|LOG...", nargs=-1, required=True, type=click.Path(path_type=Path))
@_READING[0]
@_READING[1]
@_READING[2]
@_READING[3]
@_JSON
def check(**values: object) -> int:
    """Say whether a trace, or what logs would come to, has all that ran: exit code 1 where something is missing."""
    from tempfile import TemporaryDirectory

    from pgdyno.trace.build import build_trace
    from pgdyno.trace.verify import verify_trace

    flags = Flags(values)
    paths = flags.paths("paths")
    if len(paths) == 1 and paths[0].suffix == ".parquet":
        return _tell(verify_trace(paths[0]), paths[0], as_json=flags.on("as_json"))
    with TemporaryDirectory() as folder:
        meta = build_trace(paths, Path(folder) / "checked.parquet", _options(flags))
    return _tell(meta, None, as_json=flags.on("as_json"))


@command.command("show")
@_TRACE
@click.option("--values", "with_values", is_flag=True, help="Show constants of statements, which users typed.")
@_JSON
@click.option("--report", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
              help="Write the report: .html, .md, .pdf.")  # fmt: skip
def show(**values: object) -> None:
    """Show what a trace holds: sessions and statements over time, classes, errors, pace, and what is not replayed."""
    from dataclasses import asdict

    from pgdyno.cli.terminal.reporting import format_of
    from pgdyno.report.trace_page import trace_page
    from pgdyno.trace.summary import summarize

    flags = Flags(values)
    trace = Path(flags.choice("trace"))
    summary = summarize(trace, values=flags.on("with_values"))
    report = flags.path("report")
    if report is not None:
        emit(trace_page(summary, trace.stem), format_of(None, report), report)
    if flags.on("as_json"):
        click.echo(json.dumps(asdict(summary)))
    elif report is None:
        emit(trace_page(summary, trace.stem), "text", None)


@command.command("cut")
@_TRACE
@_OUTPUT
@click.option("--from", "from_s", metavar="SECONDS", type=click.FloatRange(0), help="From here, after its begin.")
@click.option("--to", "to_s", metavar="SECONDS", type=click.FloatRange(0), help="Up to here.")
@click.option("--user", "users", multiple=True, help="Only this role's statements; again for more.")
@click.option("--database", "databases", multiple=True, help="Only this database.")
@click.option("--application", "applications", multiple=True, help="Only this application_name.")
@click.option("--read-only", is_flag=True, help="Send nothing that writes: such statements stay as rows, refused.")
@click.option("--mask", is_flag=True, help="Replace constants and values, to hand the trace on; it is not replayable.")
@_JSON
def cut(**values: object) -> None:
    """Make a trace of a part of a trace: whole sessions that match, within a time."""
    from pgdyno.trace.cut import CutOptions, cut_trace

    flags = Flags(values)
    options = CutOptions(
        from_s=flags.number("from_s"),
        to_s=flags.number("to_s"),
        users=flags.words("users"),
        databases=flags.words("databases"),
        applications=flags.words("applications"),
        read_only=flags.on("read_only"),
        mask=flags.on("mask"),
    )
    out = _trace_name(Path(flags.choice("output")))
    meta = cut_trace(Path(flags.choice("trace")), out, options)
    _tell(meta, out, as_json=flags.on("as_json"))


def _options(flags: Flags) -> BuildOptions:
    from pgdyno.errors import UsageError
    from pgdyno.trace.build import BuildOptions
    from pgdyno.trace.logs import codec

    encodings = dict[str, str]()
    for word in flags.words("encodings"):
        database, equals, name = word.rpartition("=")
        if not equals or not database:
            raise UsageError(f'--encoding "{word}" names no database', hint="Write it as --encoding shop=LATIN1.")
        encodings[database] = codec(name)
    level = flags.number("captured_level") if "captured_level" in flags.values else None
    return BuildOptions(
        encodings=encodings,
        log_timezone=flags.text("log_timezone"),
        prefix=flags.text("prefix"),
        allow_truncated=flags.on("allow_truncated"),
        captured_level=100.0 if level is None else level,
    )


def _trace_name(path: Path) -> Path:
    from pgdyno.errors import UsageError

    if path.suffix != ".parquet":
        raise UsageError(f'--output "{path}" does not end in .parquet', hint=f"Write --output {path.stem}.parquet.")
    return path


def _tell(meta: TraceMeta, out: Path | None, *, as_json: bool) -> int:
    """Print what was made, and what is missing; return the exit code."""
    from dataclasses import asdict

    from pgdyno.errors import ExitCode
    from pgdyno.trace.whole import cut_words, hint, missing_words

    lost = missing_words(meta.lost)
    if as_json:
        click.echo(json.dumps(asdict(meta) | {"whole": not lost}))
    else:
        told: Sequence[str] = (
            f"{meta.style}: {meta.statements:,} statements, {meta.sessions:,} sessions,"
            f" {meta.transactions:,} transactions, {meta.errors:,} errors in {meta.seconds:,.1f} s",
            *(f"never sent again: {count:,} ({reason})" for reason, count in meta.refused.items()),
        )
        for line in told:
            click.echo(line)
    for words in cut_words(meta.lost):
        click.echo(f"cut: {words}", err=True)
    for words in lost:
        click.echo(f"missing: {words}", err=True)
    if lost:
        click.echo(f"hint: {hint(meta.lost)}", err=True)
    if out is not None and not as_json:
        click.echo(f"trace: {out}", err=True)
    return int(ExitCode.FINDINGS if lost else ExitCode.OK)
