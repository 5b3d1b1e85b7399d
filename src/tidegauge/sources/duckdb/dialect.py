"""DuckDB: a file that is opened for each query, so that its writer can have it in between."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from typing import Any

from tidegauge.errors import ColumnMissing, CursorUnsuitable, TableMissing
from tidegauge.model.engines import Engine, hash_in_sql
from tidegauge.model.position import Value, ValueKind
from tidegauge.model.spec import Database, TableName
from tidegauge.model.table import OrderedColumn, SourceColumn, SourceTable
from tidegauge.model.trace import trace_sql
from tidegauge.sources.dialect import (
    COMMENT,
    ClockReading,
    TableDescription,
    UniqueKey,
    kind_of_cursor,
    refuse_nul,
    suggest_names,
)
from tidegauge.sources.duckdb.engine import literal, quote, table_name
from tidegauge.sources.duckdb.file import first_line, open_file, translate
from tidegauge.sources.duckdb.types import RULES
from tidegauge.sources.notation import Notation
from tidegauge.sources.types import CatalogueColumn
from tidegauge.storage.duckdb_files import DuckDBFile

_INTEGERS = ("tinyint", "smallint", "integer", "bigint", "hugeint")
_KINDS = {
    **dict.fromkeys(_INTEGERS, ValueKind.INT),
    **dict.fromkeys((f"u{name}" for name in _INTEGERS), ValueKind.INT),
    "decimal": ValueKind.DECIMAL,
    "date": ValueKind.DATE,
    "timestamp": ValueKind.TIMESTAMP,
    "timestamp_s": ValueKind.TIMESTAMP,
    "timestamp_ms": ValueKind.TIMESTAMP,
    "timestamp_ns": ValueKind.TIMESTAMP,
    "timestamp with time zone": ValueKind.TIMESTAMPTZ,
    "varchar": ValueKind.TEXT,
    "uuid": ValueKind.TEXT,
    "blob": ValueKind.BYTES,
}
_SCALES = {"timestamp_s": 0, "timestamp_ms": 3, "timestamp_ns": 9}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_HERE = "database_name = current_database() AND NOT internal"
_BLIND = (
    "another part of this process has the file open for writing, and its transactions cannot be seen: only"
    " `settle` guards against late commits"
)


class DuckDBDialect:
    rules = RULES
    folds_case = True

    def __init__(self, database: Database) -> None:
        self._database = database
        self._file: DuckDBFile | None = None
        self.rows(f"SELECT {COMMENT} 1")  # raises if the file cannot be opened

    @contextmanager
    def held(self) -> Iterator[None]:
        with self._open():
            yield

    @contextmanager
    def _open(self) -> Iterator[DuckDBFile]:
        if self._file is not None:
            yield self._file
            return
        with closing(open_file(self._database)) as self._file:
            try:
                yield self._file
            finally:
                self._file = None

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        trace_sql(self._database.name, sql)
        import duckdb

        with self._open() as file:
            try:
                return file.connection.execute(sql).fetchall()
            except duckdb.Error as error:
                raise translate(self._database, error) from error

    def stream(self, sql: str, size: int) -> Iterator[Sequence[tuple[Any, ...]]]:
        import duckdb

        with self._open() as file:
            try:
                cursor = file.connection.execute(sql)
                while block := cursor.fetchmany(size):
                    yield block
            except duckdb.Error as error:
                raise translate(self._database, error) from error

    def quote(self, name: str) -> str:
        return quote(name)

    def name(self, table: TableName) -> str:
        return table_name(table)

    def literal(self, value: Value) -> str:
        return literal(value)

    def tables(self) -> tuple[TableName, ...]:
        found = self.rows(
            f"SELECT {COMMENT} schema_name, table_name FROM duckdb_tables() WHERE {_HERE} AND NOT temporary"
        )
        return tuple(TableName(schema, table) for schema, table in found)

    def left_out(self) -> tuple[tuple[TableName, str], ...]:
        found = self.rows(
            f"SELECT {COMMENT} schema_name, view_name FROM duckdb_views() WHERE {_HERE} AND NOT temporary"
        )
        return tuple((TableName(schema, view), "view") for schema, view in found)

    def with_column(self, name: str) -> frozenset[TableName]:
        return self._list_where(
            "duckdb_columns()", f"lower(column_name) = lower({_quote_text(name)}) AND {_HERE}"
        )

    def with_key(self) -> frozenset[TableName]:
        keyed = "database_name = current_database() AND constraint_type = 'PRIMARY KEY'"
        return self._list_where("duckdb_constraints()", keyed)

    def _list_where(self, view: str, condition: str) -> frozenset[TableName]:
        found = self.rows(f"SELECT {COMMENT} schema_name, table_name FROM {view} WHERE {condition}")
        return frozenset(TableName(schema, table) for schema, table in found)

    def row_hash(self, columns: Sequence[SourceColumn]) -> str:
        row = f"CAST(row({', '.join(column.select for column in columns)}) AS VARCHAR)"
        return hash_in_sql(Engine.DUCKDB, row)

    def identity(self) -> str:
        return f"duckdb:{self._database.path}"

    def catalogue(self, table: TableName) -> TableDescription:
        schema, name = _quote_text(table.schema or "main"), _quote_text(table.table)
        where = f"database_name = current_database() AND schema_name = {schema} AND table_name = {name}"
        described = self.rows(
            f"SELECT {COMMENT} column_name, data_type, is_nullable FROM duckdb_columns() WHERE {where}"
            " AND NOT internal ORDER BY column_index"
        )
        if not described:
            raise TableMissing(
                f"{self._database.name}: there is no table '{table}' in {self._database.path}",
                hint=suggest_names(str(table), tuple(str(other) for other in self.tables())),
            )
        columns = tuple(_native(*row) for row in described)
        required = {column.name for column in columns if not column.nullable}
        uniques, indexed = [], set()
        for kind, names in self.rows(
            f"SELECT {COMMENT} constraint_type, constraint_column_names FROM duckdb_constraints()"
            f" WHERE {where} AND constraint_type IN ('PRIMARY KEY', 'UNIQUE')"
        ):
            indexed.add(names[0])
            if kind == "PRIMARY KEY" or required.issuperset(names):
                uniques.append(UniqueKey(tuple(names), primary=kind == "PRIMARY KEY"))
        for unique, expressions in self.rows(
            f"SELECT {COMMENT} is_unique, expressions FROM duckdb_indexes() WHERE {where}"
        ):
            parts = _index_columns(expressions, columns)
            indexed.update(parts[:1])
            if unique and parts and required.issuperset(parts):
                uniques.append(UniqueKey(parts, primary=False))
        identity = f"{self.identity()}#{table}"
        return TableDescription(columns, tuple(uniques), frozenset(indexed), identity)

    def expression(self, table: TableName, sql: str) -> CatalogueColumn:
        import duckdb

        shown = sql.strip("()\n ")
        with self._open() as file:
            try:
                described = file.connection.execute(
                    f"DESCRIBE SELECT {sql} AS o FROM {self.name(table)}"
                ).fetchall()
            except duckdb.BinderException as error:
                if "not found in FROM" in str(error):
                    raise ColumnMissing(
                        f"{table}: the cursor {shown} names a column that is not there: {first_line(error)}",
                        hint="check the names in the expression",
                    ) from error
                raise _make_expression_error(table, shown, error) from error
            except (duckdb.Error, RuntimeError) as error:
                raise _make_expression_error(table, shown, error) from error
        return _native(sql, described[0][1], True)

    def ordered(
        self,
        table: TableName,  # noqa: ARG002 - a column has one type
        native: CatalogueColumn,
        sql: str,
    ) -> OrderedColumn | None:
        kind = _KINDS.get(native.type)
        if kind is None:
            return None
        text = "CAST({} AS VARCHAR)"
        if kind is ValueKind.BYTES:
            text = "lower(hex({}))"
        elif kind is ValueKind.TIMESTAMPTZ:
            text = "regexp_replace(CAST({} AS VARCHAR), '[+]00$', '')"  # the session is in UTC
        return OrderedColumn(native.name, sql, text, kind, native.nullable, _SCALES.get(native.type, 6))

    def cursor_kind(
        self,
        table: TableName,  # noqa: ARG002 - a column has one type
        native: CatalogueColumn,
        ordered: OrderedColumn,
    ) -> str | None:
        return kind_of_cursor(ordered, grows_as_text=native.type == "varchar")

    def notation(self, source_table: SourceTable, where: str) -> Notation | None:  # noqa: ARG002 - columns have one type
        return None

    def read_clock(self, *, fresh: bool) -> ClockReading:  # noqa: ARG002 - it is always fresh
        """While a process writes to the file, no other can open it: so no other process has open work."""
        with self._open() as file:
            row = file.connection.execute(
                f"SELECT {COMMENT} CAST(now() AT TIME ZONE 'UTC' AS VARCHAR)"
            ).fetchone()
            assert row is not None
            clock = datetime.fromisoformat(row[0])
            return ClockReading(clock, blind=_BLIND if file.foreign else None)

    def close(self) -> None:
        """Does nothing: the file is closed after each query."""


def _native(name: str, declared: str, nullable: bool) -> CatalogueColumn:
    plain = declared.lower()
    if size := _DECIMAL.fullmatch(plain):
        return CatalogueColumn(name, "decimal", declared, nullable, int(size[1]), int(size[2]))
    if plain.endswith("[]"):
        kind = "list"
    elif plain.endswith("]"):
        kind = "array"
    else:
        kind = plain.partition("(")[0]
    return CatalogueColumn(name, kind, declared, nullable)


def _index_columns(expressions: str, columns: tuple[CatalogueColumn, ...]) -> tuple[str, ...]:
    """The columns of an index, from DuckDB's list `[id, '"my col"']`; empty if one is an expression."""
    inner = expressions.strip("[]")
    listed = [part.strip().strip("'").strip('"') for part in inner.split(",")]
    known = {column.name.casefold(): column.name for column in columns}
    found = [known.get(name.casefold()) for name in listed]
    return tuple(name for name in found if name is not None) if None not in found else ()


def _make_expression_error(table: TableName, shown: str, error: Exception) -> CursorUnsuitable:
    return CursorUnsuitable(
        f"{table}: the cursor {shown} is not an expression that DuckDB understands: {first_line(error)}",
        hint="a cursor is a column, or an expression of the database's own SQL",
    )


def _quote_text(text: str) -> str:
    return literal(Value(ValueKind.TEXT, refuse_nul(text)))
