"""PostgreSQL: one session in UTC that only reads, known by its application name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import psycopg
from psycopg import errors as pg_errors

from tidegauge.errors import (
    ColumnMissing,
    CursorUnsuitable,
    SourceError,
    SourceUnreachable,
    TableMissing,
)
from tidegauge.model.position import Value, ValueKind
from tidegauge.model.secret import mask
from tidegauge.model.spec import Database, TableName
from tidegauge.model.table import OrderedColumn, SourceColumn, SourceTable
from tidegauge.model.trace import trace_sql
from tidegauge.sources.dialect import (
    COMMENT,
    READER,
    ClockReading,
    TableDescription,
    UniqueKey,
    kind_of_cursor,
    refuse_nul,
    suggest_names,
)
from tidegauge.sources.notation import Notation
from tidegauge.sources.postgresql import types as types_postgresql
from tidegauge.sources.postgresql.engine import DEFAULT_PORT, SESSION, literal, quote, row_hash, table_name
from tidegauge.sources.postgresql.open_work import look, read_offsets
from tidegauge.sources.types import CatalogueColumn

_INTEGERS = ("int2", "int4", "int8")
_TEXTS = ("text", "varchar", "bpchar", "name", "citext")
_KINDS = {
    **dict.fromkeys(_INTEGERS, ValueKind.INT),
    "oid": ValueKind.INT,
    "numeric": ValueKind.DECIMAL,
    "date": ValueKind.DATE,
    "timestamp": ValueKind.TIMESTAMP,
    "timestamptz": ValueKind.TIMESTAMPTZ,
    "bytea": ValueKind.BYTES,
}
_NUMERIC_HEADER = 4
_BARRED = "permission denied for database"
_OTHERS = {"v": "view", "m": "materialized view", "f": "foreign table"}
_SYSTEM = "n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'"


class PostgresqlDialect:
    folds_case = False

    def __init__(self, database: Database) -> None:
        self._database = database
        self._address = f"{database.host}:{database.port or DEFAULT_PORT}"
        self._connection = self._connect()
        self.rows(SESSION)
        self.rows("SET default_transaction_read_only = on")
        self.rules = types_postgresql.rules_of(self._connection.info.server_version)
        self._offsets = read_offsets(self)

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        database, options = self._database, self._database.options
        given: dict[str, Any] = {
            "sslmode": options.get("ssl"),
            "sslrootcert": options.get("ssl_ca"),
        }
        try:
            return psycopg.connect(
                "",
                host=database.host,
                port=database.port or DEFAULT_PORT,
                dbname=database.database or database.user,
                user=database.user,
                password=database.password.reveal() if database.password else None,
                autocommit=True,
                connect_timeout=int(options.get("connect_timeout", "10")),
                application_name=READER,
                client_encoding="UTF8",
                **{name: value for name, value in given.items() if value is not None},
            )
        except (psycopg.Error, OSError) as error:
            raise self._explain_unreachable(error) from error

    def held(self) -> AbstractContextManager[None]:
        return nullcontext()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        trace_sql(self._database.name, sql)
        try:
            cursor = self._connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise self._translate(error) from error

    def stream(self, sql: str, size: int) -> Iterator[Sequence[tuple[Any, ...]]]:
        try:
            with self._connection.transaction(), self._connection.cursor("tidegauge") as cursor:
                cursor.execute(sql.encode(), binary=True)
                while block := cursor.fetchmany(size):
                    yield block
        except psycopg.Error as error:
            raise self._translate(error) from error

    def quote(self, name: str) -> str:
        return quote(name)

    def name(self, table: TableName) -> str:
        return table_name(table)

    def literal(self, value: Value) -> str:
        return literal(value)

    def tables(self) -> tuple[TableName, ...]:
        return tuple(table for table, _ in self._list_named("'r', 'p'"))

    def left_out(self) -> tuple[tuple[TableName, str], ...]:
        return tuple((table, _OTHERS[kind]) for table, kind in self._list_named("'v', 'm', 'f'"))

    def with_column(self, name: str) -> frozenset[TableName]:
        there = (
            "SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
        )
        named = f"EXISTS ({there} AND a.attname = {_quote_text(name)})"
        return frozenset(table for table, _ in self._list_named("'r', 'p', 'v', 'm', 'f'", named))

    def with_key(self) -> frozenset[TableName]:
        keyed = "EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)"
        return frozenset(table for table, _ in self._list_named("'r', 'p'", keyed))

    def row_hash(self, columns: Sequence[SourceColumn]) -> str:
        return row_hash(columns)

    def _list_named(self, kinds: str, condition: str = "true") -> list[tuple[TableName, str]]:
        found = self.rows(
            f"SELECT {COMMENT} n.nspname, c.relname, c.relkind::text FROM pg_class c"
            " JOIN pg_namespace n ON n.oid = c.relnamespace"
            f" WHERE c.relkind IN ({kinds}) AND NOT c.relispartition AND {_SYSTEM} AND {condition}"
            " AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')"
        )
        return [(TableName(schema, table), kind) for schema, table, kind in found]

    def catalogue(self, table: TableName) -> TableDescription:
        schema, name = _quote_text(table.schema or "public"), _quote_text(table.table)
        found = self.rows(
            f"SELECT {COMMENT} c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            f" WHERE n.nspname = {schema} AND c.relname = {name} AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"
            " AND has_table_privilege(c.oid, 'SELECT')"
        )
        if not found:
            known = tuple(str(other) for other in self.tables())
            raise TableMissing(
                f"{self._database.name}: there is no table '{table}' that {self._database.user} may read",
                hint=suggest_names(str(table), known),
            )
        ((oid,),) = found
        columns = tuple(
            self._native(row)
            for row in self.rows(
                f"SELECT {COMMENT} a.attname, a.attnotnull, {_TYPE_COLUMNS} FROM pg_attribute a"
                " JOIN pg_type t ON t.oid = a.atttypid JOIN pg_namespace tn ON tn.oid = t.typnamespace"
                f" WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
            )
        )
        uniques, indexed = [], set()
        for unique, primary, whole, names, not_null in self.rows(
            f"SELECT {COMMENT} i.indisunique AND i.indimmediate AND i.indisvalid, i.indisprimary,"
            " i.indpred IS NULL AND i.indexprs IS NULL,"
            " array_agg(a.attname::text ORDER BY k.n), bool_and(coalesce(a.attnotnull, false))"
            " FROM pg_index i"
            " CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, n)"
            " LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum AND k.attnum > 0"
            f" WHERE i.indrelid = {oid} AND k.n <= i.indnkeyatts"
            " GROUP BY i.indexrelid, i.indisunique, i.indimmediate, i.indisvalid, i.indisprimary, i.indpred,"
            " i.indexprs"
        ):
            if names[0] is not None:
                indexed.add(names[0])
            if unique and whole and not_null:
                uniques.append(UniqueKey(tuple(names), primary=primary))
        return TableDescription(
            columns, tuple(uniques), frozenset(indexed), f"{self.identity()}#{oid}", notes=self._notes(oid)
        )

    def expression(self, table: TableName, sql: str) -> CatalogueColumn:
        shown = sql.strip("()\n ")
        try:
            ((oid,),) = self._connection.execute(
                f"SELECT {COMMENT} pg_typeof(x.o)::oid FROM (SELECT 1) AS one LEFT JOIN"
                f" (SELECT {sql} AS o FROM {self.name(table)} WHERE false) AS x ON true".encode()
            ).fetchall()
        except pg_errors.UndefinedColumn as error:
            raise ColumnMissing(
                f"{table}: the cursor {shown} names a column that is not there: {_first_line(error)}",
                hint="check the names in the expression",
            ) from error
        except psycopg.OperationalError as error:
            raise self._translate(error) from error
        except psycopg.Error as error:
            raise CursorUnsuitable(
                f"{table}: the cursor {shown} is not an expression that the database understands:"
                f" {_first_line(error)}",
                hint="a cursor is a column, or an expression of the database's own SQL",
            ) from error
        facts = _TYPE_COLUMNS.replace("a.atttypid", "t.oid").replace("a.atttypmod", "-1")
        (row,) = self.rows(
            f"SELECT {COMMENT} NULL, false, {facts}"
            " FROM pg_type t JOIN pg_namespace tn ON tn.oid = t.typnamespace"
            f" WHERE t.oid = {oid}"
        )
        return self._native((sql, *row[1:]))

    def ordered(
        self,
        table: TableName,  # noqa: ARG002 - only SQLite has to look at the rows
        native: CatalogueColumn,
        sql: str,
    ) -> OrderedColumn | None:
        if native.type in ("float4", "float8"):
            return None
        kind = _KINDS.get(native.type, ValueKind.TEXT)
        scale = native.scale if native.scale is not None else 6
        text = "({})::text"
        if kind is ValueKind.BYTES:
            text = "encode({}, 'hex')"
        elif kind in (ValueKind.TIMESTAMP, ValueKind.TIMESTAMPTZ):
            # The session is in UTC. to_char would hide infinity and years before 1: they keep their own text.
            digits = f".FF{scale}" if scale else ""
            text = (
                "CASE WHEN {} BETWEEN '0001-01-01' AND '9999-12-31 23:59:59.999999'"
                f" THEN to_char({{}}, 'YYYY-MM-DD HH24:MI:SS{digits}') ELSE ({{}})::text END"
            )
            return OrderedColumn(native.name, sql, text, kind, native.nullable, scale)
        return OrderedColumn(native.name, sql, text, kind, native.nullable)

    def cursor_kind(
        self,
        table: TableName,  # noqa: ARG002 - only SQLite has to look at the rows
        native: CatalogueColumn,
        ordered: OrderedColumn,
    ) -> str | None:
        return kind_of_cursor(ordered, grows_as_text=native.type in _TEXTS)

    def notation(self, source_table: SourceTable, where: str) -> Notation | None:  # noqa: ARG002 - columns have one type
        return None

    def read_clock(self, *, fresh: bool) -> ClockReading:  # noqa: ARG002 - it is always fresh
        return look(self, self._offsets)

    def close(self) -> None:
        self._connection.close()

    def _native(self, row: tuple[Any, ...]) -> CatalogueColumn:
        """The type of a column; of a domain the type that it is made of."""
        name, required, full, modifier, kind, namespace, sort, element, base, base_modifier = row
        while sort == "d":
            modifier = base_modifier if base_modifier != -1 else modifier
            ((kind, namespace, sort, element, base, base_modifier),) = self.rows(
                f"SELECT {COMMENT} t.typname, tn.nspname, t.typtype::text, t.typcategory::text,"
                " t.typbasetype, t.typtypmod FROM pg_type t JOIN pg_namespace tn ON tn.oid = t.typnamespace"
                f" WHERE t.oid = {base}"
            )
        precision = scale = None
        if kind == "numeric" and modifier >= _NUMERIC_HEADER:
            packed = modifier - _NUMERIC_HEADER
            precision, scale = packed >> 16, ((packed & 0x7FF) ^ 1024) - 1024
        elif kind in ("timestamp", "timestamptz") and modifier >= 0:
            scale = modifier
        sorts = {"e": "enum", "c": "composite", "r": "range", "m": "multirange"}
        if sort in sorts:
            kind = sorts[sort]
        elif element == "A":
            kind = "array"
        elif namespace != "pg_catalog" and kind != "citext":
            kind = f"{namespace}.{kind}"
        return CatalogueColumn(name, kind, full, not required, precision, scale)

    def identity(self) -> str:
        try:
            ((number,),) = self.rows(f"SELECT {COMMENT} system_identifier FROM pg_control_system()")
        except SourceUnreachable:
            raise
        except SourceError:
            return f"postgresql:{self._address}/{self._database.database}"
        return f"postgresql:{number}/{self._database.database}"

    def _notes(self, oid: int) -> tuple[str, ...]:
        cached = self.rows(
            f"SELECT {COMMENT} a.attname, s.seqcache FROM pg_depend d"
            " JOIN pg_sequence s ON s.seqrelid = d.objid"
            " JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid"
            f" WHERE d.classid = 'pg_class'::regclass AND d.refobjid = {oid} AND s.seqcache > 1"
        )
        return tuple(
            f"the sequence of {column} hands out {size} numbers at a time to each session: as a cursor it can"
            " grow out of order"
            for column, size in cached
        )

    def _explain_unreachable(self, error: Exception) -> SourceUnreachable:
        said = _first_line(error)
        words = ("authentication failed", "does not exist", "no pg_hba.conf", _BARRED)
        refused = any(word in said for word in words)
        if refused or isinstance(error, pg_errors.InvalidAuthorizationSpecification):
            right = f"; GRANT CONNECT ON DATABASE {quote(self._database.database or '')} lets it in"
            return SourceUnreachable(
                f"{self._database.name}: {self._address} refuses the login: {said}",
                hint=f"check user, password and database in `connections:`{right if _BARRED in said else ''}",
                retryable=False,
            )
        return SourceUnreachable(
            f"{self._database.name}: {self._address} cannot be reached: {said}",
            hint="check that the server runs, and host and port in `connections:`",
        )

    def _translate(self, error: psycopg.Error) -> SourceError:
        if isinstance(error, psycopg.OperationalError) and self._connection.broken:
            return self._explain_unreachable(error)
        if isinstance(error, pg_errors.UndefinedTable | pg_errors.InsufficientPrivilege):
            return TableMissing(
                f"{self._database.name}: {_first_line(error)}",
                hint="check the table's name and that the login may SELECT it",
            )
        return SourceError(f"{self._database.name}: {_first_line(error)}")


_TYPE_COLUMNS = (
    "format_type(a.atttypid, a.atttypmod), a.atttypmod, t.typname, tn.nspname, t.typtype::text,"
    " t.typcategory::text, t.typbasetype, t.typtypmod"
)


def _first_line(error: Exception) -> str:
    """The first line of the server's message, without the lines that point into our SQL."""
    lines = [line.strip() for line in mask(str(error)).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _quote_text(text: str) -> str:
    return literal(Value(ValueKind.TEXT, refuse_nul(text)))
