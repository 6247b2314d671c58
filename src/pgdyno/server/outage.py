"""How long a restart will keep a server away: an estimate with its basis before the first one, then what was measured.

A fast shutdown writes every dirty buffer (`CreateCheckPoint` with CHECKPOINT_IS_SHUTDOWN). How many there are tells
pg_buffercache; how fast this server writes them tell its checkpoints so far. Those are spread over time on purpose
(checkpoint_completion_target), so the time that follows from them is an upper bound. How long the start takes cannot
be known before one was seen.

Without pg_buffercache the amount is an estimate: what a checkpoint of this server writes on average, or what the WAL
since the last one can have touched where that is more. With full_page_writes the first change of a page after a
checkpoint puts the page into the WAL, but for its free space. Unlogged tables and hint bits leave no WAL.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

import psycopg
from psycopg import sql

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.facts import Unknown
from pgdyno.server.extensions import schema_of
from pgdyno.server.postgres import Postgres, query_error
from pgdyno.units import plural

FEWEST_BUFFERS = 1_000
"""Fewer than 8 MB in checkpoints say nothing of a disk's rate."""
_CHECKPOINTER = 170_000
_SUMMARY = 160_000
_ABOUT = """
SELECT current_setting('server_version_num')::int AS version, current_setting('block_size')::int AS block_size,
       (SELECT setting::bigint FROM pg_catalog.pg_settings WHERE name = 'shared_buffers') AS buffers
"""
_WAL: LiteralString = """
SELECT (pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), redo_lsn))::bigint AS wal,
       current_setting('full_page_writes') AS whole, current_setting('wal_compression') AS compression
FROM pg_catalog.pg_control_checkpoint() WHERE NOT pg_catalog.pg_is_in_recovery()
"""
FREE_SPACE, COMPRESSION = 2, 4
"""Pages are taken to be half empty, and to be compressed in the WAL to no less than a quarter."""
_CHECKPOINTS_13 = """
SELECT buffers_checkpoint AS buffers, checkpoints_timed + checkpoints_req AS made,
       checkpoint_write_time::float8 AS write_ms, checkpoint_sync_time::float8 AS sync_ms
FROM pg_catalog.pg_stat_bgwriter
"""
_CHECKPOINTS_17 = """
SELECT buffers_written AS buffers, num_timed + num_requested AS made,
       write_time::float8 AS write_ms, sync_time::float8 AS sync_ms
FROM pg_catalog.pg_stat_checkpointer
"""
_BUFFERS = "pg_buffercache"
_DIRTY_13: LiteralString = "SELECT count(*) AS dirty FROM {}.pg_buffercache WHERE isdirty"
_DIRTY_16: LiteralString = "SELECT buffers_dirty AS dirty FROM {}.pg_buffercache_summary()"


@dataclass(frozen=True, slots=True)
class OutageReading:
    """What a server tells. Bytes, and seconds over all checkpoints since its statistics were reset.

    `checkpoints` were made since then; `touched` is what the WAL since the last one can have touched, in bytes. Both
    are None where that is not known, or where the dirty part is.
    """

    block_size: int
    shared_buffers: int
    dirty: int | Unknown
    buffers_written: int
    write_s: float
    sync_s: float
    checkpoints: int | None = None
    touched: int | None = None


@dataclass(frozen=True, slots=True)
class Outage:
    """How long a restart takes, in seconds. `kind` says what the figure is; `basis` where it comes from."""

    seconds: float | Unknown
    kind: str
    basis: str

    def __str__(self) -> str:
        if isinstance(self.seconds, Unknown):
            return f"unknown: {self.seconds.reason}"
        return f"{self.kind} {_duration(self.seconds)} each ({self.basis})"


