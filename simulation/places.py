"""The one flow that is simulated, and cheap positions for it: numbers from 0 to 999."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from tidegauge.model.position import Position, RowPosition, Value, ValueKind
from tidegauge.model.spec import (
    Database,
    Engine,
    Lake,
    LakeTable,
    Project,
    SparkSettings,
    TableFlow,
    TableName,
    TableOptions,
)
from tidegauge.model.table import OrderedColumn, SourceTable

PIPELINE = "shop"
NAME = "orders"
INPUT = "orders"
LEASE = timedelta(seconds=30)
DAWN = datetime(2026, 1, 1)
PROJECT = Project(PIPELINE, Path("tidegauge.yaml"), "feigned", LEASE, SparkSettings(), {}, ())

_POSITIONS = tuple(RowPosition(Value(ValueKind.INT, str(number))) for number in range(1000))


def at(number: int) -> RowPosition | None:
    """Return the position of a number; None, the beginning, for 0."""
    return _POSITIONS[number] if number else None


def number(position: Position | None) -> int:
    if position is None:
        return 0
    assert isinstance(position, RowPosition)
    return int(position.cursor.text)


class _Shape(SourceTable):
    @property
    def fingerprint(self) -> str:
        return "fingerprint"  # saves computing a hash for every plan


def _flow(batch_rows: int) -> TableFlow:
    options = TableOptions(cursor="id", batch_rows=batch_rows, parallel=1)
    return TableFlow(
        PIPELINE,
        NAME,
        Database("db", Engine.SQLITE),
        TableName(None, INPUT),
        LakeTable(Lake("lake", "/lake"), "orders"),
        options,
    )


FLOWS = tuple(_flow(batch_rows) for batch_rows in (1, 2, 3, 50))
"""The same flow with different batch sizes."""

SHAPE: SourceTable = _Shape(
    table=FLOWS[0].table,
    options=FLOWS[0].options,
    columns=(),
    cursor=OrderedColumn("id", "id", "{}", ValueKind.INT, nullable=False),
    cursor_kind="timestamp",
    key=(),
    key_proven=True,
    source_id="db",
)
