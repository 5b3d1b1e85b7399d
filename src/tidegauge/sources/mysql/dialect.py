"""MySQL and MariaDB: one session in UTC that only reads, and has `COMMENT` in all its statements."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import pymysql
from pymysql.constants import ER, FIELD_TYPE, FLAG
from pymysql.cursors import Cursor, DictCursor, SSCursor

from tidegauge.errors import (
    ColumnMissing,
    CursorUnsuitable,
    SourceError,
    SourceUnreachable,
    TableMissing,
)
from tidegauge.model.mysql_codes import CONNECTION_LOST, LOGIN_REFUSED
from tidegauge.model.mysql_connection import MysqlConnection
from tidegauge.model.position import Value, ValueKind
from tidegauge.model.secret import mask
from tidegauge.model.spec import Database, TableName
from tidegauge.model.table import OrderedColumn, SourceColumn, SourceTable
from tidegauge.model.tls import tls_context
from tidegauge.model.trace import trace_sql
from tidegauge.sources.dialect import (
    COMMENT,
    ClockReading,
    TableDescription,
    kind_of_cursor,
    suggest_names,
)
from tidegauge.sources.mysql import types as types_mysql
from tidegauge.sources.mysql.catalogue import FLOATS, INTEGERS, read_catalogue
from tidegauge.sources.mysql.engine import DEFAULT_PORT, SESSION, literal, quote, row_hash, table_name
from tidegauge.sources.mysql.open_work import PrivilegeMissing, find_watch, read_offsets
from tidegauge.sources.mysql.replication import as_replica
from tidegauge.sources.notation import Notation
from tidegauge.sources.types import CatalogueColumn

_SYSTEM = ("information_schema", "mysql", "performance_schema", "sys")
_BINARY_CHARSET = 63
_STALE = 1.0
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_OF_CODE = {
    FIELD_TYPE.TINY: "tinyint",
    FIELD_TYPE.SHORT: "smallint",
    FIELD_TYPE.INT24: "mediumint",
    FIELD_TYPE.LONG: "int",
    FIELD_TYPE.LONGLONG: "bigint",
    FIELD_TYPE.DECIMAL: "decimal",
    FIELD_TYPE.NEWDECIMAL: "decimal",
    FIELD_TYPE.FLOAT: "float",
    FIELD_TYPE.DOUBLE: "double",
    FIELD_TYPE.DATE: "date",
    FIELD_TYPE.NEWDATE: "date",
    FIELD_TYPE.DATETIME: "datetime",
    FIELD_TYPE.TIMESTAMP: "timestamp",
    FIELD_TYPE.YEAR: "year",
    FIELD_TYPE.TIME: "time",
    FIELD_TYPE.BIT: "bit",
}


class MysqlDialect:
    rules = types_mysql.RULES
    folds_case = True

    def __init__(self, database: Database) -> None:
        self._database = database
        self._address = f"{database.host}:{database.port or DEFAULT_PORT}"
        self._connection = self._connect()
        self.rows(f"SET {COMMENT} SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        ((version,),) = self.rows(f"SELECT {COMMENT} VERSION()")
        self._mariadb = "mariadb" in str(version).lower()
        self._offsets = read_offsets(self)
        self._seen: tuple[float, ClockReading] | None = None

    def _connect(self) -> pymysql.Connection[Cursor]:
        database, options = self._database, self._database.options
        try:
            return MysqlConnection(
                host=database.host,
                port=database.port or DEFAULT_PORT,
                user=database.user,
                # As bytes: the driver would encode text as Latin-1, and the server and JDBC expect UTF-8.
                password=database.password.reveal().encode() if database.password else b"",
                database=database.database,
                charset="utf8mb4",
                autocommit=True,
                connect_timeout=int(options.get("connect_timeout", "10")),
                local_infile=False,
                init_command=f"SET {SESSION}",
                conv={},
                ssl=tls_context(options),
                ssl_disabled=options.get("ssl") == "disable" or None,
                program_name="tidegauge-reader",
            )
        except pymysql.Error as error:
            raise self._translate(error) from error
        except (OSError, ValueError) as error:
            raise SourceUnreachable(
                f"{database.name}: {self._address} cannot be reached: {mask(str(error))}",
                hint="check host, port and the ssl options in `connections:`",
            ) from error

    def held(self) -> AbstractContextManager[None]:
        return nullcontext()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        trace_sql(self._database.name, sql)
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(sql)
                return list(cursor.fetchall())
        except pymysql.Error as error:
            raise self._translate(error) from error

    def records(self, sql: str) -> list[dict[str, Any]]:
        """See `MysqlReplicaSession`."""
        trace_sql(self._database.name, sql)
        try:
            with self._connection.cursor(DictCursor) as cursor:
                cursor.execute(sql)
                return list(cursor.fetchall())
        except pymysql.Error as error:
            raise self._translate(error) from error

    def stream(self, sql: str, size: int) -> Iterator[Sequence[tuple[Any, ...]]]:
        cursor: Any = self._connection.cursor(SSCursor)
        try:
            cursor.execute(sql)
            while block := cursor.fetchmany(size):
                yield block
        except pymysql.Error as error:
            raise self._translate(error) from error
        finally:
            # If the caller stops half-way, the driver must not read the rest of the rows first.
            if cursor._result is not None:
                cursor._result.unbuffered_active = False

    def quote(self, name: str) -> str:
        return quote(name)

    def name(self, table: TableName) -> str:
        return table_name(table)

    def literal(self, value: Value) -> str:
        return literal(value)

    def tables(self) -> tuple[TableName, ...]:
        return self._list_named("'BASE TABLE', 'SYSTEM VERSIONED'")

    def left_out(self) -> tuple[tuple[TableName, str], ...]:
        return tuple((table, "view") for table in self._list_named("'VIEW'"))

    def with_column(self, name: str) -> frozenset[TableName]:
        return frozenset(self._list_where("COLUMNS", f"COLUMN_NAME = {_quote_text(name)}"))

    def with_key(self) -> frozenset[TableName]:
        return frozenset(self._list_where("TABLE_CONSTRAINTS", "CONSTRAINT_TYPE = 'PRIMARY KEY'"))

    def row_hash(self, columns: Sequence[SourceColumn]) -> str:
        return row_hash(columns)

    def _list_named(self, types: str) -> tuple[TableName, ...]:
        return self._list_where("TABLES", f"TABLE_TYPE IN ({types})")

    def _list_where(self, view: str, condition: str) -> tuple[TableName, ...]:
        if self._database.database:
            where = f"TABLE_SCHEMA = {_quote_text(self._database.database)}"
        else:
            where = f"TABLE_SCHEMA NOT IN ({', '.join(map(_quote_text, _SYSTEM))})"
        found = self.rows(
            f"SELECT {COMMENT} TABLE_SCHEMA, TABLE_NAME FROM information_schema.{view}"
            f" WHERE {condition} AND {where}"
        )
        return tuple(TableName(schema, table) for schema, table in found)

    def catalogue(self, table: TableName) -> TableDescription:
        found = read_catalogue(self, table.schema or self._database.database or "", table.table)
        if found is None:
            known = tuple(str(other) for other in self.tables())
            raise TableMissing(
                f"{self._database.name}: there is no table '{table}' that {self._database.user} may see",
                hint=suggest_names(str(table), known),
            )
        return replace(found, identity=f"{self.identity()}#{table}")

    def expression(self, table: TableName, sql: str) -> CatalogueColumn:
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(f"SELECT {COMMENT} {sql} AS o FROM {self.name(table)} WHERE 1 = 0")
                described: Any = cursor
                (field,) = described._result.fields
        except pymysql.Error as error:
            failure = self._translate(error)
            if isinstance(failure, SourceUnreachable):
                raise failure from error
            shown = sql.strip("()\n ")
            if error.args[0] == ER.BAD_FIELD_ERROR:
                raise ColumnMissing(
                    f"{table}: the cursor {shown} names a column that is not there: {error.args[1]}",
                    hint="check the names in the expression",
                ) from error
            raise CursorUnsuitable(
                f"{table}: the cursor {shown} is not an expression that the database understands:"
                f" {mask(str(error.args[-1]))}",
                hint="a cursor is a column, or an expression of the database's own SQL",
            ) from error
        kind = _OF_CODE.get(field.type_code)
        if kind is None:
            kind = "varbinary" if field.charsetnr == _BINARY_CHARSET else "varchar"
        if kind in INTEGERS and field.flags & FLAG.UNSIGNED:
            kind += " unsigned"
        return CatalogueColumn(sql, kind, kind, scale=min(field.scale, 6))

    def ordered(
        self,
        table: TableName,  # noqa: ARG002 - only SQLite has to look at the rows
        native: CatalogueColumn,
        sql: str,
    ) -> OrderedColumn | None:
        plain = native.type.removesuffix(" unsigned")
        order, text, kind, scale = sql, "CAST({} AS CHAR)", ValueKind.TEXT, 0
        if plain in FLOATS:
            return None
        if plain in ("bit", "year"):
            # A bare BIT is bytes, and a bare YEAR reads 25 as 2025.
            order, kind = f"({sql} + 0)", ValueKind.INT
        elif plain in INTEGERS:
            kind = ValueKind.INT
        elif plain == "decimal":
            kind = ValueKind.DECIMAL
        elif plain == "date":
            kind = ValueKind.DATE
        elif plain in ("datetime", "timestamp"):
            kind = ValueKind.TIMESTAMP if plain == "datetime" else ValueKind.TIMESTAMPTZ
            scale = native.scale or 0
        elif plain in _BYTES:
            text, kind = "LOWER(HEX({}))", ValueKind.BYTES
        elif plain in _TEXTS:
            text = "CONVERT({} USING utf8mb4)"
        else:
            # ENUM and SET sort by number and compare by word, others have orders of their own: here both
            # sorting and comparing go by the text.
            order, text = f"(CONVERT(CAST({sql} AS CHAR) USING utf8mb4) COLLATE utf8mb4_bin)", "{}"
        return OrderedColumn(native.name, order, text, kind, native.nullable, scale)

    def cursor_kind(
        self,
        table: TableName,  # noqa: ARG002 - only SQLite has to look at the rows
        native: CatalogueColumn,
        ordered: OrderedColumn,
    ) -> str | None:
        return kind_of_cursor(ordered, grows_as_text=native.type in _TEXTS)

    def notation(self, source_table: SourceTable, where: str) -> Notation | None:  # noqa: ARG002 - columns have one type
        return None

    def read_clock(self, *, fresh: bool) -> ClockReading:
        if not fresh and self._seen is not None and time.monotonic() - self._seen[0] < _STALE:
            return self._seen[1]
        began = time.monotonic()
        watch = find_watch(self._address, self._database.user)
        moment = watch.look(self, self._offsets, mariadb=self._mariadb)
        moment = as_replica(self, moment, self._database.name, mariadb=self._mariadb)
        self._seen = began, moment
        return moment

    def close(self) -> None:
        self._connection.close()

    def identity(self) -> str:
        """A MySQL server has a UUID; of MariaDB only the address is stable."""
        if self._mariadb:
            return f"mariadb:{self._address}"
        ((uuid,),) = self.rows(f"SELECT {COMMENT} @@server_uuid")
        return f"mysql:{uuid}"

    def _translate(self, error: pymysql.Error) -> SourceError:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else None
        said = mask(str(error.args[-1])) if error.args else type(error).__name__
        name = self._database.name
        if code in LOGIN_REFUSED:
            hint = "check user, password and database in `connections:`"
            if code == ER.DBACCESS_DENIED_ERROR:
                hint += f"; GRANT SELECT ON {quote(self._database.database or '')}.* lets it in"
            return SourceUnreachable(
                f"{name}: {self._address} refuses the login: {said}",
                hint=hint,
                retryable=False,
            )
        if code in CONNECTION_LOST or isinstance(error, pymysql.err.InterfaceError):
            return SourceUnreachable(
                f"{name}: {self._address} cannot be reached: {said}",
                hint="check that the server runs, and host and port in `connections:`",
            )
        if code in (ER.NO_SUCH_TABLE, ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR):
            return TableMissing(
                f"{name}: {said}", hint="check the table's name and that the login may SELECT it"
            )
        kind = PrivilegeMissing if code == ER.SPECIFIC_ACCESS_DENIED_ERROR else SourceError
        return kind(f"{name}: {said}", detail=str(code))


def _quote_text(text: str) -> str:
    return literal(Value(ValueKind.TEXT, text))
