"""What a trace and an outcome hold: columns of Parquet files, and the facts beside them. Pure.

A trace is `NAME.parquet` with one row a statement, ordered by `due_us`, `session`, `seq`, and `NAME.json` with a
`TraceMeta`. An outcome is a folder: `part-*.parquet` with one row for each statement of the trace, in the order in
which they ended, and `outcome.json`. Both are private to their owner: mode 0600, as statements hold what users typed.
Times are whole microseconds; NULL is what the source cannot know, never a default.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

TRACE_VERSION = 2
"""Of the columns and of `TraceMeta`: a reader refuses a newer one by name."""


class Row(StrEnum):
    """What a row of a trace asks an engine to do."""

    CONNECT = "connect"
    """Begin the session. Made up (`implied`) where the session is older than the capture."""
    SIMPLE = "simple"
    """Send `sql` by the simple protocol; it may hold several statements."""
    PARSE = "parse"
    """Prepare `sql` under the name `statement`, and wait for the answer."""
    EXTENDED = "extended"
    """Bind `params` and execute; `sql` is prepared with it where `statement` is empty or not yet prepared."""
    DISCONNECT = "disconnect"


class AnswerClass(StrEnum):
    """How the answer of a replayed statement stands to the captured one."""

    SUCCESS = "success"
    EXPECTED = "expected"
    """An error, with the SQLSTATE of the capture."""
    NEW = "new"
    """An error where the capture has none."""
    MISSING = "missing"
    """No error where the capture has one."""
    CHANGED = "changed"
    """An error with another SQLSTATE."""
    SKIPPED = "skipped"
    """Not sent, for the reason in `skipped`."""


@dataclass(frozen=True, slots=True)
class TraceColumn:
    """A column: its name, its type in DuckDB's words, and what it means."""

    name: str
    type: str
    meaning: str


TRACE = (
    TraceColumn("session", "INTEGER", "ordinal of the session, by its first line"),
    TraceColumn("seq", "INTEGER", "place of the row in its session, from 0"),
    TraceColumn("kind", "VARCHAR", "connect, simple, parse, extended, disconnect"),
    TraceColumn("due_us", "BIGINT", "when it was sent, after the begin of the trace: its end less its duration"),
    TraceColumn("end_us", "BIGINT", "when it ended; NULL where the log does not say"),
    TraceColumn("parse_us", "BIGINT", "time of the server in parsing; NULL where there was none or it was not logged"),
    TraceColumn("bind_us", "BIGINT", "time of the server in binding, which plans"),
    TraceColumn("execute_us", "BIGINT", "time of the server in executing; of a simple statement all of it"),
    TraceColumn("place", "BIGINT", "of its last line in the log: finer than times, which a log has in milliseconds"),
    TraceColumn("statement", "VARCHAR", "name of the prepared statement, empty for the unnamed; NULL for simple"),
    TraceColumn("sql", "VARCHAR", "the text as it was sent; NULL for connect and disconnect"),
    TraceColumn("params", "VARCHAR[]", "bound values as text, NULL members are NULLs; NULL where none were bound"),
    TraceColumn("tx", "INTEGER", "ordinal of the transaction in its session"),
    TraceColumn("xid", "BIGINT", "transaction id, where it wrote"),
    TraceColumn("commit_pos", "BIGINT", "place of its commit among all commits; only with a commit order"),
    TraceColumn("fingerprint", "VARCHAR", "of libpg_query, 16 hexadecimal digits; NULL where it does not parse"),
    TraceColumn("sqlstate", "VARCHAR", "of the error that it ended with; NULL for success"),
    TraceColumn("user", "VARCHAR", "role of the session"),
    TraceColumn("database", "VARCHAR", "database of the session"),
    TraceColumn("application", "VARCHAR", "application_name when it ended"),
    TraceColumn("implied", "BOOLEAN", "made up: the session was there before the capture, or outlived it"),
    TraceColumn("refused", "VARCHAR", "why it is never sent; NULL where it may be"),
    TraceColumn("keys", "VARCHAR", "generated keys of the transaction that it is of, as JSON; with a commit order"),
)
SINCE_2 = frozenset({"keys"})
"""Columns that a trace of version 1 has not: they are NULL then."""

OUTCOME = (
    TraceColumn("session", "INTEGER", "as in the trace"),
    TraceColumn("seq", "INTEGER", "as in the trace"),
    TraceColumn("due_us", "BIGINT", "when it was due, after the begin of the replay: that of the trace by the speed"),
    TraceColumn("sent_us", "BIGINT", "when it was sent; NULL where it was skipped"),
    TraceColumn("first_us", "BIGINT", "when the first byte of the answer came"),
    TraceColumn("done_us", "BIGINT", "when the server was ready for the next"),
    TraceColumn("lag_us", "BIGINT", "sent less due: the sum of the next three"),
    TraceColumn("injector_us", "BIGINT", "lag by the engine: after due, last answer and gate; kept until made up"),
    TraceColumn("gate_us", "BIGINT", "lag by waiting for statements of other sessions"),
    TraceColumn("server_us", "BIGINT", "lag by waiting for the previous answer of its session"),
    TraceColumn("rows", "BIGINT", "rows of the command tags, added up; NULL where there are none"),
    TraceColumn("bytes", "BIGINT", "bytes of the answer"),
    TraceColumn("sqlstate", "VARCHAR", "of the error; NULL for success"),
    TraceColumn("answer", "VARCHAR", "success, expected, new, missing, changed, skipped"),
    TraceColumn("skipped", "VARCHAR", "why it was not sent"),
)


