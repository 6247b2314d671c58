"""The tables of the store, the same on SQLite and PostgreSQL.

What a study, a trial, a queue and the dashboard hold is written out here; the sample tables follow from
`model.sample_tables`, so that a column is defined once. A change of either needs a migration and a new `REVISION`:
a test compares this schema with what the migrations build.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)
from sqlalchemy.types import TypeEngine

from pgdyno.model.record import CheckRecord, ClientRecord, InstanceRecord, PlanRecord, Record, TextRecord
from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import Kind, SampleTable

REVISION = "0005"
"""The newest migration: a store at this revision is opened without loading Alembic."""

METADATA = MetaData()

ID_LIMIT = 1 << 63
"""Ids are below: a number from here on is none, and no driver takes it."""
_ID = BigInteger().with_variant(Integer, "sqlite")
_JSON = JSON(none_as_null=True)
_ColumnType = TypeEngine[Any] | type[TypeEngine[Any]]
_TYPES: dict[Kind, Double[float] | BigInteger | Text] = {
    "float": Double(),
    "int": BigInteger(),
    "text": Text(),
}


def _filled(kind: _ColumnType, *names: str) -> list[Column[Any]]:
    """Return columns of one type that are never NULL."""
    return [Column(name, kind, nullable=False) for name in names]


def _open(kind: _ColumnType, *names: str) -> list[Column[Any]]:
    """Return columns of one type that may be NULL."""
    return [Column(name, kind) for name in names]


VERSION = Table("alembic_version", MetaData(), Column("version_num", Text))
"""Alembic's own table, for the quick check at opening; Alembic makes and fills it."""

STUDY = Table(
    "study",
    METADATA,
    Column("id", Text, primary_key=True),
    *_filled(Text, "kind", "name", "state"),
    Column("created_at", Double, nullable=False),
    *_filled(Text, "target", "environment"),
    *_filled(_JSON, "facts", "workload", "plan", "options"),
    Column("result", _JSON),
)

TRIAL = Table(
    "trial",
    METADATA,
    Column("id", _ID, primary_key=True),
    Column("study_id", Text, ForeignKey("study.id"), nullable=False, index=True),
    *_filled(Text, "role", "arm"),
    *_filled(BigInteger, "block", "slot"),
    Column("repeats", BigInteger),
    *_filled(Text, "configuration", "state"),
    Column("reason", Text),
    *_open(Double, "began_at", "elapsed_s", "steady_from", "ended_at", "throughput"),
    *_open(Double, *(f"latency_{part}_ms" for part in ("p50", "p95", "p99", "p999", "max", "mean"))),
    *_open(BigInteger, "transactions", "failed", "retried", "skipped"),
    *_open(Double, "driver_cpu_s", "server_cpu_s", "server_cpu_ms_per_tx", "foreign_cpu_pct", "steal_pct"),
    Column("settings_fingerprint", Text),
    *_open(_JSON, "counters", "warnings"),
)

