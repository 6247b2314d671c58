"""What running studies are doing now, for the dashboard: one row a study while it runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "live",
        sa.Column("study_id", sa.Text(), sa.ForeignKey("study.id"), primary_key=True),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("state", sa.JSON(none_as_null=True), nullable=False),
    )
