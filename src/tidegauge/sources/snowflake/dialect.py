"""Snowflake: one session in UTC that only reads. Names are always quoted, and spelled as in the catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidegauge.errors import ColumnMissing, CursorUnsuitable, SourceError, SourceUnreachable, TableMissing
from tidegauge.model.position import Value, ValueKind
from tidegauge.model.snowflake_login import snowflake_words
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
from tidegauge.sources.notation import Notation
from tidegauge.sources.snowflake.engine import literal, quote, table_name, text_literal
from tidegauge.sources.snowflake.session import close, connect, translate
from tidegauge.sources.snowflake.types import RULES
from tidegauge.sources.types import CatalogueColumn

_CODES = {
    0: "number",
    1: "float",
    2: "varchar",
    3: "date",
    4: "timestamp_ntz",
    5: "variant",
    6: "timestamp_ltz",
    7: "timestamp_tz",
    8: "timestamp_ntz",
    9: "object",
    10: "array",
    11: "binary",
    12: "time",
    13: "boolean",
}
"""The connector's numbers for the types of a result."""
_KINDS = {
    "date": ValueKind.DATE,
    "timestamp_ntz": ValueKind.TIMESTAMP,
    "timestamp_ltz": ValueKind.TIMESTAMPTZ,
    "timestamp_tz": ValueKind.TIMESTAMPTZ,
    "varchar": ValueKind.TEXT,
    "binary": ValueKind.BYTES,
}
Offsets = tuple[timedelta, timedelta, str]
_DECLARED = re.compile(r"(\w+)(?:\((\d+)(?:,\s*(\d+))?\))?")
_NO_COLUMN = re.compile(r"invalid identifier|not found in FROM", re.IGNORECASE)
_STAMP = "'YYYY-MM-DD HH24:MI:SS{digits}'"
_BLIND = (
    "Snowflake does not show other sessions' transactions: only `settle` guards against late commits; make it"
    " longer than the longest statement or transaction that writes to the table"
)

_NO_ZONE = "the account's TIMEZONE cannot be seen, so a column without a zone is taken to hold UTC"


