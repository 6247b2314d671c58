"""What operators asked of running studies in the dashboard, and what those answered."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "request",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("study_id", sa.Text(), sa.ForeignKey("study.id"), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("said", sa.Text(), nullable=False),
        sa.Column("answered_at", sa.Double()),
    )
    op.create_index("request_study", "request", ["study_id", "state"])
