"""Say whether a trace has all that its log had, in words, and whether its file is the one that its facts are about."""

from __future__ import annotations

from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.outside.files import open_file
from pgdyno.owner.temporary import temporary
from pgdyno.trace.parquet import connection, digest_of, read_meta, trace_source
from pgdyno.trace.schema import Lost, TraceMeta
from pgdyno.units import plural

_MISSING = {
    "not_english": ("line", "of sessions whose messages are not in English, whose statements are not recognised"),
    "truncated": ("statement", "whose text or values the log truncated or left out"),
    "slow_alone": ("statement", "logged, each of 1 ms or more: quicker ones seem to be left out"),
    "changes_alone": ("statement", "logged, none of which reads or begins a transaction: others seem to be left out"),
    "unreadable": ("record", "that the log does not have as lines of its own"),
    "without_params": ("statement", "whose bound values are not in the log"),
    "unworded": ("statement", "that failed, whose text the log does not have"),
    "gaps": ("line", "missing within sessions"),
}
_CUT = {
    "cut_sessions": ("session", "that began before the log, or before the time of a cut"),
    "cut_statements": ("statement", "cut off by the beginning or the end of the log"),
}
HINTS = {
    "truncated": "Set log_parameter_max_length = -1, and capture again.",
    "slow_alone": "Set log_min_duration_statement = 0, and capture again, unless the load has no quick statement.",
    "changes_alone": "Set log_min_duration_statement = 0, and capture again: log_statement = mod leaves reads out.",
    "unreadable": "Look whether the files are whole, and whether --prefix is the server's log_line_prefix.",
    "without_params": "Set log_parameter_max_length_on_error = -1, so that values of failed statements are logged. "
    "Where one of them could not be read, as a word for a number, PostgreSQL logs that one at most.",
    "unworded": "Set log_min_error_statement = error, so that the texts of failed statements are logged.",
    "not_english": "See which roles or databases have an lc_messages of their own (psql: \\drds), and capture again.",
    "gaps": "The server's log collector lost lines, or a file is missing: name all files of the time.",
}
HOLE_HINT = "Take that setting back, and capture again; pgdyno capture check names such gaps beforehand."


def missing(lost: Lost) -> dict[str, int]:
    """Return what was in the load and is not in the trace, by field of `Lost`: with any of it a trace is not whole."""
    return {name: count for name in _MISSING if (count := getattr(lost, name))}


def missing_words(meta: TraceMeta) -> list[str]:
    """Return what is missing, a phrase each. How much the sessions of a hole ran is in no log."""
    return [
        *(_words(count, *_MISSING[name]) for name, count in missing(meta.lost).items()),
        *(f"statements of sessions that are not logged like the others: {_setting_of(hole)}" for hole in meta.holes),
    ]


def cut_words(lost: Lost) -> list[str]:
    """Return what the edges of the log cut: every capture of a server that runs has such."""
    return [_words(count, *words) for name, words in _CUT.items() if (count := getattr(lost, name))]


def require_replayable(trace: Path, meta: TraceMeta) -> None:
    """Raise UsageError for a trace whose statements are not those that were sent, not all of them, or all refused."""
    if meta.masked:
        raise UsageError(
            f'"{trace}" is masked: its values are not those that were sent',
            hint="Replay the trace that it was cut from.",
        )
    if meta.sampled is not None:
        raise UsageError(
            f'"{trace}" is a sample, {sampled_text(meta.sampled)}: what the others changed is missing',
            hint="Capture without --sampled; a sample is for response times (pgdyno trace show).",
        )
    if meta.lost.truncated:
        raise UsageError(
            f'"{trace}" has only a part of {plural(meta.lost.truncated, "statement")} or their values',
            hint=HINTS["truncated"],
        )
    if meta.statements <= sum(meta.refused.values()):
        raise UsageError(
            f'"{trace}" has no statement that may be sent',
            detail="; ".join(f"{count:,}: {reason}" for reason, count in meta.refused.items()) or None,
            hint="Capture while users are at work, or cut less away: pgdyno trace show lists what it holds.",
        )


def sampled_text(share: float) -> str:
    """Return how much of a load a sample has: `0.5 % of the transactions`."""
    return f"{100 * share:g} % of the transactions"


def _words(count: int, noun: str, said: str) -> str:
    return f"{plural(count, noun)} {said}"


def _setting_of(hole: str) -> str:
    """Return the statement that a record's words begin with."""
    return hole.rpartition(": ")[0] or hole


def hint(meta: TraceMeta) -> str:
    """Return what to do about the first thing that is missing."""
    return next((HINTS[name] for name in missing(meta.lost)), HOLE_HINT if meta.holes else "")


_TOGETHER = "Make it again with pgdyno trace build; NAME.json and NAME.parquet belong together."


def require_own_file(trace: Path, meta: TraceMeta) -> None:
    """Raise UsageError where the file of a trace is not the one that its facts are about."""
    try:
        with open_file(trace) as file:
            digest = digest_of(file)
    except OSError as error:
        raise UsageError(f'trace "{trace}" cannot be read', detail=error.strerror) from error
    if digest != meta.digest:
        raise UsageError(
            f'trace "{trace}" is not the file that "{trace.with_suffix(".json").name}" is about', hint=_TOGETHER
        )


def verify_trace(trace: Path) -> TraceMeta:
    """Return the facts of a trace. Raises UsageError where its file is another one, or has other rows."""
    meta = read_meta(trace)
    require_own_file(trace, meta)
    of = "temporary files"
    with temporary("trace") as folder, connection(folder, of=of) as db, trace_source(trace, db) as source:
        statements, sessions = db.execute(
            f"SELECT count(*) FILTER (kind IN ('simple', 'parse', 'extended')), count(DISTINCT session) FROM {source}"
        ).fetchall()[0]
    if (statements, sessions) != (meta.statements, meta.sessions):
        raise UsageError(
            f'trace "{trace}" has {statements} statements of {sessions} sessions, its facts say {meta.statements} of'
            f" {meta.sessions}",
            hint=_TOGETHER,
        )
    return meta
