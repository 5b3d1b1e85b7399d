"""SQLite: opened read-only, so that a missing file is never made and nothing is ever changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import reduce
from typing import Any

from tidegauge.errors import (
    ColumnMissing,
    CursorUnsuitable,
    KeyUnsuitable,
    SourceError,
    SourceUnreachable,
    TableMissing,
)
from tidegauge.model.canonical import SQL_HASH, add_functions
from tidegauge.model.position import Value, ValueKind
from tidegauge.model.spec import Database, TableName
from tidegauge.model.table import OrderedColumn, SourceColumn, SourceTable
from tidegauge.model.trace import trace_sql
from tidegauge.sources.dialect import (
    COMMENT,
    ClockReading,
    TableDescription,
    UniqueKey,
    refuse_nul,
    suggest_names,
)
from tidegauge.sources.notation import Notation, read_patterns
from tidegauge.sources.sql import relation
from tidegauge.sources.sqlite import types as types_sqlite
from tidegauge.sources.sqlite.engine import UNTYPED, literal, quote, table_name, translate_error, uri
from tidegauge.sources.types import CatalogueColumn

_WAIT = 30.0
_SAMPLE = 1000
_KINDS = {"integer": ValueKind.INT, "text": ValueKind.TEXT, "blob": ValueKind.BYTES}
_TEXT = {ValueKind.INT: "CAST({} AS TEXT)", ValueKind.TEXT: "{}", ValueKind.BYTES: "LOWER(HEX({}))"}
_BY_DECLARATION = {
    "int": ValueKind.INT,
    "bool": ValueKind.INT,
    "char": ValueKind.TEXT,
    "clob": ValueKind.TEXT,
    "text": ValueKind.TEXT,
}


class SqliteDialect:
    rules = types_sqlite.RULES
    folds_case = True

    def __init__(self, database: Database) -> None:
        assert database.path is not None
        self._name, self._path = database.name, database.path
        try:
            self._connection = sqlite3.connect(
                uri(database.path), uri=True, timeout=_WAIT, isolation_level=None, check_same_thread=False
            )
            add_functions(self._connection)
            self.rows(f"SELECT {COMMENT} COUNT(*) FROM sqlite_master")
        except SourceUnreachable:
            self._connection.close()
            raise
        except (sqlite3.Error, SourceError) as error:
            raise SourceUnreachable(
                f"{database.name}: the SQLite file {database.path} cannot be opened: {error}",
                hint="check the path in `connections:`, and that the file is a database you may read",
                retryable=False,
            ) from error

    def held(self) -> AbstractContextManager[None]:
        return nullcontext()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        trace_sql(self._name, sql)
        try:
            return self._connection.execute(sql).fetchall()
        except (sqlite3.Error, UnicodeError) as error:
            raise translate_error(self._path, error) from error

    def stream(self, sql: str, size: int) -> Iterator[Sequence[tuple[Any, ...]]]:
        try:
            cursor = self._connection.execute(sql)
            while block := cursor.fetchmany(size):
                yield block
        except (sqlite3.Error, UnicodeError) as error:
            raise translate_error(self._path, error) from error

    def quote(self, name: str) -> str:
        return quote(name)

    def name(self, table: TableName) -> str:
        return table_name(table)

    def literal(self, value: Value) -> str:
        return literal(value)

    def tables(self) -> tuple[TableName, ...]:
        found = self.rows(
            f"SELECT {COMMENT} name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
            " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        )
        return tuple(TableName(None, name) for (name,) in found)

    def left_out(self) -> tuple[tuple[TableName, str], ...]:
        found = self.rows(
            f"SELECT {COMMENT} name, type FROM pragma_table_list WHERE schema = 'main' AND type IN"
            " ('view', 'virtual')"
        )
        return tuple(
            (TableName(None, name), "virtual table" if kind == "virtual" else kind) for name, kind in found
        )

    def with_column(self, name: str) -> frozenset[TableName]:
        wanted = literal(Value(ValueKind.TEXT, refuse_nul(name)))
        return self._list_where(f"lower(c.name) = lower({wanted})")

    def with_key(self) -> frozenset[TableName]:
        return self._list_where("c.pk")

    def _list_where(self, condition: str) -> frozenset[TableName]:
        found = self.rows(
            f"SELECT {COMMENT} DISTINCT l.name FROM pragma_table_list AS l, pragma_table_xinfo(l.name) AS c"
            f" WHERE l.schema = 'main' AND {condition}"
        )
        return frozenset(TableName(None, name) for (name,) in found)

    def row_hash(self, columns: Sequence[SourceColumn]) -> str:
        texts = " || ',' || ".join(
            f"CASE WHEN {one.select} IS NULL THEN '-' ELSE hex({one.select}) END" for one in columns
        )
        return f"{SQL_HASH}({texts})"

    def identity(self) -> str:
        return f"sqlite:{self._path}"

    def catalogue(self, table: TableName) -> TableDescription:
        name = literal(Value(ValueKind.TEXT, refuse_nul(table.table)))
        described = self.rows(
            f'SELECT {COMMENT} name, type, "notnull", pk FROM pragma_table_xinfo({name}) WHERE hidden <> 1'
        )
        if not described:
            known = tuple(str(other) for other in self.tables())
            raise TableMissing(
                f"{self._path}: there is no table '{table}'", hint=suggest_names(table.table, known)
            )
        primary = tuple(row[0] for row in sorted(described, key=lambda row: int(row[3])) if row[3])
        columns = tuple(_native(row, primary) for row in described)
        nullable = {column.name for column in columns if column.nullable}
        uniques = [UniqueKey(primary, primary=True)] if primary and not nullable & set(primary) else []
        indexed = {primary[0]} if primary else set()
        for parts, unique in self._indexes(name):
            indexed.add(parts[0])
            if unique and None not in parts and not nullable & set(parts):
                uniques.append(UniqueKey(tuple(parts), primary=False))
        return TableDescription(
            columns, tuple(uniques), frozenset(indexed), f"{self.identity()}#{table.table}", primary
        )

    def _indexes(self, table: str) -> Iterator[tuple[list[Any], bool]]:
        """The columns of each index, and whether it is unique; without partial indexes and those that begin
        with an expression.

        `table` is an SQL literal. Of the columns, None stands for an expression.
        """
        for index, unique, partial in self.rows(
            f'SELECT {COMMENT} name, "unique", partial FROM pragma_index_list({table})'
        ):
            name = literal(Value(ValueKind.TEXT, index))
            parts = [row[0] for row in self.rows(f"SELECT {COMMENT} name FROM pragma_index_info({name})")]
            if not partial and parts and parts[0] is not None:
                yield parts, bool(unique)

    def expression(self, table: TableName, sql: str) -> CatalogueColumn:
        try:
            self._connection.execute(f"SELECT {COMMENT} {sql} FROM {self.name(table)} WHERE 1 = 0").fetchall()
        except (sqlite3.Error, sqlite3.Warning) as error:
            shown = sql.strip("()\n ")
            if "no such column" in str(error):
                raise ColumnMissing(
                    f"{table}: the cursor {shown} names a column that is not there: {error}",
                    hint="check the names in the expression",
                ) from error
            raise CursorUnsuitable(
                f"{table}: the cursor {shown} is not an expression that SQLite understands: {error}",
                hint="a cursor is a column, or an expression of the database's own SQL",
            ) from error
        return CatalogueColumn(sql, "numeric", "expression")

    def ordered(self, table: TableName, native: CatalogueColumn, sql: str) -> OrderedColumn | None:
        kind = _BY_DECLARATION.get(native.type)
        if native.type in ("real", "floa", "doub"):
            return None
        if kind is None:
            # The declared type does not tell the kind, but the values do. In an empty table any kind will do.
            found = self.rows(
                f"SELECT {COMMENT} DISTINCT typeof(o) FROM (SELECT {sql} AS o FROM {self.name(table)}"
                f" WHERE {sql} IS NOT NULL LIMIT {_SAMPLE})"
            )
            kinds = {storage for (storage,) in found}
            if len(kinds) > 1 or "real" in kinds:
                return None
            kind = _KINDS[kinds.pop()] if kinds else ValueKind.TEXT
        return OrderedColumn(native.name, sql, _TEXT[kind], kind, native.nullable)

    def cursor_kind(self, table: TableName, native: CatalogueColumn, ordered: OrderedColumn) -> str | None:
        if ordered.kind is not ValueKind.TEXT:
            return "value" if ordered.kind is ValueKind.INT else None
        patterns = self.rows(
            f"SELECT {COMMENT} {_pattern_of('o')} FROM (SELECT {ordered.order} AS o FROM {self.name(table)}"
            f" WHERE {ordered.order} IS NOT NULL LIMIT {_SAMPLE})"
        )
        dated = any(word in native.full.lower() for word in ("date", "time"))
        # A text that only begins like a date counts as one; `notation` refuses those without an order later.
        seen = any(pattern.startswith("0000-00-00") for (pattern,) in patterns)
        return "timestamp" if seen or dated else "value"

    def notation(self, source_table: SourceTable, where: str) -> Notation | None:
        parts = (source_table.cursor, *source_table.key)
        moments = source_table.cursor_kind == "timestamp" and source_table.cursor.unix_unit is None
        asked = [f"typeof({part.order})" for part in parts]
        asked.append(_pattern_of(source_table.cursor.order) if moments else "''")
        table = relation(source_table, self.name)
        found = self.rows(
            f"SELECT {COMMENT} DISTINCT {', '.join(asked)} FROM {table} WHERE {where} LIMIT {_SAMPLE}"
        )
        for index, part in enumerate(parts):
            storages = sorted({row[index] for row in found} - {"null"})
            if any(_KINDS.get(storage) is not part.kind for storage in storages):
                error = KeyUnsuitable if index else CursorUnsuitable
                raise error(
                    f"{source_table.table}: {part.name} holds values of other kinds than its own"
                    f" ({', '.join(storages)}), which have no order to page by",
                    hint="store every value the same way, or choose another column",
                )
        if not moments or not found:
            return None
        notation = read_patterns([row[-1] for row in found])
        if notation is None:
            examples = ", ".join(repr(text) for text in sorted({row[-1] for row in found})[:3])
            raise CursorUnsuitable(
                f"{source_table.table}: {source_table.cursor.name} holds timestamps in notations whose"
                " text order is not"
                f" the order of time: {examples}",
                hint="write them all the same way, in UTC, such as 2025-01-01 00:00:00.000; or use an"
                " expression such as strftime('%Y-%m-%d %H:%M:%f', column)",
            )
        return notation

    def read_clock(self, *, fresh: bool) -> ClockReading:  # noqa: ARG002 - it is always fresh
        ((text,),) = self.rows(f"SELECT {COMMENT} strftime('%Y-%m-%d %H:%M:%f', 'now')")
        return ClockReading(datetime.fromisoformat(text))

    def close(self) -> None:
        self._connection.close()


def _native(row: tuple[Any, ...], primary: tuple[str, ...]) -> CatalogueColumn:
    column, declared, required, _ = row
    return CatalogueColumn(
        name=column,
        type=_affinity(declared),
        full=declared or UNTYPED,
        nullable=not (required or _is_rowid(declared, primary, column)),
    )


def _affinity(declared: str) -> str:
    """The first of SQLite's words for types inside the declared type, else `numeric`; empty for no type."""
    lowered = declared.lower()
    for word in ("int", "char", "clob", "text", "blob", "real", "floa", "doub", "bool"):
        if word in lowered:
            return word
    return "numeric" if lowered.strip() else ""


def _is_rowid(declared: str, primary: tuple[str, ...], column: str) -> bool:
    """Whether the column is the INTEGER PRIMARY KEY, which is never NULL; any other key of SQLite may be."""
    return declared.upper() == "INTEGER" and primary == (column,)


def _pattern_of(sql: str) -> str:
    """SQL for the text with every digit replaced by 0, except in a zone's offset, which has to stay."""

    def zeros(part: str) -> str:
        return reduce(lambda inner, digit: f"replace({inner}, '{digit}', '0')", "123456789", part)

    cut = f"substr({sql}, 1, length({sql}) - 6)"
    return (
        f"CASE WHEN {sql} GLOB '*[+-][0-9][0-9]:[0-9][0-9]' THEN {zeros(cut)} || substr({sql}, -6)"
        f" ELSE {zeros(sql)} END"
    )
