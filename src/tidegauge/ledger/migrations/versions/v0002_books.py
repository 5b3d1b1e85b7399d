"""Epochs and overrides, several inputs, typed positions, and the views for people's own queries."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_text = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
_moment = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")

_ADDED: dict[str, tuple[tuple[str, Any], ...]] = {
    "flows": (("override_body", _text), ("undo_body", _text)),
    "watermarks": (
        ("fingerprint", _text),
        ("stamp", _text),
        ("position_ts", _moment),
        ("position_version", sa.BigInteger()),
    ),
    "plans": (("completed", _text),),
    "runs": (
        ("rows_inserted", sa.BigInteger()),
        ("rows_updated", sa.BigInteger()),
        ("rows_deleted", sa.BigInteger()),
        ("after_ts", _moment),
        ("upto_ts", _moment),
        ("after_version", sa.BigInteger()),
        ("upto_version", sa.BigInteger()),
    ),
    "history": (("input", _text), ("row_count", sa.BigInteger()), ("seconds", sa.Double())),
}


def upgrade() -> None:
    # MySQL commits after each statement; a migration that was cut off finds what it has made, and goes on.
    inspector = sa.inspect(op.get_bind())
    for name in ("epoch", "seq"):
        _add(inspector, "flows", sa.Column(name, sa.BigInteger, nullable=False, server_default="0"))
    for table, columns in _ADDED.items():
        for name, kind in columns:
            _add(inspector, table, sa.Column(name, kind))
    for table, nullable in (("runs", False), ("history", True)):
        # A job's name can be longer than an id of ours. SQLite keeps any text in any column.
        if op.get_bind().dialect.name != "sqlite":
            op.alter_column(table, "run_id", type_=_text, existing_nullable=nullable)
    for name in ("epoch", "seq"):
        within = " AND m.epoch = flows.epoch" if name == "seq" else ""
        op.execute(
            f"UPDATE flows SET {name} = COALESCE((SELECT MAX(m.{name}) FROM watermarks m"
            f" WHERE m.flow_key = flows.flow_key{within}), 0)"
        )
    for statement in views(op.get_bind().dialect.name):
        # Not op.execute: a colon in a view is not a parameter.
        op.get_bind().exec_driver_sql(statement)


def _add(inspector: sa.Inspector, table: str, column: sa.Column[Any]) -> None:
    if column.name not in {known["name"] for known in inspector.get_columns(table)}:
        op.add_column(table, column)


def views(dialect: str) -> list[str]:
    """Also for `ledger.views`, which shows every kind of ledger in DuckDB."""
    sqlite, postgresql = dialect == "sqlite", dialect == "postgresql"
    if sqlite or postgresql:
        name = "CASE WHEN {0}.flow = {0}.pipeline THEN {0}.pipeline ELSE {0}.pipeline || '/' || {0}.flow END"
    else:
        name = (
            "CASE WHEN {0}.flow = {0}.pipeline THEN {0}.pipeline ELSE CONCAT({0}.pipeline, '/', {0}.flow) END"
        )
    number = "BIGINT" if postgresql else "INTEGER" if sqlite else "SIGNED"
    if postgresql:
        message = "(r.error::json ->> 'message')"
    elif sqlite:
        message = "json_extract(r.error, '$.message')"
    else:
        message = "JSON_UNQUOTE(JSON_EXTRACT(r.error, '$.message'))"
    version = (
        "CASE WHEN SUBSTR({0}, 1, 11) = '{{\"version\":' THEN"
        " CAST(REPLACE(REPLACE({0}, '{{\"version\":', ''), '}}', '') AS " + number + ") END"
    )
    before, after = version.format("h.position_before"), version.format("h.position_after")
    create = "CREATE VIEW IF NOT EXISTS {0} AS" if sqlite else "CREATE OR REPLACE VIEW {0} AS"
    records = (
        f"{create.format('watermarks_v')}"
        # A plan is one record, whatever number of attempts it took; even numbers are theirs.
        " SELECT (SELECT MIN(f.id) FROM runs f WHERE f.plan_id = r.plan_id) * 2 AS watermark_id,"
        f" {name.format('r')} AS pipeline_name, r.run_id AS job_id, r.after_ts AS last_processed_ts,"
        " r.upto_ts AS current_run_ts, r.after_version AS last_processed_version, r.state AS status,"
        " (SELECT MIN(f.started_at) FROM runs f WHERE f.plan_id = r.plan_id) AS created_at,"
        " COALESCE(r.ended_at, r.started_at) AS updated_at"
        " FROM runs r WHERE r.plan_id IS NOT NULL AND NOT EXISTS"
        " (SELECT 1 FROM runs l WHERE l.plan_id = r.plan_id AND l.attempt > r.attempt)"
        # What the next run begins with: only after SUCCESS, or after somebody has set it.
        " UNION ALL SELECT (SELECT MAX(f.id) FROM runs f WHERE f.flow_key = b.flow_key) * 2 + 1,"
        f" {name.format('b')}, NULL,"
        " (SELECT MIN(m.position_ts) FROM watermarks m WHERE m.flow_key = b.flow_key),"
        " NULL, (SELECT MIN(m.position_version) FROM watermarks m WHERE m.flow_key = b.flow_key),"
        " 'READY', b.updated_at, b.updated_at FROM flows b WHERE b.idle_state IN ('SUCCESS', 'READY')"
        " AND EXISTS (SELECT 1 FROM watermarks m WHERE m.flow_key = b.flow_key AND m.position IS NOT NULL)"
        " AND NOT EXISTS (SELECT 1 FROM plans p WHERE p.flow_key = b.flow_key AND p.active = 1)"
    )
    history = (
        f"{create.format('pipeline_watermark_history')}"
        f" SELECT h.id AS history_id, {name.format('h')} AS pipeline_name, h.input AS table_name,"
        " COALESCE(h.plan_id, h.run_id) AS run_id,"
        " CASE h.event WHEN 'planned' THEN 'PLANNED' WHEN 'advanced' THEN 'SUCCESS'"
        " WHEN 'finished' THEN 'SUCCESS' WHEN 'failed' THEN 'FAILED' WHEN 'refused' THEN 'FAILED'"
        " WHEN 'skipped' THEN 'SKIPPED'"
        " WHEN 'released' THEN 'PLANNED' WHEN 'claimed' THEN 'RUNNING' WHEN 'taken_over' THEN 'RUNNING'"
        " ELSE 'READY' END AS status, h.event AS event,"
        f" CASE WHEN h.input IS NULL THEN NULL ELSE COALESCE({before}, -1) + 1 END AS start_version,"
        f" {after} AS end_version,"
        f" CASE WHEN h.event = 'advanced' THEN {after} ELSE {before} END AS last_processed_version,"
        " h.error AS error_message, CASE WHEN h.event IN ('failed', 'refused') THEN h.at END AS failed_at,"
        " h.row_count AS records_processed, h.seconds AS execution_duration, h.actor AS actor,"
        " h.reason AS reason, h.at AS update_ts FROM history h"
    )
    control = (
        f"{create.format('etl_pipeline_sync_control')}"
        " SELECT r.id AS sync_run_id, r.flow AS table_name, r.started_at AS sync_start_timestamp,"
        " r.ended_at AS sync_end_timestamp, r.after_ts AS watermark_from, r.upto_ts AS watermark_to,"
        " r.rows_inserted AS rows_inserted, r.rows_updated AS rows_updated, r.rows_written AS rows_processed,"
        # A sync that found nothing new is one that went well.
        " CASE r.state WHEN 'SKIPPED' THEN 'SUCCESS' ELSE r.state END AS sync_status,"
        f" {message} AS error_message FROM runs r"
    )
    statements = [records, history, control]
    if postgresql:
        # Queries that were written for MySQL measure durations with it, and PostgreSQL has none.
        statements.append(
            "CREATE OR REPLACE FUNCTION timestampdiff(unit text, a timestamp, b timestamp)"
            " RETURNS double precision LANGUAGE sql IMMUTABLE AS $$"
            " SELECT EXTRACT(EPOCH FROM (b - a)) / CASE lower(unit)"
            " WHEN 'second' THEN 1 WHEN 'minute' THEN 60 WHEN 'hour' THEN 3600 WHEN 'day' THEN 86400 END $$"
        )
    return statements
