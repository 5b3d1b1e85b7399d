"""Suspensions, and the times that schedulers have dealt with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_text = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")


def upgrade() -> None:
    # MySQL commits after each statement; a migration that was cut off finds what it has made, and goes on.
    if "schedule_body" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("flows")}:
        op.add_column("flows", sa.Column("schedule_body", _text))
