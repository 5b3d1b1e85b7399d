"""A view of plans, table by table; numbers of records that stay; no version where there is none."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_MYSQL_WITH_TABLES_OF_JSON = (8, 0, 4)
_MARIADB_WITH_TABLES_OF_JSON = (10, 6, 0)


def upgrade() -> None:
    # MySQL commits after each statement; a migration that was cut off makes them all again.
    bind = op.get_bind()
    for name, query in views(bind.dialect.name).items():
        if name == "pipeline_watermark_plans" and not _reads_lists(bind):
            continue
        if bind.dialect.name == "sqlite":
            bind.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")
        create = "CREATE VIEW" if bind.dialect.name == "sqlite" else "CREATE OR REPLACE VIEW"
        # Not op.execute: a colon in a view is not a parameter.
        bind.exec_driver_sql(f"{create} {name} AS {query}")


def _reads_lists(bind: sa.Connection) -> bool:
    """Whether the server makes rows of a list in JSON, as every one does that is still maintained."""
    if bind.dialect.name not in ("mysql", "mariadb"):
        return True
    version = tuple(bind.dialect.server_version_info or ())
    mariadb = getattr(bind.dialect, "is_mariadb", False)
    return version >= (_MARIADB_WITH_TABLES_OF_JSON if mariadb else _MYSQL_WITH_TABLES_OF_JSON)


class _Words(NamedTuple):
    """What databases say differently."""

    name: str
    """The pipeline, with the flow where that has a name of its own; of an alias."""
    message: str
    """Of a run's error; of an alias."""
    number: str
    """The type of a whole number, in a cast."""
    seconds: str
    """Between two moments."""
    parts: str
    """One row `i` for each input of a plan `p`."""
    part: dict[str, str]
    """What is known of an input `i`."""
    done: str
    """Whether the input is completed before the others."""
    stamp: str
    """The moment that an input's `stamp` says, in UTC; one without a zone as it is."""


_JOINED = "CASE WHEN {0}.flow = {0}.pipeline THEN {0}.pipeline ELSE %s END"
_BARS = _JOINED % "{0}.pipeline || '/' || {0}.flow"
_PATHS = {
    "input": "input",
    "fingerprint": "fingerprint",
    "stamp": "stamp",
    "after": "window.after.version",
    "upto": "window.upto.version",
}


def _sqlite() -> _Words:
    part = {name: f"json_extract(i.value, '$.{path}')" for name, path in _PATHS.items()}
    return _Words(
        name=_BARS,
        message="json_extract({0}.error, '$.message')",
        number="INTEGER",
        seconds="ROUND((julianday({1}) - julianday({0})) * 86400.0, 3)",
        parts="JOIN json_each(p.body, '$.inputs') i",
        part=part,
        done=f"EXISTS (SELECT 1 FROM json_each(p.completed) c WHERE c.value = {part['input']})",
        # SQLite knows milliseconds; the columns' text has six digits.
        stamp=f"strftime('%Y-%m-%d %H:%M:%f000', {part['stamp']})",
    )


def _postgresql() -> _Words:
    part = {name: "(i.value #>> '{" + path.replace(".", ",") + "}')" for name, path in _PATHS.items()}
    part |= {name: f"CAST({part[name]} AS bigint)" for name in ("after", "upto")}
    stamp = part["stamp"]
    return _Words(
        name=_BARS,
        message="({0}.error::json ->> 'message')",
        number="BIGINT",
        seconds="EXTRACT(EPOCH FROM ({1} - {0}))::double precision",
        # A NUL in a position is one in JSON, and PostgreSQL's text has none.
        parts="CROSS JOIN LATERAL json_array_elements(replace(p.body, '\\u0000', '\\ufffd')::json"
        " -> 'inputs') AS i(value)",
        part=part,
        done="EXISTS (SELECT 1 FROM json_array_elements_text(p.completed::json) c(value)"
        f" WHERE c.value = {part['input']})",
        stamp=f"CASE WHEN {stamp} ~ '(Z|[+-][0-9][0-9]:[0-9][0-9])$' THEN"
        f" {stamp}::timestamptz AT TIME ZONE 'UTC' ELSE {stamp}::timestamp END",
    )


