"""What a MySQL or MariaDB server says about one table: its columns, unique keys and indexes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidegauge.model.position import Value, ValueKind
from tidegauge.sources.dialect import COMMENT, TableDescription, UniqueKey, refuse_nul
from tidegauge.sources.mysql.engine import literal, quote
from tidegauge.sources.types import CatalogueColumn

FLOATS = ("float", "double")
INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")


class MysqlCatalogueSession(Protocol):
    def rows(self, sql: str) -> list[tuple[Any, ...]]: ...


@dataclass
class _Index:
    columns: list[str | None] = field(default_factory=list)
    """None for an expression."""
    identifies: bool = True
    """The index is unique, and over columns that cannot be NULL, without expressions."""
    sorted_by: list[str] = field(default_factory=list)
    """The first columns of the index, as far as it has the rows in their ascending order."""

    def add(self, column: str | None, *, unique: bool, nullable: bool, ascending: bool) -> None:
        if column is not None and ascending and len(self.sorted_by) == len(self.columns):
            self.sorted_by.append(column)
        self.columns.append(column)
        self.identifies = self.identifies and column is not None and unique and not nullable


def read_catalogue(session: MysqlCatalogueSession, schema: str, table: str) -> TableDescription | None:
    """The catalogue of a table, with an empty `identity`; None if the login can see no such table."""
    where = f"TABLE_SCHEMA = {_quote_text(schema)} AND TABLE_NAME = {_quote_text(refuse_nul(table))}"
    described = session.rows(
        f"SELECT {COMMENT} COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, NUMERIC_PRECISION,"
        " NUMERIC_SCALE, DATETIME_PRECISION FROM information_schema.COLUMNS"
        f" WHERE {where} ORDER BY ORDINAL_POSITION"
    )
    if not described:
        return None
    indexes = _read_indexes(session, where)
    uniques = tuple(
        UniqueKey(tuple(str(column) for column in index.columns), primary=name == "PRIMARY")
        for name, index in indexes.items()
        if index.identifies
    )
    indexed = frozenset(str(index.columns[0]) for index in indexes.values())
    columns = tuple(_native(*row) for row in described)
    return TableDescription(columns, uniques, indexed, identity="", orders=_orders(indexes))


def _read_indexes(session: MysqlCatalogueSession, where: str) -> dict[str, _Index]:
    indexes: dict[str, _Index] = {}
    for name, unique, column, nullable, ascending in session.rows(
        f"SELECT {COMMENT} INDEX_NAME, NON_UNIQUE = 0, COLUMN_NAME, NULLABLE = 'YES',"
        " INDEX_TYPE = 'BTREE' AND COALESCE(COLLATION, '') = 'A' AND SUB_PART IS NULL"
        f" FROM information_schema.STATISTICS WHERE {where} ORDER BY INDEX_NAME, SEQ_IN_INDEX"
    ):
        indexes.setdefault(name, _Index()).add(
            column, unique=int(unique) == 1, nullable=int(nullable) == 1, ascending=int(ascending) == 1
        )
    return indexes


def _orders(indexes: Mapping[str, _Index]) -> dict[tuple[str, ...], str]:
    """See `TableDescription.orders`."""
    orders: dict[tuple[str, ...], str] = {}
    primary = indexes["PRIMARY"].sorted_by if "PRIMARY" in indexes else []
    for name, index in indexes.items():
        # InnoDB ends every index with the primary key; a table of another engine sorts instead, at worst.
        parts = list(index.sorted_by)
        if parts and len(parts) == len(index.columns):
            parts += [column for column in primary if column not in parts]
        for end in range(1, len(parts) + 1):
            orders.setdefault(tuple(parts[:end]), f" FORCE INDEX ({quote(name)})")
    return orders


def _native(
    name: str,
    kind: str,
    full: str,
    nullable: str,
    precision: str | None,
    scale: str | None,
    digits: str | None,
) -> CatalogueColumn:
    kind, full = kind.lower(), str(full)
    if "unsigned" in full.lower() and kind in (*INTEGERS, "decimal", *FLOATS):
        kind += " unsigned"
    temporal = kind in ("datetime", "timestamp", "time")
    return CatalogueColumn(
        name=name,
        type=kind,
        full=full,
        nullable=nullable == "YES",
        precision=None if precision is None else int(precision),
        scale=int(digits or 0) if temporal else (None if scale is None else int(scale)),
    )


def _quote_text(text: str) -> str:
    return literal(Value(ValueKind.TEXT, text))