class SnowflakeDialect:
    rules = RULES
    folds_case = False

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection = connect(database)
        try:
            self._offsets = self._read_offsets()
        except SourceError:
            close(self._connection)
            raise

    def held(self) -> AbstractContextManager[None]:
        return nullcontext()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        trace_sql(self._database.name, sql)
        return self._ask(sql)[1]

    def stream(self, sql: str, size: int) -> Iterator[Sequence[tuple[Any, ...]]]:
        try:
            cursor = self._connection.cursor()
            cursor.execute(sql)
            while block := cursor.fetchmany(size):
                yield block
        except Exception as error:
            raise translate(self._database, error) from error

    def quote(self, name: str) -> str:
        return quote(name)

    def name(self, table: TableName) -> str:
        return table_name(table)

    def literal(self, value: Value) -> str:
        return literal(value)

    def tables(self) -> tuple[TableName, ...]:
        return tuple(table for table, kind in self._list_named() if kind == "BASE TABLE")

    def left_out(self) -> tuple[tuple[TableName, str], ...]:
        found = {table: kind for table, kind in self._list_named() if kind != "BASE TABLE"}
        views = self.rows(
            f"SELECT {COMMENT} table_schema, table_name FROM information_schema.views"
            " WHERE table_schema <> 'INFORMATION_SCHEMA'"
        )
        found |= {TableName(schema, view): "VIEW" for schema, view in views}
        return tuple((table, kind.lower()) for table, kind in found.items())

    def _list_named(self) -> list[tuple[TableName, str]]:
        found = self.rows(
            f"SELECT {COMMENT} table_schema, table_name, table_type FROM information_schema.tables"
            " WHERE table_schema <> 'INFORMATION_SCHEMA'"
        )
        return [(TableName(schema, table), str(kind)) for schema, table, kind in found]

    def with_column(self, name: str) -> frozenset[TableName]:
        found = self.rows(
            f"SELECT {COMMENT} table_schema, table_name FROM information_schema.columns"
            f" WHERE column_name = {text_literal(name)}"
        )
        return frozenset(TableName(schema, table) for schema, table in found)

    def with_key(self) -> frozenset[TableName]:
        found = self.rows(
            f"SELECT {COMMENT} table_schema, table_name FROM information_schema.table_constraints"
            " WHERE constraint_type = 'PRIMARY KEY'"
        )
        return frozenset(TableName(schema, table) for schema, table in found)

    def row_hash(self, columns: Sequence[SourceColumn]) -> None:  # noqa: ARG002 - HASH may change between releases
        return None

    def identity(self) -> str:
        return f"snowflake:{str(self._database.account).upper()}/{self._database.database}"

    def catalogue(self, table: TableName) -> TableDescription:
        schema, name = refuse_nul(table.schema or "PUBLIC"), refuse_nul(table.table)
        found = self.rows(
            f"SELECT {COMMENT} is_hybrid FROM information_schema.tables WHERE table_type = 'BASE TABLE' AND"
            f" table_schema = {text_literal(schema)} AND table_name = {text_literal(name)}"
        )
        if not found:
            raise TableMissing(
                f"{self._database.name}: there is no table '{table}' that {self._database.user} may read",
                hint=suggest_names(str(table), tuple(str(other) for other in self.tables())),
            )
        described = self._named(f"DESCRIBE TABLE {self.name(table)}")
        columns = tuple(_native(row) for row in described if row["kind"] == "COLUMN")
        primary = self._primary_key(table)
        # Only a hybrid table enforces its key; any other accepts a second row with the same one.
        enforced = found[0][0] == "YES"
        uniques = (UniqueKey(primary, primary=True),) if enforced and primary else ()
        # Snowflake has no indexes, so every column counts as indexed.
        names = frozenset(column.name for column in columns)
        return TableDescription(
            columns, uniques, names, f"{self.identity()}#{table}", primary, notes=_note_unordered(described)
        )

    def _primary_key(self, table: TableName) -> tuple[str, ...]:
        found = [
            row
            for row in self._named(f"SHOW PRIMARY KEYS IN TABLE {self.name(table)}")
            if (row["schema_name"], row["table_name"]) == (table.schema or "PUBLIC", table.table)
        ]
        return tuple(row["column_name"] for row in sorted(found, key=lambda row: int(row["key_sequence"])))

    def expression(self, table: TableName, sql: str) -> CatalogueColumn:
        shown = sql.strip("()\n ")
        cursor = self._connection.cursor()
        try:
            cursor.execute(f"SELECT {COMMENT} {sql} AS o FROM {self.name(table)} WHERE 1 = 0")
            described = cursor.description[0]
        except Exception as error:
            found = translate(self._database, error)
            if isinstance(found, SourceUnreachable):
                raise found from error
            if _NO_COLUMN.search(snowflake_words(error)):
                raise ColumnMissing(
                    f"{table}: the cursor {shown} names a column that is not there: {snowflake_words(error)}",
                    hint="check the names in the expression",
                ) from error
            raise CursorUnsuitable(
                f"{table}: the cursor {shown} is not an expression that Snowflake understands:"
                f" {snowflake_words(error)}",
                hint="a cursor is a column, or an expression of the database's own SQL",
            ) from error
        kind = _CODES.get(described.type_code, "")
        return CatalogueColumn(sql, kind, kind or "value", True, described.precision, described.scale)

    def ordered(
        self,
        table: TableName,  # noqa: ARG002 - a column has one type
        native: CatalogueColumn,
        sql: str,
    ) -> OrderedColumn | None:
        kind = _KINDS.get(native.type)
        if native.type in ("number", "decimal"):
            kind = ValueKind.DECIMAL if native.scale else ValueKind.INT
        if kind is None:
            return None
        scale = native.scale if native.scale is not None else 9
        stamp = _STAMP.format(digits=f".FF{scale}" if scale else "")
        text = {
            ValueKind.BYTES: "LOWER(HEX_ENCODE({}))",
            ValueKind.TEXT: "{}",
            ValueKind.TIMESTAMP: f"TO_VARCHAR({{}}, {stamp})",
            ValueKind.TIMESTAMPTZ: (
                f"TO_VARCHAR(CAST(CONVERT_TIMEZONE('UTC', {{}}) AS TIMESTAMP_NTZ), {stamp})"
            ),
            ValueKind.DATE: "TO_VARCHAR({}, 'YYYY-MM-DD')",
        }.get(kind, "TO_VARCHAR({})")
        return OrderedColumn(native.name, sql, text, kind, native.nullable, scale)

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
        ((clock,),) = self.rows(f"SELECT {COMMENT} TO_VARCHAR(SYSDATE(), 'YYYY-MM-DD HH24:MI:SS.FF6')")
        lowest, highest, zone = self._offsets
        return ClockReading(
            datetime.fromisoformat(clock),
            blind=_BLIND if zone else f"{_BLIND}; {_NO_ZONE}",
            lowest_offset=lowest,
            highest_offset=highest,
            zone=zone,
        )

    def close(self) -> None:
        close(self._connection)

    def _read_offsets(self) -> Offsets:
        """The offsets of the account's zone: in it CURRENT_TIMESTAMP fills a column without a zone, unless a
        session sets another."""
        try:
            found = self._named("SHOW PARAMETERS LIKE 'TIMEZONE' IN ACCOUNT")
        except SourceUnreachable:
            raise
        except SourceError:
            found = []
        return offsets_of(next((str(row["value"]) for row in found if row.get("key") == "TIMEZONE"), None))

    def _named(self, sql: str) -> list[dict[str, Any]]:
        """Rows as dicts by the columns' names in lower case: DESCRIBE and SHOW get more columns with time."""
        names, rows = self._ask(sql)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _ask(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        try:
            cursor = self._connection.cursor()
            cursor.execute(sql)
            rows = [tuple(row) for row in cursor.fetchall()]
            return [str(one.name).lower() for one in cursor.description], rows
        except Exception as error:
            raise translate(self._database, error) from error


def offsets_of(name: str | None) -> Offsets:
    """The lowest and highest offset from UTC within a year, and the zone's name, empty if it is unknown."""
    try:
        zone = ZoneInfo(name or "")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return timedelta(0), timedelta(0), ""
    now = datetime.now(UTC)
    days = [now + timedelta(days=days) for days in range(-183, 184, 15)]
    offsets = [timedelta(0), *(day.astimezone(zone).utcoffset() or timedelta(0) for day in days)]
    return min(offsets), max(offsets), zone.key


def _native(row: dict[str, Any]) -> CatalogueColumn:
    declared = str(row["type"])
    match = _DECLARED.fullmatch(declared)
    kind, first, second = (match[1].lower(), match[2], match[3]) if match else (declared.lower(), None, None)
    precision = scale = None
    if kind in ("number", "decimal"):
        precision, scale = int(first or 38), int(second or 0)
    elif kind.startswith(("timestamp", "time")):
        scale = int(first) if first is not None else 9
    return CatalogueColumn(str(row["name"]), kind, declared, row["null?"] != "N", precision, scale)


def _note_unordered(described: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(
        f"{row['name']} takes its numbers in no order (NOORDER): as a cursor it can grow out of order"
        for row in described
        if "NOORDER" in str(row.get("default") or "").upper()
    )
