"""Check that a trace is what its facts say: the file unchanged, its rows counted, its order kept."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.outside.files import open_file
from pgdyno.owner.temporary import temporary
from pgdyno.trace.parquet import connection, read_meta, trace_source
from pgdyno.trace.schema import TraceMeta


def verify_trace(trace: Path) -> TraceMeta:
    """Return the facts of a trace. Raises UsageError where the file is not the one that they are about."""
    meta = read_meta(trace)
    hint = "Make it again with pgdyno trace build; NAME.json and NAME.parquet belong together."
    try:
        with open_file(trace) as file:
            digest = hashlib.sha256()
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise UsageError(f'trace "{trace}" cannot be read', detail=error.strerror) from error
    if digest.hexdigest() != meta.digest:
        raise UsageError(
            f'trace "{trace}" is not the file that "{trace.with_suffix(".json").name}" is about', hint=hint
        )
    with temporary("trace") as folder, connection(folder) as db, trace_source(trace, db) as source:
        statements, sessions = db.execute(
            f"SELECT count(*) FILTER (kind IN ('simple', 'parse', 'extended')), count(DISTINCT session) FROM {source}"
        ).fetchall()[0]
    if (statements, sessions) != (meta.statements, meta.sessions):
        raise UsageError(
            f'trace "{trace}" has {statements} statements of {sessions} sessions, its facts say {meta.statements} of'
            f" {meta.sessions}",
            hint=hint,
        )
    return meta
