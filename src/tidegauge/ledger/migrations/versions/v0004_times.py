"""The time and the text of every kind of position; what was left out before is filled in from the plans."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_text = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
_moment = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_watermarks = sa.table(
    "watermarks",
    *(sa.column(name) for name in ("flow_key", "input_key", "cursor_kind", "position", "stamp")),
    sa.column("position_version"),
    sa.column("position_ts", _moment),
)
_plans = sa.table("plans", *(sa.column(name) for name in ("plan_id", "flow_key", "body", "created_at")))
_runs = sa.table(
    "runs",
    *(sa.column(name) for name in ("plan_id", "after_text", "upto_text", "after_version", "upto_version")),
    *(sa.column(name, _moment) for name in ("after_ts", "upto_ts")),
)
_NOTATION = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?)(\.\d+)?)?(Z|[+-]\d\d:\d\d)?", re.ASCII)


def upgrade() -> None:
    # MySQL commits after each statement; a migration that was cut off finds what it has made, and goes on.
    bind = op.get_bind()
    known = {column["name"] for column in sa.inspect(bind).get_columns("runs")}
    for name in ("after_text", "upto_text"):
        if name not in known:
            op.add_column("runs", sa.Column(name, _text))
    _fill_watermarks(bind)
    _fill_runs(bind)


def _fill_watermarks(bind: sa.Connection) -> None:
    empty = _watermarks.c.position_ts.is_(None) & _watermarks.c.position.is_not(None)
    for row in bind.execute(sa.select(_watermarks).where(empty)).all():
        at, number = typed(json.loads(row.position), row.cursor_kind, row.stamp)
        if at is None and number is None:
            continue
        mine = (_watermarks.c.flow_key == row.flow_key) & (_watermarks.c.input_key == row.input_key)
        values = {"position_ts": at, "position_version": number}
        bind.execute(sa.update(_watermarks).where(mine).values(values))


def _fill_runs(bind: sa.Connection) -> None:
    """From the plans that are still there, oldest first: where one ended, the next began."""
    ends: dict[tuple[str, str], str | None] = {}
    kept = sa.select(_plans.c.plan_id, _plans.c.flow_key, _plans.c.body)
    for row in bind.execute(kept.order_by(_plans.c.created_at, _plans.c.plan_id)).all():
        inputs = json.loads(row.body)["inputs"]
        if not inputs or not inputs[0]["window"]:
            continue
        part, window = inputs[0], inputs[0]["window"]
        since = ends.get((row.flow_key, json.dumps(window["after"])))
        ends[row.flow_key, json.dumps(window["upto"])] = part.get("stamp")
        after_ts, after_version = typed(window["after"], part["cursor"], since)
        upto_ts, upto_version = typed(window["upto"], part["cursor"], part.get("stamp"))
        values = {
            "after_text": _shown(window["after"]),
            "upto_text": _shown(window["upto"]),
            "after_ts": after_ts,
            "upto_ts": upto_ts,
            "after_version": after_version,
            "upto_version": upto_version,
        }
        known = {name: value for name, value in values.items() if value is not None}
        if known:
            bind.execute(sa.update(_runs).where(_runs.c.plan_id == row.plan_id).values(known))


def typed(position: Any, cursor: str, stamp: str | None) -> tuple[datetime | None, int | None]:
    match position:
        case {"version": int(number)} | {"files": int(number)}:
            return _at(stamp or ""), number
        case {"cursor": ["int", text]}:
            return None, int(text) if len(text) < 19 else None
        case {"cursor": ["timestamp" | "timestamptz" | "date", text]}:
            at = _at(text)
        case {"cursor": ["text", text]} if cursor == "timestamp":
            at = _at(text)
        case _:
            return None, None
    return at, None if at is None else (at - datetime(1970, 1, 1)) // timedelta(milliseconds=1)


def _at(text: str) -> datetime | None:
    parts = _NOTATION.fullmatch(text)
    if parts is None:
        return None
    day, clock, fraction, zone = parts.groups()
    try:
        found = datetime.fromisoformat(f"{day}T{clock or '00:00'}{(fraction or '')[:7]}{zone or ''}")
        return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found
    except (ValueError, OverflowError):
        return None


def _shown(position: Any) -> str | None:
    match position:
        case {"cursor": [_, text], "key": [*key]}:
            shown = str(text) + (f" · {', '.join(value for _, value in key)}" if key else "")
            # PostgreSQL cannot store a NUL, and no database half a surrogate pair.
            return shown.replace("\0", "�").encode("utf-8", "replace").decode("utf-8")
        case {"version": number}:
            return f"version {number}"
        case {"files": number}:
            return f"batch {number}"
        case _:
            return None
