"""How far a source was looked at, as a time, beside the watermark that stays at the last row delivered."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from tidegauge.ledger.migrations.versions.v0004_times import typed

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_moment = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_watermarks = sa.table(
    "watermarks",
    *(sa.column(name) for name in ("flow_key", "input_key", "cursor_kind", "checked", "stamp")),
    sa.column("checked_ts", _moment),
)
VIEW = (
    " VIEW watermark_positions AS SELECT pipeline AS pipeline_name, flow AS flow_name, input AS input_name,"
    " cursor_kind, position_ts AS watermark_ts, position_version AS watermark_version, checked_ts, epoch, seq"
    " AS batches, updated_at FROM watermarks"
)


def upgrade() -> None:
    # MySQL commits after each statement; a migration that was cut off finds what it has made, and goes on.
    bind = op.get_bind()
    if "checked_ts" not in {column["name"] for column in sa.inspect(bind).get_columns("watermarks")}:
        op.add_column("watermarks", sa.Column("checked_ts", _moment))
    for row in bind.execute(sa.select(_watermarks).where(_watermarks.c.checked.is_not(None))).all():
        at, _ = typed(json.loads(row.checked), row.cursor_kind, row.stamp)
        mine = (_watermarks.c.flow_key == row.flow_key) & (_watermarks.c.input_key == row.input_key)
        bind.execute(sa.update(_watermarks).where(mine).values(checked_ts=at))
    if bind.dialect.name == "sqlite":
        bind.exec_driver_sql("DROP VIEW IF EXISTS watermark_positions")
    bind.exec_driver_sql(("CREATE" if bind.dialect.name == "sqlite" else "CREATE OR REPLACE") + VIEW)
