"""Insert many rows with few statements: one for each row, or one bind for each value, takes twice as long."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Table


def insert_rows(
    connection: Connection,
    table: Table,
    rows: Sequence[dict[str, Any]],
    *,
    replace: Sequence[str] | None = None,
) -> None:
    """Insert rows, all with the same columns in the same order. Where the primary key is there already, the
    columns in `replace` take the new values, or none do if it is empty; if it is None, that is an error."""
    if not rows:
        return
    values = [tuple(row.values()) for row in rows]
    names = list(rows[0])
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    one = f"({', '.join([mark] * len(names))})"
    head = f"INSERT INTO {table.name} ({', '.join(_quote(connection, names))}) VALUES "
    tail = _on_conflict(connection, table, replace)
    # SQLite's driver loops in C, MySQL's makes one statement of many rows, PostgreSQL's sends them in one go.
    connection.exec_driver_sql(head + one + tail, values)


def moment(connection: Connection, at: datetime) -> datetime | str:
    """A timestamp as the driver wants it."""
    return at.isoformat(sep=" ", timespec="microseconds") if connection.dialect.name == "sqlite" else at


def _on_conflict(connection: Connection, table: Table, replace: Sequence[str] | None) -> str:
    if replace is None:
        return ""
    names = _quote(connection, replace)
    key = _quote(connection, [column.name for column in table.primary_key])
    if connection.dialect.name in ("mysql", "mariadb"):
        # Not INSERT IGNORE, which would also swallow every other fault.
        changes = [f"{name} = VALUES({name})" for name in names] or [f"{key[0]} = {key[0]}"]
        return f" ON DUPLICATE KEY UPDATE {', '.join(changes)}"
    changes = [f"{name} = excluded.{name}" for name in names]
    action = f"UPDATE SET {', '.join(changes)}" if changes else "NOTHING"
    return f" ON CONFLICT ({', '.join(key)}) DO {action}"


def _quote(connection: Connection, names: Sequence[str]) -> list[str]:
    return [connection.dialect.identifier_preparer.quote_identifier(name) for name in names]