def _duckdb() -> _Words:
    part = {name: f"(i.value ->> '$.{path}')" for name, path in _PATHS.items()}
    part |= {name: f"CAST({part[name]} AS BIGINT)" for name in ("after", "upto")}
    return _Words(
        name=_BARS,
        message="({0}.error ->> '$.message')",
        number="BIGINT",
        seconds="epoch({1} - {0})",
        parts="CROSS JOIN json_each(p.body, '$.inputs') i",
        part=part,
        done=f"json_contains(p.completed, to_json({part['input']}))",
        stamp=f"CAST({part['stamp']} AS TIMESTAMP)",
    )


def _mysql() -> _Words:
    columns = {**dict.fromkeys(_PATHS, "LONGTEXT CHARACTER SET utf8mb4"), "after": "BIGINT", "upto": "BIGINT"}
    rows = ", ".join(f"{name}_ {columns[name]} PATH '$.{path}'" for name, path in _PATHS.items())
    local = "CAST(REPLACE(LEFT(i.stamp_, CHAR_LENGTH(i.stamp_) - {0}), 'T', ' ') AS DATETIME(6))"
    return _Words(
        name=_JOINED % "CONCAT({0}.pipeline, '/', {0}.flow)",
        message="JSON_UNQUOTE(JSON_EXTRACT({0}.error, '$.message'))",
        number="SIGNED",
        seconds="TIMESTAMPDIFF(MICROSECOND, {0}, {1}) / 1e6",
        parts=f"JOIN JSON_TABLE(p.body, '$.inputs[*]' COLUMNS ({rows})) AS i",
        part={name: f"i.{name}_" for name in _PATHS},
        done="JSON_CONTAINS(p.completed, JSON_QUOTE(i.input_))",
        stamp="CASE WHEN i.stamp_ REGEXP '[+-][0-9][0-9]:[0-9][0-9]$' THEN"
        f" CONVERT_TZ({local.format(6)}, RIGHT(i.stamp_, 6), '+00:00')"
        f" ELSE {local.format(0)} END",
    )


_WORDS = {"sqlite": _sqlite, "postgresql": _postgresql, "duckdb": _duckdb}


def views(dialect: str) -> dict[str, str]:
    """By name, what each view selects. `duckdb` is for `ledger.views`, which shows every kind of ledger."""
    words = _WORDS.get(dialect, _mysql)()
    return {
        "watermarks_v": _records(words),
        "pipeline_watermark_history": _history(words),
        "pipeline_watermark_plans": _plans(words),
    }


def _records(words: _Words) -> str:
    # A record is named by the success that it begins at, so that it has one number from READY to its end; the
    # first of a flow by the flow's first attempt. Those are odd, and these even.
    success = (
        "(SELECT s.id FROM runs s WHERE s.flow_key = {0}.flow_key AND s.plan_id IS NOT NULL"
        " AND s.state = 'SUCCESS'{1} ORDER BY s.id DESC LIMIT 1) * 2 + 1"
    )
    first = "(SELECT MIN(g.id) FROM runs g WHERE g.flow_key = {0}.flow_key AND g.plan_id IS NOT NULL) * 2"
    begun = " AND s.id < (SELECT MIN(f.id) FROM runs f WHERE f.plan_id = r.plan_id)"
    return (
        f"SELECT COALESCE({success.format('r', begun)}, {first.format('r')}) AS watermark_id,"
        f" {words.name.format('r')} AS pipeline_name, r.run_id AS job_id, r.after_ts AS last_processed_ts,"
        " r.upto_ts AS current_run_ts, r.after_version AS last_processed_version, r.state AS status,"
        " (SELECT MIN(f.started_at) FROM runs f WHERE f.plan_id = r.plan_id) AS created_at,"
        " COALESCE(r.ended_at, r.started_at) AS updated_at,"
        f" {words.message.format('r')} AS error_message,"
        f" {words.seconds.format('r.started_at', 'r.ended_at')} AS run_duration"
        " FROM runs r WHERE r.plan_id IS NOT NULL AND NOT EXISTS"
        " (SELECT 1 FROM runs l WHERE l.plan_id = r.plan_id AND l.attempt > r.attempt)"
        # A window that was skipped is taken up by the next run: there it is one record.
        " AND (r.state <> 'SKIPPED' OR NOT EXISTS (SELECT 1 FROM runs n WHERE n.flow_key = r.flow_key"
        " AND n.plan_id IS NOT NULL AND n.id > r.id))"
        # What the next run begins with: only after SUCCESS, or after somebody has set it.
        f" UNION ALL SELECT COALESCE({success.format('b', '')}, {first.format('b')}),"
        f" {words.name.format('b')}, NULL,"
        " (SELECT MIN(m.position_ts) FROM watermarks m WHERE m.flow_key = b.flow_key),"
        " NULL, (SELECT MIN(m.position_version) FROM watermarks m WHERE m.flow_key = b.flow_key),"
        " 'READY', b.updated_at, b.updated_at, NULL, NULL"
        " FROM flows b WHERE b.idle_state IN ('SUCCESS', 'READY')"
        " AND EXISTS (SELECT 1 FROM watermarks m WHERE m.flow_key = b.flow_key AND m.position IS NOT NULL)"
        " AND NOT EXISTS (SELECT 1 FROM plans p WHERE p.flow_key = b.flow_key AND p.active = 1)"
    )