@dataclass(frozen=True, slots=True)
class Lost:
    """What the source had and the trace has not, by count; a trace is whole where all are 0."""

    truncated: int = 0
    """Statements whose text or parameters the log cut: such a trace is refused unless it was asked for."""
    unreadable: int = 0
    """Records that are no log lines."""
    without_params: int = 0
    """Statements that were bound and whose values the log does not have."""
    unworded: int = 0
    """Statements that failed, and of which the log has the error alone."""
    gaps: int = 0
    """Lines that are missing within sessions, by their numbers."""
    not_english: int = 0
    """Lines of sessions whose messages are in another language, which nobody can read here."""
    slow_alone: int = 0
    """All statements of a log that has none that took less than a millisecond: it has the slow ones alone."""
    changes_alone: int = 0
    """All statements of a log that has none that reads, or begins a transaction, but slow ones: log_statement = mod."""
    cut_sessions: int = 0
    """Sessions that began before the capture."""
    cut_statements: int = 0
    """Statements whose other half lies before the begin or after the end of the log."""


@dataclass(frozen=True, slots=True)
class KeyTable:
    """A table of the source with its columns in their order, and those whose values the server makes."""

    name: str
    """Without its schema."""
    columns: tuple[str, ...]
    generated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyLink:
    """A column that holds keys of another one: a foreign key."""

    table: str
    column: str
    key_table: str
    key_column: str


@dataclass(frozen=True, slots=True)
class CachedRelation:
    """A table or index of the source with pages in its shared buffers when the capture began."""

    database: str
    schema: str
    name: str
    cached: int
    """Pages in shared buffers."""
    blocks: int
    """Pages on disk."""

    @property
    def share(self) -> float:
        """Return how much of it was there."""
        return min(1.0, self.cached / self.blocks) if self.blocks > 0 else 0.0


@dataclass(frozen=True, slots=True)
class CapturedServer:
    """Which server was captured, as its physical copies, with the same system identifier, are not.

    `started_at` is when its postmaster began: UTC, ISO 8601, by its own clock. Device, inode and boot of its host are
    those of its data directory, where that is on the host of whoever captured. The path of the directory, the port and
    the address, empty for a socket or this host's own, are what the server says of itself.
    """

    started_at: str = ""
    device: int | None = None
    inode: int | None = None
    boot: str = ""
    data_directory: str = ""
    address: str = ""
    port: int | None = None


@dataclass(frozen=True, slots=True)
class TraceMeta:
    """What stands beside a trace."""

    version: int
    style: str
    """How it was logged: `csvlog A`, `csvlog B`, `jsonlog A` ..., `stderr B`; `csvlog without durations`."""
    server_version: int | None
    """`server_version_num`, where a snapshot record or the user says it."""
    system_identifier: str | None
    begins_at: str
    """UTC, ISO 8601, of `due_us` 0."""
    seconds: float
    sessions: int
    statements: int
    """Rows that are sent: connects and disconnects are not counted, what is refused is."""
    transactions: int
    errors: int
    refused: dict[str, int] = field(default_factory=dict)
    """Statements that are never sent, by reason."""
    lost: Lost = Lost()
    captured_level: float = 100.0
    """Per cent of the production's rate that the captured time stands for."""
    masked: bool = False
    """Values were replaced for handing it on: it can be shown, not replayed."""
    sampled: float | None = None
    """Share of the transactions that were logged, where that is not all: for response times, not for a replay."""
    settings: dict[str, str] = field(default_factory=dict)
    """Of the source, from the snapshot record."""
    sequences: dict[str, int] = field(default_factory=dict)
    """Last values at the begin, as `database.schema.name`."""
    key_tables: tuple[KeyTable, ...] = ()
    """Of a capture with a commit order: tables that make keys, or hold them."""
    key_links: tuple[KeyLink, ...] = ()
    cached: tuple[CachedRelation, ...] = ()
    """What the source had in shared buffers at the begin, most pages first."""
    cache_unread: str = ""
    """Why that is not known, or not of all."""
    captured_server: CapturedServer = CapturedServer()
    captured_until: str = ""
    """WAL position that the source had reached by then, such as 0/3465008; empty where no record says it."""
    holes: tuple[str, ...] = ()
    """Settings of roles and databases that kept some of their sessions' statements out of the log, in words."""
    keys_unplaced: int = 0
    """Transactions with generated keys of which nobody can tell which statements they were."""
    digest: str = ""
    """SHA-256 of the Parquet file."""