def estimate(reading: OutageReading) -> Outage:
    """Return the time that the shutdown's checkpoint will take, unknown where the server's rate is.

    At most, where the dirty part is known or nothing tells of it; else about.
    """
    if reading.buffers_written < FEWEST_BUFFERS or reading.write_s + reading.sync_s <= 0:
        written = _size(reading.buffers_written * reading.block_size)
        reason = f"its checkpoints have written {written} so far, too little to tell how fast its disk is"
        return Outage(Unknown(reason), "unknown", reason)
    rate = reading.buffers_written * reading.block_size / (reading.write_s + reading.sync_s)
    kind, unknown = "at most", ""
    if not isinstance(reading.dirty, Unknown):
        amount, what = reading.dirty, f"{_size(reading.dirty)} dirty now"
    else:
        unknown = f"; how much is dirty now is unknown: {reading.dirty.reason}"
        usual = _usual(reading)
        if usual is None or usual[0] >= reading.shared_buffers:
            amount, what = reading.shared_buffers, f"all of shared_buffers, {_size(reading.shared_buffers)}"
        else:
            (amount, what), kind = usual, "about"
    basis = f"the shutdown's checkpoint: {what}, at the {_size(rate)}/s of its spread checkpoints{unknown}; plus the "
    return Outage(amount / rate, kind, basis + "start, which is unknown until the first restart")


def _usual(reading: OutageReading) -> tuple[int, str] | None:
    """Return how many bytes a checkpoint now is likely to write, and why; None where too little is known."""
    if not reading.checkpoints or reading.touched is None:
        return None
    mean = reading.buffers_written * reading.block_size // reading.checkpoints
    if mean >= reading.touched:
        return mean, f"{_size(mean)}, as its checkpoints write on average"
    return reading.touched, f"{_size(reading.touched)}, as the WAL since the last one can have touched"


def measured(seconds: Sequence[float]) -> Outage:
    """Return the median of restarts that were made, with the longest. Needs one."""
    count = len(seconds)
    basis = f"median of {plural(count, 'restart')} of this server"
    if count > 1:
        basis += f", the longest {_duration(max(seconds))}"
    return Outage(statistics.median(seconds), "about", basis)


def read_outage(postgres: Postgres) -> Outage:
    """Ask the server and estimate; what it does not tell makes the outage unknown. Read-only."""
    try:
        return estimate(read(postgres))
    except EnvironmentUnsuitable as error:
        return Outage(Unknown(error.message), "unknown", error.message)


def read(postgres: Postgres) -> OutageReading:
    """Read the figures. Reading pg_buffercache of 13 to 15 looks at every buffer once, which costs some CPU."""
    about = postgres.fetch(_ABOUT)[0]
    version, block_size = _int(about, "version"), _int(about, "block_size")
    row = postgres.fetch(_CHECKPOINTS_17 if version >= _CHECKPOINTER else _CHECKPOINTS_13)[0]
    dirty = _dirty(postgres, version, block_size)
    is_known = not isinstance(dirty, Unknown)
    return OutageReading(
        block_size=block_size,
        shared_buffers=_int(about, "buffers") * block_size,
        dirty=dirty,
        buffers_written=_int(row, "buffers"),
        write_s=float(str(row["write_ms"])) / 1000,
        sync_s=float(str(row["sync_ms"])) / 1000,
        checkpoints=None if is_known else _int(row, "made"),
        touched=None if is_known else _touched(postgres),
    )


def _touched(postgres: Postgres) -> int | None:
    """Return how many bytes of pages the WAL since the last checkpoint can have touched; None where it does not tell.

    That is so on a standby, without full pages in the WAL, and where the role may not ask.
    """
    try:
        rows = postgres.fetch(_WAL)
    except EnvironmentUnsuitable:
        return None
    if not rows or rows[0]["whole"] != "on":
        return None
    return _int(rows[0], "wal") * FREE_SPACE * (1 if rows[0]["compression"] == "off" else COMPRESSION)


def _dirty(postgres: Postgres, version: int, block_size: int) -> int | Unknown:
    has_summary = version >= _SUMMARY
    with postgres.connect() as session:
        try:
            schema = schema_of(session, _BUFFERS, "pg_buffercache_summary" if has_summary else _BUFFERS)
            if schema is None:
                return Unknown("no pg_buffercache here")
            asked = sql.SQL(_DIRTY_16 if has_summary else _DIRTY_13).format(sql.Identifier(schema))
            row = session.execute(asked).fetchone()
        except psycopg.Error as error:  # no right to it
            return Unknown(query_error(postgres.label, error).message)
    return _int(row or {}, "dirty") * block_size


def _int(row: Mapping[str, object], name: str) -> int:
    return int(str(row[name]))


def _size(amount: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1024:
            return f"{amount:.3g} {unit}"
        amount /= 1024
    return f"{amount:.3g} TB"


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