def _history(words: _Words) -> str:
    version = (
        "CASE WHEN SUBSTR({0}, 1, 11) = '{{\"version\":' THEN"
        " CAST(REPLACE(REPLACE({0}, '{{\"version\":', ''), '}}', '') AS " + words.number + ") END"
    )
    before, after = version.format("h.position_before"), version.format("h.position_after")
    return (
        f"SELECT h.id AS history_id, {words.name.format('h')} AS pipeline_name, h.input AS table_name,"
        " COALESCE(h.plan_id, h.run_id) AS run_id,"
        " CASE h.event WHEN 'planned' THEN 'PLANNED' WHEN 'advanced' THEN 'SUCCESS'"
        " WHEN 'finished' THEN 'SUCCESS' WHEN 'failed' THEN 'FAILED' WHEN 'refused' THEN 'FAILED'"
        " WHEN 'skipped' THEN 'SKIPPED'"
        " WHEN 'released' THEN 'PLANNED' WHEN 'claimed' THEN 'RUNNING' WHEN 'taken_over' THEN 'RUNNING'"
        " ELSE 'READY' END AS status, h.event AS event,"
        f" COALESCE({before} + 1, CASE WHEN h.position_before IS NULL AND {after} IS NOT NULL THEN 0 END)"
        f" AS start_version, {after} AS end_version,"
        f" CASE WHEN h.event = 'advanced' THEN {after} ELSE {before} END AS last_processed_version,"
        " h.error AS error_message, CASE WHEN h.event IN ('failed', 'refused') THEN h.at END AS failed_at,"
        " h.row_count AS records_processed, h.seconds AS execution_duration, h.actor AS actor,"
        " h.reason AS reason, h.at AS update_ts FROM history h"
    )


def _plans(words: _Words) -> str:
    part = words.part
    done = f"(p.state = 'SUCCESS' OR p.completed IS NOT NULL AND {words.done})"
    return (
        f"SELECT p.pipeline AS pipeline, p.flow AS flow, p.plan_id AS run_id, {part['input']} AS table_name,"
        f" CASE WHEN {part['upto']} IS NOT NULL THEN COALESCE({part['after']}, -1) + 1 END AS start_version,"
        f" {part['upto']} AS end_version, CASE WHEN p.state = 'SUCCESS' THEN {part['upto']}"
        f" WHEN p.active IS NULL OR {part['upto']} IS NULL THEN {part['after']}"
        " ELSE w.position_version END AS last_processed_version,"
        f" CASE WHEN {done} THEN 'COMPLETED' ELSE p.state END AS status,"
        f" NULLIF({part['fingerprint']}, '') AS schema_version,"
        f" {words.stamp} AS commit_timestamp, CAST(a.row_count AS {words.number}) AS records_processed,"
        f" CASE WHEN NOT {done} THEN {words.message.format('r')} END AS error,"
        " p.created_at AS created_at, p.updated_at AS updated_at,"
        " CASE WHEN p.active IS NULL THEN p.updated_at END AS ended_at"
        f" FROM plans p {words.parts}"
        f" LEFT JOIN watermarks w ON w.flow_key = p.flow_key AND w.input = {part['input']}"
        " LEFT JOIN runs r ON r.plan_id = p.plan_id AND r.attempt = p.attempt"
        " LEFT JOIN (SELECT h.plan_id AS plan_id, h.input AS input, SUM(h.row_count) AS row_count"
        " FROM history h WHERE h.event = 'advanced' GROUP BY h.plan_id, h.input) a"
        f" ON a.plan_id = p.plan_id AND a.input = {part['input']}"
    )
