"""The first ledger."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_text = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
_moment = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_key = sa.String(64)
_id = sa.String(128)
_word = sa.String(16)
_options: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
}


def upgrade() -> None:
    # MySQL commits after each table; a migration that was cut off finds what it has made, and goes on.
    _create(
        "flows",
        sa.Column("flow_key", _key, primary_key=True),
        sa.Column("pipeline_key", _key, nullable=False),
        sa.Column("pipeline", _text, nullable=False),
        sa.Column("flow", _text, nullable=False),
        sa.Column("idle_state", _word, nullable=False),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("updated_at", _moment, nullable=False),
        sa.Index("ix_flows_pipeline", "pipeline_key"),
    )
    _create(
        "watermarks",
        sa.Column("flow_key", _key, primary_key=True),
        sa.Column("input_key", _key, primary_key=True),
        sa.Column("pipeline_key", _key, nullable=False),
        sa.Column("pipeline", _text, nullable=False),
        sa.Column("flow", _text, nullable=False),
        sa.Column("input", _text, nullable=False),
        sa.Column("cursor_kind", _text, nullable=False),
        sa.Column("position", _text),
        sa.Column("checked", _text),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("pending", _text),
        sa.Column("source_id", _text),
        sa.Column("updated_at", _moment, nullable=False),
        sa.Index("ix_watermarks_pipeline", "pipeline_key"),
    )
    _create(
        "plans",
        sa.Column("plan_id", _id, primary_key=True),
        sa.Column("flow_key", _key, nullable=False),
        sa.Column("active", sa.SmallInteger),
        sa.Column("pipeline", _text, nullable=False),
        sa.Column("flow", _text, nullable=False),
        sa.Column("state", _word, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("first_seq", sa.BigInteger, nullable=False),
        sa.Column("batches", sa.Integer, nullable=False),
        sa.Column("done", sa.Integer, nullable=False),
        sa.Column("begun", sa.Integer),
        sa.Column("body", _text, nullable=False),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("owner_actor", _text),
        sa.Column("owner_host", _text),
        sa.Column("owner_pid", sa.BigInteger),
        sa.Column("owner_started", _text),
        sa.Column("lease_until", _moment),
        sa.Column("created_at", _moment, nullable=False),
        sa.Column("updated_at", _moment, nullable=False),
        sa.UniqueConstraint("flow_key", "active", name="uq_plans_one_active"),
        sa.CheckConstraint("active IS NULL OR active = 1", name="ck_plans_active"),
    )
    _create(
        "runs",
        sa.Column("id", _number, primary_key=True, autoincrement=True),
        sa.Column("run_id", _id, nullable=False),
        sa.Column("flow_key", _key, nullable=False),
        sa.Column("pipeline", _text, nullable=False),
        sa.Column("flow", _text, nullable=False),
        sa.Column("plan_id", _id),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("state", _word, nullable=False),
        sa.Column("started_at", _moment, nullable=False),
        sa.Column("ended_at", _moment),
        sa.Column("batches", sa.Integer, nullable=False),
        sa.Column("rows_read", sa.BigInteger, nullable=False),
        sa.Column("rows_written", sa.BigInteger, nullable=False),
        sa.Column("error", _text),
        sa.UniqueConstraint("plan_id", "attempt", name="uq_runs_attempt"),
        sa.Index("ix_runs_flow", "flow_key", "id"),
    )
    _create(
        "history",
        sa.Column("id", _number, primary_key=True, autoincrement=True),
        sa.Column("at", _moment, nullable=False),
        sa.Column("pipeline_key", _key, nullable=False),
        sa.Column("flow_key", _key, nullable=False),
        sa.Column("pipeline", _text, nullable=False),
        sa.Column("flow", _text, nullable=False),
        sa.Column("run_id", _id),
        sa.Column("plan_id", _id),
        sa.Column("event", _word, nullable=False),
        sa.Column("actor", _text, nullable=False),
        sa.Column("reason", _text),
        sa.Column("position_before", _text),
        sa.Column("position_after", _text),
        sa.Column("error", _text),
        sa.Index("ix_history_pipeline", "pipeline_key", "id"),
        sa.Index("ix_history_flow", "flow_key", "id"),
        sa.Index("ix_history_event", "pipeline_key", "event", "id"),
    )


def _create(name: str, *parts: sa.schema.SchemaItem) -> None:
    """Table and indexes, unless they are there."""
    bind = op.get_bind()
    table = sa.Table(name, sa.MetaData(), *parts, **_options)
    table.create(bind, checkfirst=True)
    known = {index["name"] for index in sa.inspect(bind).get_indexes(name)}
    for index in table.indexes:
        if index.name not in known:
            index.create(bind)
