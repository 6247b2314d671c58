"""How long a restart will keep a server away: an estimate with its basis before the first one, then what was measured.

A fast shutdown writes every dirty buffer (`CreateCheckPoint` with CHECKPOINT_IS_SHUTDOWN). How many there are tells
pg_buffercache; how fast this server writes them tell its checkpoints so far. Those are spread over time on purpose
(checkpoint_completion_target), so the time that follows from them is an upper bound. How long the start takes cannot
be known before one was seen.
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

FEWEST_BUFFERS = 1_000
"""Fewer than 8 MB in checkpoints say nothing of a disk's rate."""
_CHECKPOINTER = 170_000
_SUMMARY = 160_000
_ABOUT = """
SELECT current_setting('server_version_num')::int AS version, current_setting('block_size')::int AS block_size,
       (SELECT setting::bigint FROM pg_catalog.pg_settings WHERE name = 'shared_buffers') AS buffers
"""
_CHECKPOINTS_13 = """
SELECT buffers_checkpoint AS buffers,
       checkpoint_write_time::float8 AS write_ms, checkpoint_sync_time::float8 AS sync_ms
FROM pg_catalog.pg_stat_bgwriter
"""
_CHECKPOINTS_17 = """
SELECT buffers_written AS buffers,
       write_time::float8 AS write_ms, sync_time::float8 AS sync_ms
FROM pg_catalog.pg_stat_checkpointer
"""
_BUFFERS = "pg_buffercache"
_DIRTY_13: LiteralString = "SELECT count(*) AS dirty FROM {}.pg_buffercache WHERE isdirty"
_DIRTY_16: LiteralString = "SELECT buffers_dirty AS dirty FROM {}.pg_buffercache_summary()"


@dataclass(frozen=True, slots=True)
class OutageReading:
    """What a server tells. Bytes, and seconds over all checkpoints since its statistics were reset."""

    block_size: int
    shared_buffers: int
    dirty: int | Unknown
    buffers_written: int
    write_s: float
    sync_s: float


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
    """Return the time that the shutdown's checkpoint will take at most, unknown where the server's rate is."""
    if reading.buffers_written < FEWEST_BUFFERS or reading.write_s + reading.sync_s <= 0:
        written = _size(reading.buffers_written * reading.block_size)
        reason = f"its checkpoints have written {written} so far, too little to tell how fast its disk is"
        return Outage(Unknown(reason), "unknown", reason)
    rate = reading.buffers_written * reading.block_size / (reading.write_s + reading.sync_s)
    if isinstance(reading.dirty, Unknown):
        amount, what = reading.shared_buffers, f"all of shared_buffers, {_size(reading.shared_buffers)}"
        what += f", because the dirty part is unknown: {reading.dirty.reason}"
    else:
        amount, what = reading.dirty, f"{_size(reading.dirty)} dirty now"
    basis = f"the shutdown's checkpoint: {what}, at the {_size(rate)}/s of its spread checkpoints; plus the start, "
    return Outage(amount / rate, "at most", basis + "which is unknown until the first restart")


def measured(seconds: Sequence[float]) -> Outage:
    """Return the median of restarts that were made, with the longest. Needs one."""
    count = len(seconds)
    basis = f"median of {count} restart{'' if count == 1 else 's'} of this server"
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
    return OutageReading(
        block_size=block_size,
        shared_buffers=_int(about, "buffers") * block_size,
        dirty=_dirty(postgres, version, block_size),
        buffers_written=_int(row, "buffers"),
        write_s=float(str(row["write_ms"])) / 1000,
        sync_s=float(str(row["sync_ms"])) / 1000,
    )


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
