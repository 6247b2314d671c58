"""The snapshot record of a capture: what a log does not say, and a replay must know. Pure.

It stands as `capture.json` in the capture's folder, mode 0600, from before the logging is switched on; the end is
filled in when it goes back. A record without an end is of a capture that runs or was killed: its log is good up to
there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from pgdyno.errors import UsageError
from pgdyno.model.shapes import plain, shaped
from pgdyno.outside.documents import load_json
from pgdyno.trace.schema import CachedRelation, CapturedServer, KeyLink, KeyTable

CAPTURE_VERSION = 1
"""Of the record: a reader refuses a newer one by name."""
RECORD = "capture.json"
COMMITS = "commits.csv"
"""Beside the record where a commit order was asked for: a row a commit, in their order (`commit_lines.py`)."""


@dataclass(frozen=True, slots=True)
class CapturedLog:
    """A file of the server's log, and which bytes of it are the capture's; `end` is None while it runs."""

    path: str
    """On the server's host, absolute."""
    style: str
    """`csvlog` or `jsonlog`."""
    begin: int = 0
    end: int | None = None
    copy: str | None = None
    """Name of the copy in the capture's folder, where there is one; it holds these bytes alone."""


@dataclass(frozen=True, slots=True)
class SourceDatabase:
    """A database of the source at the begin. `encoding` is PostgreSQL's name of it: its lines in the log have it."""

    name: str
    encoding: str
    bytes: int | None
    """None where the role may not ask."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table of the source at the begin, its indexes and TOAST among its bytes."""

    database: str
    schema: str
    name: str
    bytes: int
    rows: float
    """As the planner believes; negative where it was never analysed."""


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """The source when the logging went back."""

    at: str
    """UTC, ISO 8601, by the server's clock."""
    because: str
    """`time`, `size`, `stopped`, `interrupted`, `killed`, or the words of the guard."""
    lsn: str | None = None
    sequences: dict[str, int] = field(default_factory=dict)
    databases: tuple[SourceDatabase, ...] = ()


@dataclass(frozen=True, slots=True)
class CaptureRecord:
    """A capture: the source at its begin, where its log is, and how it ended. No value in it is a secret."""

    version: int
    id: str
    """Also the study of the undo session."""
    target: str
    """Label of the server, without a password."""
    host: str | None
    """Address of ssh where the server was reached by an agent."""
    system_identifier: str
    server_version: int
    """`server_version_num`."""
    data_directory: str
    style: str
    """`csvlog B` or `jsonlog B`: every statement when it ends, with its duration."""
    began_at: str
    """UTC, ISO 8601, by the server's clock: what was logged before is not of the capture."""
    lsn: str
    seconds: float
    """How long it was to last at most."""
    max_bytes: int
    clock_ahead_s: float
    """By how much the server's clock is ahead of ours; half of the round trip is its error."""
    round_trip_s: float
    sampled: float | None = None
    """Share of the transactions that were logged, for response times alone; None for all, which a replay needs."""
    settings: dict[str, str] = field(default_factory=dict)
    """As found, before the logging was switched on."""
    logging: dict[str, str] = field(default_factory=dict)
    """What the capture switched on."""
    databases: tuple[SourceDatabase, ...] = ()
    tables: tuple[SourceTable, ...] = ()
    sequences: dict[str, int] = field(default_factory=dict)
    """Last values as `database.schema.name`, of those that were used: all others begin at their start."""
    unread: dict[str, str] = field(default_factory=dict)
    """Databases whose tables and sequences could not be read, with the reason."""
    holes: tuple[str, ...] = ()
    """What is not in the log although it ran: overrides of the settings by role or database, in words."""
    log_directory: str = ""
    session: str = ""
    """The undo session that switched the logging on."""
    logs: tuple[CapturedLog, ...] = ()
    end: SourceEnd | None = None
    commits: str | None = None
    """Name of the file with the commit order, in the capture's folder; of the database that `target` names."""
    key_tables: tuple[KeyTable, ...] = ()
    """With a commit order: tables whose keys it has, and those that hold such keys."""
    key_links: tuple[KeyLink, ...] = ()
    cached: tuple[CachedRelation, ...] = ()
    """What was in shared buffers, by pg_buffercache; most pages first."""
    cache_unread: str = ""
    """Why that is not known, or not of all."""
    commits_lost: str | None = None
    """Why it is not whole, where it was asked for."""
    server: CapturedServer = field(default_factory=CapturedServer)

    @property
    def is_replayable(self) -> bool:
        """Tell whether the log holds every statement that it could: a sample is for response times alone."""
        return self.sampled is None


def record_text(record: CaptureRecord) -> str:
    """Return the record as the text of its file."""
    return json.dumps(plain(record), indent=1, ensure_ascii=False) + "\n"


def parse_record(text: str | bytes, where: str) -> CaptureRecord:
    """Return the record that a text holds. Raises UsageError that names `where` for anything else, or a newer one."""
    try:
        document = load_json(text)
        version = document.get("version") if isinstance(document, dict) else None
        if type(version) is int and version > CAPTURE_VERSION:
            raise UsageError(
                f'"{where}" is a capture record of version {version}, and this pgdyno knows {CAPTURE_VERSION}',
                hint="Read it with the pgdyno that captured, or a newer one.",
            )
        return shaped(CaptureRecord, document, "the record", strict=False)
    except ValueError as error:
        raise UsageError(
            f'"{where}" is not a capture record: {error}',
            hint="Name the folder that pgdyno capture start printed; it holds capture.json.",
        ) from error
