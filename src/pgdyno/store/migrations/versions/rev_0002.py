"""Changes: what was put in force for good, by whom, from what to what, for which rule, proved by which study."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "change",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("at", sa.Double(), nullable=False),
        *(
            sa.Column(name, sa.Text(), nullable=False)
            for name in ("who", "action", "target", "environment", "session", "rule", "knob")
        ),
        sa.Column("old", sa.Text()),
        sa.Column("new", sa.Text()),
        sa.Column("study", sa.Text()),
    )
