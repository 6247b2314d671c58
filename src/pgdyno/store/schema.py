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
_TYPES: dict[Kind, Double[float] | BigInteger | Text] = {
    "float": Double(),
    "int": BigInteger(),
    "text": Text(),
}

VERSION = Table("alembic_version", MetaData(), Column("version_num", Text))
"""Alembic's own table, for the quick check at opening; Alembic makes and fills it."""

STUDY = Table(
    "study",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("target", Text, nullable=False),
    Column("environment", Text, nullable=False),
    Column("facts", _JSON, nullable=False),
    Column("workload", _JSON, nullable=False),
    Column("plan", _JSON, nullable=False),
    Column("options", _JSON, nullable=False),
    Column("result", _JSON),
)

TRIAL = Table(
    "trial",
    METADATA,
    Column("id", _ID, primary_key=True),
    Column("study_id", Text, ForeignKey("study.id"), nullable=False, index=True),
    Column("role", Text, nullable=False),
    Column("arm", Text, nullable=False),
    Column("block", BigInteger, nullable=False),
    Column("slot", BigInteger, nullable=False),
    Column("repeats", BigInteger),
    Column("configuration", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text),
    Column("began_at", Double),
    Column("elapsed_s", Double),
    Column("steady_from", Double),
    Column("ended_at", Double),
    Column("throughput", Double),
    Column("latency_p50_ms", Double),
    Column("latency_p95_ms", Double),
    Column("latency_p99_ms", Double),
    Column("latency_p999_ms", Double),
    Column("latency_max_ms", Double),
    Column("latency_mean_ms", Double),
    Column("transactions", BigInteger),
    Column("failed", BigInteger),
    Column("retried", BigInteger),
    Column("skipped", BigInteger),
    Column("driver_cpu_s", Double),
    Column("server_cpu_s", Double),
    Column("server_cpu_ms_per_tx", Double),
    Column("foreign_cpu_pct", Double),
    Column("steal_pct", Double),
    Column("settings_fingerprint", Text),
    Column("counters", _JSON),
    Column("warnings", _JSON),
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
    Column("second", BigInteger, nullable=False),
    Column("instance", BigInteger, nullable=False),
    Column("script", Text, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("total_us", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("retried", BigInteger, nullable=False),
    Column("skipped", BigInteger, nullable=False),
    Column("blob", LargeBinary, nullable=False),
    Index("histogram_run_second", "run_id", "second"),
)

EVENT = Table(
    "event",
    METADATA,
    Column("run_id", _ID, ForeignKey("trial.id"), nullable=False),
    Column("t", Double, nullable=False),
    Column("kind", Text, nullable=False),
    Column("text", Text, nullable=False),
    Index("event_run_t", "run_id", "t"),
)

CHANGE = Table(
    "change",
    METADATA,
    Column("id", _ID, primary_key=True),
    Column("at", Double, nullable=False),
    Column("who", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("environment", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("rule", Text, nullable=False),
    Column("knob", Text, nullable=False),
    Column("old", Text),
    Column("new", Text),
    Column("study", Text),
)


JOB = Table(
    "job",
    METADATA,
    Column("id", _ID, primary_key=True),
    Column("added_at", Double, nullable=False),
    Column("argv", _JSON, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", BigInteger, nullable=False),
    Column("began_at", Double),
    Column("ended_at", Double),
    Column("exit_code", BigInteger),
    Column("study", Text),
    Column("reason", Text),
    Column("host", Text, nullable=False),
    Column("folder", Text, nullable=False),
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
    Column("content", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("said", Text, nullable=False),
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
    Column("began_at", Double, nullable=False),
    Column("ended_at", Double, nullable=False),
    Column("transactions", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("throughput", Double),
    Column("latency_ms", Double),
    Column("driver_cpu_s", Double),
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
