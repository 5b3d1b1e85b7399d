"""What a flow has done since it was last reset."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_text = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
_moment = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_flows = sa.table(
    "flows", *(sa.column(name) for name in ("flow_key", "tally_body")), sa.column("created_at", _moment)
)
_runs = sa.table(
    "runs",
    *(sa.column(name) for name in ("flow_key", "rows_written", "batches")),
    *(sa.column(name, _moment) for name in ("started_at", "ended_at")),
)
_history = sa.table(
    "history", *(sa.column(name) for name in ("id", "flow_key", "event")), sa.column("at", _moment)
)
_BY_HAND = {"set": True, "copy": True, "import": True, "reset": False, "undo": False, "advanced": False}


def upgrade() -> None:
    # MySQL commits after each statement; a migration that was cut off finds what it has made, and goes on.
    bind = op.get_bind()
    known = {column["name"] for column in sa.inspect(bind).get_columns("flows")}
    for name, kind in (("tally_body", _text), ("created_at", _moment)):
        if name not in known:
            op.add_column("flows", sa.Column(name, kind))
    for key in bind.execute(sa.select(_flows.c.flow_key)).scalars().all():
        of_flow = _history.c.flow_key == key
        events = sa.select(_history.c.event, _history.c.at).where(
            of_flow, _history.c.event.in_(list(_BY_HAND))
        )
        said = bind.execute(events.order_by(_history.c.id)).all()
        done = bind.execute(
            sa.select(_runs.c.started_at, _runs.c.ended_at, _runs.c.rows_written, _runs.c.batches).where(
                _runs.c.flow_key == key
            )
        ).all()
        first = bind.execute(sa.select(sa.func.min(_history.c.at)).where(of_flow)).scalar()
        text = json.dumps({"now": _tally(said, done), "before": None}) if said or done else None
        bind.execute(
            sa.update(_flows).where(_flows.c.flow_key == key).values(created_at=first, tally_body=text)
        )


def _tally(said: Sequence[Any], done: Sequence[Any]) -> dict[str, Any]:
    """From the runs that are still there, since the last reset; files were not counted."""
    reset = max((row.at for row in said if row.event == "reset"), default=datetime.min)
    moved = [row.at for row in said if row.event == "advanced" and row.at > reset]
    runs = [row for row in done if row.started_at >= reset]
    return {
        "rows": sum(row.rows_written for row in runs),
        "batches": sum(row.batches for row in runs),
        "files": None if any(row.batches for row in runs) else 0,
        "seconds": _seconds(runs),
        "advanced_at": max(moved).isoformat() if moved else None,
        "manual": _BY_HAND[said[-1].event] if said else False,
        "strategy": None,
        "loaded": [],
        "loaded_files": 0,
    }


def _seconds(runs: Sequence[Any]) -> float:
    ended = [row for row in runs if row.ended_at is not None]
    total: float = sum((row.ended_at - row.started_at).total_seconds() for row in ended)
    return round(total, 6)
