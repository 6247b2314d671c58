"""The laboratory: factors of a trial, its instances, clients, checks, plans and texts; and the queue of the night."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _of_run(name: str, *columns: sa.Column[object]) -> None:
    run = sa.Column("run_id", _ID, sa.ForeignKey("trial.id"), primary_key=True)
    op.create_table(name, run, *columns)


def _texts(*names: str) -> tuple[sa.Column[object], ...]:
    return tuple(sa.Column(name, sa.Text(), nullable=False) for name in names)


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "trial_factor",
        sa.Column("trial_id", _ID, sa.ForeignKey("trial.id"), primary_key=True),
        sa.Column("factor", sa.Text(), primary_key=True),
        *_texts("value"),
    )
    _of_run(
        "instance",
        sa.Column("instance", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("clients", sa.BigInteger(), nullable=False),
        sa.Column("began_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=False),
        sa.Column("transactions", sa.BigInteger(), nullable=False),
        sa.Column("failed", sa.BigInteger(), nullable=False),
        sa.Column("throughput", sa.Double()),
        sa.Column("latency_ms", sa.Double()),
        sa.Column("driver_cpu_s", sa.Double()),
        sa.Column("reason", sa.Text()),
    )
    _of_run(
        "client",
        sa.Column("client", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("transactions", sa.BigInteger(), nullable=False),
        *(sa.Column(f"{name}_ms", sa.Double(), nullable=False) for name in ("mean", "p50", "p95", "p99", "max")),
    )
    for name in ("sessions_abandoned", "sessions_fatal", "sessions_killed"):
        op.add_column("database", sa.Column(name, sa.BigInteger()))
    _of_run(
        "run_check",
        sa.Column("condition", sa.Text(), primary_key=True),
        sa.Column("violations", sa.BigInteger()),
        *_texts("meaning"),
    )
    _of_run("run_plan", sa.Column("statement", sa.Text(), primary_key=True), *_texts("shape", "plan"))
    _of_run("run_text", sa.Column("name", sa.Text(), primary_key=True), *_texts("text"))
    op.create_table(
        "job",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("added_at", sa.Double(), nullable=False),
        sa.Column("argv", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("began_at", sa.Double()),
        sa.Column("ended_at", sa.Double()),
        sa.Column("exit_code", sa.BigInteger()),
        sa.Column("study", sa.Text()),
        sa.Column("reason", sa.Text()),
        *_texts("host", "folder"),
        sa.Column("runner", sa.Text()),
    )
    op.add_column("sessions", sa.Column("foreign_busy", sa.BigInteger()))
