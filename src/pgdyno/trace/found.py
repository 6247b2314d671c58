"""What a builder found in logs, and whether that is a trace; the same whichever builder read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.errors import UsageError
from pgdyno.trace.capture_record import CaptureRecord
from pgdyno.trace.parquet import connection, trace_source
from pgdyno.trace.schema import TRACE_VERSION, CapturedServer, Lost, TraceMeta
from pgdyno.units import plural

if TYPE_CHECKING:
    from pgdyno.trace.parquet import Connection


_MANY, _LONG_US = 10, 1000
"""So many statements of a load, and not one that took less than a millisecond: none has so few quick ones."""
_UNCHANGING = (
    r"(?i)^(?:\s|\(|/\*[^*]*\*/|--[^\n]*\n)*(?:select|values|table|begin|start|commit|end|rollback|abort|savepoint|release"
    r"|set|reset|show|declare|fetch|move|close|lock|do|call|vacuum|analyze|listen|notify|unlisten|discard|deallocate)\b"
)
"""Texts of which log_statement = mod and ddl log none."""
_QUICK_UNCHANGING = f"""
SELECT count(*) FROM {{trace}} WHERE kind IN ('simple', 'extended') AND sqlstate IS NULL
  AND coalesce(execute_us, 0) < {_LONG_US} AND regexp_matches(sql, '{_UNCHANGING}')
"""


@dataclass(frozen=True, slots=True)
class FoundLoad:
    """What logs came to, before the trace is written."""

    begin: int
    """Microseconds since 1970."""
    end: int
    sessions: int
    statements: int
    transactions: int
    errors: int
    lines: int
    alone: int
    """Lines that have a duration alone, as style A has them."""
    whole: int
    """Lines that have duration and text."""
    quickest: int
    """The shortest duration, in microseconds."""
    cut_values: int
    """Values that end as the server cuts them, and none of which is longer."""
    lost: Lost
    refused: Mapping[str, int] = field(default_factory=dict)
    keys_unplaced: int = 0
    """Transactions with keys whose statements nobody can tell."""


def checked(found: FoundLoad, record: CaptureRecord | None, *, allow_truncated: bool) -> FoundLoad:
    """Return what was found with the values that the server cut counted. Raises UsageError where it is no trace."""
    if found.statements <= found.errors:
        raise UsageError(
            "no statement is recognised in the log" + (" but such that failed" if found.errors else ""),
            detail=f"Lines were read: {found.lines}.",
            hint="A trace needs log_min_duration_statement = 0, and lc_messages in English.",
        )
    lost = found.lost
    if record is None and not found.alone and found.whole >= _MANY and found.quickest >= _LONG_US:
        lost = replace(lost, slow_alone=found.whole)
    if not _has_durations(found):  # nothing tells that a statement has ended
        lost = replace(lost, cut_statements=0)
    if record is None or record.logging.get("log_parameter_max_length") != "-1":
        lost = replace(lost, truncated=lost.truncated + found.cut_values)
    if lost.truncated and not allow_truncated:
        raise UsageError(
            f"the log has only a part of {plural(lost.truncated, 'statement')} or their values",
            detail="The server cut values or left them out (log_parameter_max_length; of a log to stderr also"
            " log_error_verbosity), or logged durations without texts.",
            hint="Capture with log_parameter_max_length = -1; --allow-truncated makes a trace that can be viewed.",
        )
    return replace(found, lost=lost)


def with_changes_alone(found: FoundLoad, record: CaptureRecord | None, trace: Path) -> FoundLoad:
    """Return what was found with its statements counted where the log has changes alone, besides slow statements."""
    may_be = not _has_durations(found) or (found.whole and found.quickest >= _LONG_US)
    if record is not None or not may_be or found.lost.slow_alone or found.statements < _MANY:
        return found
    with connection() as db, trace_source(trace, db) as source:
        ((others,),) = db.execute(_QUICK_UNCHANGING.format(trace=source)).fetchall()
    return found if others else replace(found, lost=replace(found.lost, changes_alone=found.statements))


def meta_of(
    found: FoundLoad, log_format: str, record: CaptureRecord | None, *, captured_level: float, digest: str
) -> TraceMeta:
    """Return the facts that stand beside a trace.

    `found` is what the logs came to, `log_format` is theirs (csvlog, jsonlog or stderr), and `record` what pgdyno kept
    beside them, None for logs that it did not capture. `captured_level` is in per cent of the production's rate,
    `digest` the SHA-256 of the Parquet file.
    """
    return TraceMeta(
        version=TRACE_VERSION,
        key_tables=record.key_tables if record else (),
        key_links=record.key_links if record else (),
        cached=record.cached if record else (),
        cache_unread=record.cache_unread if record else "",
        captured_server=record.server if record else CapturedServer(),
        captured_until=_reached(record) if record else "",
        holes=record.holes if record else (),
        keys_unplaced=found.keys_unplaced,
        style=f"{log_format} {_style(found)}",
        server_version=record.server_version if record else None,
        system_identifier=record.system_identifier if record else None,
        begins_at=datetime.fromtimestamp(found.begin / 1e6, UTC).isoformat(timespec="microseconds"),
        seconds=(found.end - found.begin) / 1e6,
        sessions=found.sessions,
        statements=found.statements,
        transactions=found.transactions,
        errors=found.errors,
        refused=dict(found.refused),
        lost=found.lost,
        captured_level=captured_level,
        sampled=record.sampled if record else None,
        settings=record.settings if record else {},
        sequences=record.sequences if record else {},
        digest=digest,
    )


def _has_durations(found: FoundLoad) -> bool:
    return bool(found.alone or found.whole)


def _style(found: FoundLoad) -> str:
    if not _has_durations(found):
        return "without durations"
    return "A" if found.alone > found.whole else "B"


def _reached(record: CaptureRecord) -> str:
    """Return the last WAL position that the record has; nobody read one at the end of a capture that was killed."""
    return (record.end.lsn if record.end else None) or record.lsn


def cut_values(db: Connection, parts: str) -> int:
    """Return how many values the server cut: they end in "...", and none is longer but by bytes of a letter."""
    each = f"SELECT unnest(params) AS one FROM {parts}"
    columns = "strlen(one) AS size, suffix(one, '...') AS is_cut, max(strlen(one)) OVER () AS top"
    sizes = f"SELECT {columns} FROM ({each})"
    query = f"SELECT count(*) FROM ({sizes}) WHERE is_cut AND size > 3 AND size >= top - 3"
    return int(db.execute(query).fetchall()[0][0])
