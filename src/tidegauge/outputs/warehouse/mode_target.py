"""A target as the SQL of one transaction names it: its own columns, and rows that are told by their key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegauge.model.spec import TableName
from tidegauge.model.table import Field
from tidegauge.outputs.warehouse.warehouse import Warehouse, WarehouseSession

RUN_ID, LOADED_AT = "_tidegauge_run_id", "_tidegauge_loaded_at"
DELETED_AT = "_tidegauge_deleted_at"
VALID_FROM, VALID_TO, IS_CURRENT = "valid_from", "valid_to", "is_current"
OURS = frozenset({RUN_ID, LOADED_AT, DELETED_AT})
HISTORY = (VALID_FROM, VALID_TO, IS_CURRENT)


@dataclass(frozen=True)
class ModeTarget:
    """The table as one transaction writes it."""

    warehouse: Warehouse
    table: TableName
    soft: bool
    """It has the column that marks deleted rows."""
    run_id: str | None
    """For the metadata columns; None where there are none."""
    vanished: tuple[Field, ...] = ()
    """Columns that this flow wrote and that its rows no longer have: NULL in every row that is written."""
    live: bool = True
    """What comes was read after all that the target has; not so where a lake's files are loaded again."""

    history: TableName | None = None
    """Where a mode that keeps a history builds that of the staged keys."""
    cursor: str | None = None
    """The column that orders the versions of a key."""
    aside: str | None = None
    """A condition on staged rows, called `s`, that are set aside."""
    checked: bool = False
    """Rows are checked, so that one which was set aside may no longer be."""

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
    """A row of the target, called `t`, has the key of a row of the source."""
    return " AND ".join(
        warehouse.same(f"t.{warehouse.name(name)}", f"{source}.{warehouse.name(name)}") for name in key
    )