TRIAL_SETTING = Table(
    "trial_setting",
    METADATA,
    Column("trial_id", _ID, ForeignKey("trial.id"), primary_key=True),
    Column("knob", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

TRIAL_FACTOR = Table(
    "trial_factor",
    METADATA,
    Column("trial_id", _ID, ForeignKey("trial.id"), primary_key=True),
    Column("factor", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

HISTOGRAM = Table(
    "histogram",
    METADATA,
    Column("run_id", _ID, ForeignKey("trial.id"), nullable=False),
    *_filled(BigInteger, "second", "instance"),
    Column("script", Text, nullable=False),
    *_filled(BigInteger, "count", "total_us", "failed", "retried", "skipped"),
    Column("blob", LargeBinary, nullable=False),
    Index("histogram_run_second", "run_id", "second"),
)

EVENT = Table(
    "event",
    METADATA,
    Column("run_id", _ID, ForeignKey("trial.id"), nullable=False),
    Column("t", Double, nullable=False),
    *_filled(Text, "kind", "text"),
    Index("event_run_t", "run_id", "t"),
)

CHANGE = Table(
    "change",
    METADATA,
    Column("id", _ID, primary_key=True),
    Column("at", Double, nullable=False),
    *_filled(Text, "who", "action", "target", "environment", "session", "rule", "knob"),
    *_open(Text, "old", "new", "study"),
)


JOB = Table(
    "job",
    METADATA,
    Column("id", _ID, primary_key=True),
    Column("added_at", Double, nullable=False),
    Column("argv", _JSON, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", BigInteger, nullable=False),
    *_open(Double, "began_at", "ended_at"),
    Column("exit_code", BigInteger),
    *_open(Text, "study", "reason"),
    *_filled(Text, "host", "folder"),
    Column("runner", Text),
)

LIVE = Table(
    "live",
    METADATA,
    Column("study_id", Text, ForeignKey("study.id"), primary_key=True),
    Column("at", Double, nullable=False),
    Column("state", _JSON, nullable=False),
)
"""What running studies do now: a row each while they run, written again every second."""

REQUEST = Table(
    "request",
    METADATA,
    Column("id", _ID, primary_key=True),
    Column("study_id", Text, ForeignKey("study.id"), nullable=False),
    Column("at", Double, nullable=False),
    *_filled(Text, "content", "state", "said"),
    Column("answered_at", Double),
    Index("request_study", "study_id", "state"),
)
"""What operators asked of running studies in the dashboard, and what those answered.

The content is JSON as a text of its own, so that a row which is none hides no other.
"""


def _of_run(name: str, *columns: Column[Any]) -> Table:
    """Return a table of what a run left; the run and the first column are its key."""
    return Table(name, METADATA, Column("run_id", _ID, ForeignKey("trial.id"), primary_key=True), *columns)


def _key(name: str) -> Column[str]:
    return Column(name, Text, primary_key=True)


INSTANCE = _of_run(
    "instance",
    Column("instance", BigInteger, primary_key=True, autoincrement=False),
    Column("clients", BigInteger, nullable=False),
    *_filled(Double, "began_at", "ended_at"),
    *_filled(BigInteger, "transactions", "failed"),
    *_open(Double, "throughput", "latency_ms", "driver_cpu_s"),
    Column("reason", Text),
)
CLIENT = _of_run(
    "client",
    Column("client", BigInteger, primary_key=True, autoincrement=False),
    Column("transactions", BigInteger, nullable=False),
    *(Column(f"{name}_ms", Double, nullable=False) for name in ("mean", "p50", "p95", "p99", "max")),
)
RUN_CHECK = _of_run(
    "run_check", _key("condition"), Column("violations", BigInteger), Column("meaning", Text, nullable=False)
)
RUN_PLAN = _of_run(
    "run_plan", _key("statement"), Column("shape", Text, nullable=False), Column("plan", Text, nullable=False)
)
RUN_TEXT = _of_run("run_text", _key("name"), Column("text", Text, nullable=False))


def _sample_table(table: SampleTable) -> Table:
    columns: list[Column[object]] = [Column(column.name, _TYPES[column.kind]) for column in table.columns]
    return Table(
        table.name,
        METADATA,
        Column("run_id", _ID, ForeignKey("trial.id"), nullable=False),
        Column("t", Double, nullable=False),
        *columns,
        Index(f"{table.name}_run_t", "run_id", "t"),
    )


SAMPLES: dict[str, Table] = {name: _sample_table(table) for name, table in TABLES.items()}
"""The sample tables by name."""

RECORDS: dict[type[Record], Table] = {
    InstanceRecord: INSTANCE,
    ClientRecord: CLIENT,
    CheckRecord: RUN_CHECK,
    PlanRecord: RUN_PLAN,
    TextRecord: RUN_TEXT,
}
"""The table of each kind of record; its columns after `run_id` are the record's fields."""

RUN_TABLES: dict[str, Table] = {
    "event": EVENT,
    "histogram": HISTOGRAM,
    **{table.name: table for table in RECORDS.values()},
    **SAMPLES,
}
"""Every table that belongs to one run and has a `run_id`."""
