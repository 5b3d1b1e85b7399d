"""A target as one transaction's SQL uses it: the columns that Tidegauge adds, and rows matched by key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegauge.model.delta_flow import IS_CURRENT, VALID_FROM, VALID_TO
from tidegauge.model.spec import TableName
from tidegauge.model.table import Field
from tidegauge.outputs.warehouse.warehouse import Warehouse, WarehouseSession

RUN_ID, LOADED_AT = "_tidegauge_run_id", "_tidegauge_loaded_at"
DELETED_AT = "_tidegauge_deleted_at"
OURS = frozenset({RUN_ID, LOADED_AT, DELETED_AT})
HISTORY = (VALID_FROM, VALID_TO, IS_CURRENT)


@dataclass(frozen=True)
class ModeTarget:
    """The table as one transaction writes it."""

    warehouse: Warehouse
    table: TableName
    soft: bool
    """Whether the target has the column that marks deleted rows."""
    run_id: str | None
    """The run's id for the metadata columns; None where the target has none."""
    vanished: tuple[Field, ...] = ()
    """Columns that this flow wrote and that its rows no longer have: NULL in every row that is written."""
    live: bool = True
    """Whether the batch was read after all that the target has; False where lake files are loaded again."""

    history: TableName | None = None
    """The table in which a mode that keeps a history rebuilds the history of the staged keys."""
    cursor: str | None = None
    """The column that orders the versions of a key."""
    aside: str | None = None
    """SQL condition that is true for staged rows, called `s`, that are set aside; None: none are."""
    checked: bool = False
    """Whether rows are checked by expectations, so that a row set aside earlier may pass now."""

    @property
    def name(self) -> str:
        return self.warehouse.table(self.table)

    def is_filled(self, session: WarehouseSession) -> bool:
        return bool(session.rows(f"SELECT 1 FROM {self.name} LIMIT 1"))


def exists(target: ModeTarget, source: TableName, key: Sequence[str], only: str | None = None) -> str:
    warehouse = target.warehouse
    where = match(warehouse, key) + (f" AND {only}" if only else "")
    return f"EXISTS (SELECT 1 FROM {warehouse.table(source)} AS s WHERE {where})"


def match(warehouse: Warehouse, key: Sequence[str], source: str = "s") -> str:
    """SQL condition: a row of the target, called `t`, has the key of a row of the source."""
    return " AND ".join(
        warehouse.same(f"t.{warehouse.name(name)}", f"{source}.{warehouse.name(name)}") for name in key
    )
