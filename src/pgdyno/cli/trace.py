"""`pgdyno trace build|show|check|cut`: server logs as a trace, and what is in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import NEW_FILE, Flags, JsonFlag, argument, flag, verb
from pgdyno.cli.arguments.numbers import Finite
from pgdyno.cli.terminal.reporting import emit
from pgdyno.units import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgdyno.trace.build import BuildOptions
    from pgdyno.trace.schema import TraceMeta


@click.group("trace")
def command() -> None:
    """Build a trace from server logs, and say what it holds.

    A trace is NAME.parquet, one row per statement, with NAME.json beside it; both hold what users typed, and only their
    owner can read them. Any tool that reads Parquet can ask it questions.
    """


class _ReadingFlags(Flags):
    prefix: str | None = flag("log_line_prefix of a log to stderr; with %m or %n, and %c or %p.", metavar="TEXT")
    encodings: tuple[str, ...] = flag(
        "Encoding of a database that is not UTF8, such as old=LATIN1.", "--encoding", metavar="DB=NAME"
    )
    log_timezone: str | None = flag("log_timezone of the server, where it is not UTC.", metavar="ZONE")
    allow_truncated: bool = flag("Keep statements whose values are truncated in the log.")
    builder: str | None = flag(
        "Which builder reads the logs; by default the compiled one where possible.",
        type=click.Choice(("python", "compiled")),
    )


class _OutputFlag(Flags):
    output: Path = flag("Write the trace here; NAME must not exist yet.", "-o", metavar="NAME.parquet")


class _BuildFlags(_OutputFlag, _ReadingFlags, JsonFlag):
    logs: tuple[Path, ...] = argument("LOG...")
    captured_level: float = flag(
        "Load level of the logged time, in percent of production.",
        default=100.0,
        type=Finite(0.001, 1e6),
    )


@verb("build", command)
def build(flags: _BuildFlags) -> int:
    """Make a trace of logs: csvlog, jsonlog, or stderr with --prefix, of any supported PostgreSQL.

    LOG may be several rotated files, packed by gzip or zstd, or the folder of a pgdyno capture. The server must have
    logged every statement with its duration: log_min_duration_statement = 0, with or without log_statement = all. With
    log_statement = all by itself, as pgreplay wants it, statements have no durations.
    Exit code 1 where something of the load is not in the trace.
    """
    from dataclasses import replace

    from pgdyno.trace.build import build_trace

    out = _new_trace(flags.output)
    options = _options(flags, flags.captured_level)
    if not flags.as_json:
        options = replace(options, tell=lambda words: click.echo(f"built by: {words}", err=True))
    meta = build_trace(flags.logs, out, options)
    return _tell(meta, out, as_json=flags.as_json)


class _CheckFlags(_ReadingFlags, JsonFlag):
    paths: tuple[Path, ...] = argument("TRACE|LOG...")


@verb("check", command)
def check(flags: _CheckFlags) -> int:
    """Say whether a trace, or what logs would come to, has all that ran: exit code 1 where something is missing."""
    from pgdyno.owner.temporary import temporary
    from pgdyno.trace.build import build_trace
    from pgdyno.trace.whole import verify_trace

    paths = flags.paths
    if len(paths) == 1 and paths[0].suffix == ".parquet":
        return _tell(verify_trace(paths[0]), paths[0], as_json=flags.as_json)
    with temporary("trace") as folder:
        meta = build_trace(paths, folder / "checked.parquet", _options(flags))
    return _tell(meta, None, as_json=flags.as_json)


class _ShowFlags(JsonFlag):
    trace: Path = argument("TRACE")
    with_values: bool = flag("Show constants of statements, which users typed.", "--values")
    report: Path | None = flag("Write the report: .html, .md, .pdf.", type=NEW_FILE, metavar="FILE")


@verb("show", command)
def show(flags: _ShowFlags) -> None:
    """Show what a trace holds: sessions and statements over time, classes, errors, pace, and what is not replayed."""
    from dataclasses import asdict

    from pgdyno.report.trace_page import trace_page
    from pgdyno.trace.summary import summarize

    summary = summarize(flags.trace, values=flags.with_values)
    if flags.report is not None:
        emit(trace_page(summary, flags.trace.stem), None, flags.report)
    if flags.as_json:
        click.echo(json.dumps(asdict(summary)))
    elif flags.report is None:
        emit(trace_page(summary, flags.trace.stem), "text", None)


class _CutFlags(_OutputFlag, JsonFlag):
    trace: Path = argument("TRACE")
    from_s: float | None = flag(
        "Start, in seconds of the trace.", "--from", type=click.FloatRange(0), metavar="SECONDS"
    )
    to_s: float | None = flag("End, in seconds of the trace.", "--to", type=click.FloatRange(0), metavar="SECONDS")
    users: tuple[str, ...] = flag("Only this role's statements; may be given again.", "--user")
    databases: tuple[str, ...] = flag("Only this database.", "--database")
    applications: tuple[str, ...] = flag("Only this application_name.", "--application")
    read_only: bool = flag("Never send statements that write; they stay in the trace as refused.")
    mask: bool = flag("Replace constants and values so that the trace can be handed on; it cannot be replayed.")


@verb("cut", command)
def cut(flags: _CutFlags) -> None:
    """Make a trace of a part of a trace: whole sessions that match, within a time."""
    from pgdyno.trace.cut import CutOptions, cut_trace

    out = _new_trace(flags.output)
    meta = cut_trace(flags.trace, out, flags.into(CutOptions))
    _tell(meta, out, as_json=flags.as_json)


def _options(flags: _ReadingFlags, captured_level: float = 100.0) -> BuildOptions:
    from pgdyno.errors import UsageError
    from pgdyno.trace.build import BuildOptions
    from pgdyno.trace.logs import codec

    encodings = dict[str, str]()
    for word in flags.encodings:
        database, equals, name = word.rpartition("=")
        if not equals or not database:
            raise UsageError(f'--encoding "{word}" names no database', hint="Write it as --encoding shop=LATIN1.")
        encodings[database] = codec(name)
    return flags.into(BuildOptions, encodings=encodings, captured_level=captured_level)


def _new_trace(path: Path) -> Path:
    """Return where a trace goes, if neither of its two files is there: as `capture.json` is in a capture's folder."""
    from os.path import lexists

    from pgdyno.errors import UsageError
    from pgdyno.trace.parquet import meta_path

    if path.suffix != ".parquet":
        raise UsageError(f'--output "{path}" does not end in .parquet', hint=f"Write --output {path.stem}.parquet.")
    for file in (path, meta_path(path)):
        if lexists(file):
            raise UsageError(f'"{file}" already exists', hint="Name another --output, or move that one away.")
    return path


def _tell(meta: TraceMeta, out: Path | None, *, as_json: bool) -> int:
    """Print what was made, and what is missing; return the exit code."""
    from dataclasses import asdict

    from pgdyno.errors import ExitCode
    from pgdyno.trace.whole import cut_words, hint, missing_words

    lost = missing_words(meta)
    if as_json:
        click.echo(json.dumps(asdict(meta) | {"whole": not lost}))
    else:
        told: Sequence[str] = (
            f"{meta.style}: {plural(meta.statements, 'statement')}, {plural(meta.sessions, 'session')},"
            f" {plural(meta.transactions, 'transaction')}, {plural(meta.errors, 'error')} in {meta.seconds:,.1f} s",
            *(f"never sent again: {count:,} ({reason})" for reason, count in meta.refused.items()),
        )
        for line in told:
            click.echo(line)
    for words in cut_words(meta.lost):
        click.echo(f"cut: {words}", err=True)
    for words in lost:
        click.echo(f"missing: {words}", err=True)
    if lost:
        click.echo(f"hint: {hint(meta)}", err=True)
    if out is not None and not as_json:
        click.echo(f"trace: {out}", err=True)
    return int(ExitCode.FINDINGS if lost else ExitCode.OK)
