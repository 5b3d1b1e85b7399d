"""The ledger's tables, as the code of this version expects them; `migrations` makes them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects import mysql

from tidegauge.ledger.keys import LENGTH

VERSION_TABLE = "tidegauge_version"
VERSIONS = ("0001", "0002", "0003", "0004", "0005", "0006")
"""Every version of the tables that this code knows, oldest first. New ledgers get the last one."""
WORKABLE = VERSIONS[-2:]
"""The versions that this code works with: the last one only adds views for people."""

# On MySQL, TEXT ends at 64 KiB, too little for a plan of many batches, and DATETIME alone drops the fraction.
_text = Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
_moment = DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
# SQLite gives numbers by itself only in a column of exactly this type.
_number = BigInteger().with_variant(Integer(), "sqlite")
_key = String(LENGTH)
_id = String(128)
# The caller's id of a job can be longer than an id of ours; SQLite keeps any text in any column.
_job = _text.with_variant(String(128), "sqlite")
_word = String(16)
_options: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
}

metadata = MetaData()

flows = Table(
    "flows",
    metadata,
    Column("flow_key", _key, primary_key=True),
    Column("pipeline_key", _key, nullable=False),
    Column("pipeline", _text, nullable=False),
    Column("flow", _text, nullable=False),
    # The state while no plan is active: READY, SUCCESS or SKIPPED. An active plan has its own.
    Column("idle_state", _word, nullable=False),
    # Never lowered, not even by a new plan.
    Column("fence", BigInteger, nullable=False),
    Column("updated_at", _moment, nullable=False),
    Column("epoch", BigInteger, nullable=False, server_default="0"),
    # The last batch committed in this epoch.
    Column("seq", BigInteger, nullable=False, server_default="0"),
    # An override that was begun and not ended, and what the last one replaced.
    Column("override_body", _text),
    Column("undo_body", _text),
    # JSON. What the flow has done since its last reset, for people; before that, where there is any, its
    # suspension, and for `*`, which stands for the pipeline, the ticks of its schedules. NULL: none of these.
    Column("tally_body", _text),
    # NULL where the ledger is older than this column, and its history was pruned.
    Column("created_at", _moment),
    Index("ix_flows_pipeline", "pipeline_key"),
    **_options,
)

watermarks = Table(
    "watermarks",
    metadata,
    Column("flow_key", _key, primary_key=True),
    Column("input_key", _key, primary_key=True),
    Column("pipeline_key", _key, nullable=False),
    Column("pipeline", _text, nullable=False),
    Column("flow", _text, nullable=False),
    Column("input", _text, nullable=False),
    Column("cursor_kind", _text, nullable=False),
    # NULL: at the beginning.
    Column("position", _text),
    Column("checked", _text),
    Column("epoch", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("pending", _text),
    Column("source_id", _text),
    Column("updated_at", _moment, nullable=False),
    Column("fingerprint", _text),
    Column("stamp", _text),
    # The position once more, as a time and as a number where it has them, for people and for the views.
    Column("position_ts", _moment),
    Column("position_version", BigInteger),
    Column("checked_ts", _moment),
    Index("ix_watermarks_pipeline", "pipeline_key"),
    **_options,
)

plans = Table(
    "plans",
    metadata,
    Column("plan_id", _id, primary_key=True),
    Column("flow_key", _key, nullable=False),
    # 1, or NULL once the plan has ended: every database lets any number of NULLs into a unique constraint.
    Column("active", SmallInteger),
    Column("pipeline", _text, nullable=False),
    Column("flow", _text, nullable=False),
    Column("state", _word, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("first_seq", BigInteger, nullable=False),
    Column("batches", Integer, nullable=False),
    Column("done", Integer, nullable=False),
    # The batch that was begun last.
    Column("begun", Integer),
    Column("body", _text, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("owner_actor", _text),
    Column("owner_host", _text),
    Column("owner_pid", BigInteger),
    Column("owner_started", _text),
    Column("lease_until", _moment),
    Column("created_at", _moment, nullable=False),
    Column("updated_at", _moment, nullable=False),
    # Inputs that are done before the others, as a JSON list.
    Column("completed", _text),
    UniqueConstraint("flow_key", "active", name="uq_plans_one_active"),
    CheckConstraint("active IS NULL OR active = 1", name="ck_plans_active"),
    **_options,
)

runs = Table(
    "runs",
    metadata,
    Column("id", _number, primary_key=True, autoincrement=True),
    Column("run_id", _job, nullable=False),
    Column("flow_key", _key, nullable=False),
    Column("pipeline", _text, nullable=False),
    Column("flow", _text, nullable=False),
    # NULL where there was nothing to plan, or it could not be planned.
    Column("plan_id", _id),
    Column("attempt", Integer, nullable=False),
    Column("state", _word, nullable=False),
    Column("started_at", _moment, nullable=False),
    Column("ended_at", _moment),
    Column("batches", Integer, nullable=False),
    Column("rows_read", BigInteger, nullable=False),
    Column("rows_written", BigInteger, nullable=False),
    Column("error", _text),
    # NULL where it is not known.
    Column("rows_inserted", BigInteger),
    Column("rows_updated", BigInteger),
    Column("rows_deleted", BigInteger),
    # The window of the plan's first input: each end as a time and as a number, where it has them, and as the
    # text that people see.
    Column("after_ts", _moment),
    Column("upto_ts", _moment),
    Column("after_version", BigInteger),
    Column("upto_version", BigInteger),
    Column("after_text", _text),
    Column("upto_text", _text),
    UniqueConstraint("plan_id", "attempt", name="uq_runs_attempt"),
    Index("ix_runs_flow", "flow_key", "id"),
    **_options,
)

history = Table(
    "history",
    metadata,
    Column("id", _number, primary_key=True, autoincrement=True),
    Column("at", _moment, nullable=False),
    Column("pipeline_key", _key, nullable=False),
    Column("flow_key", _key, nullable=False),
    Column("pipeline", _text, nullable=False),
    Column("flow", _text, nullable=False),
    Column("run_id", _job),
    Column("plan_id", _id),
    Column("event", _word, nullable=False),
    Column("actor", _text, nullable=False),
    Column("reason", _text),
    Column("position_before", _text),
    Column("position_after", _text),
    Column("error", _text),
    Column("input", _text),
    Column("row_count", BigInteger),
    Column("seconds", Double),
    Index("ix_history_pipeline", "pipeline_key", "id"),
    Index("ix_history_flow", "flow_key", "id"),
    Index("ix_history_event", "pipeline_key", "event", "id"),
    **_options,
)
