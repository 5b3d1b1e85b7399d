"""Reading PostgreSQL: names and values in its SQL, what every session sets first, the options of the JDBC
driver, and how rows come through connectorx.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.errors import SourceError
from tidegauge.model.batch_data import Split
from tidegauge.model.engines import FACTS, Engine, hash_in_sql
from tidegauge.model.position import Value, ValueKind
from tidegauge.model.privileges import QueryRunner, ReadAccess
from tidegauge.model.spec import Database, ReadMethod, TableName
from tidegauge.model.table import SourceColumn, SourceTable
from tidegauge.sources.connectorx_split import ConnectorxAddress, ConnectorxSplit, why_not_installed
from tidegauge.sources.dialect import READER, Dialect, refuse_nul
from tidegauge.sources.direct_types import WIDEST_WHOLE, ColumnWay, plain_decimal
from tidegauge.sources.engine import SourceEngine
from tidegauge.sources.jdbc_address import ROWS_AT_ONCE, jdbc_login, server_address
from tidegauge.sources.postgresql.types import RULES

SESSION = (
    "SET TimeZone = 'UTC'; SET DateStyle = 'ISO, YMD'; SET IntervalStyle = 'postgres';"
    " SET bytea_output = 'hex'; SET xmloption = 'content'; SET extra_float_digits = 3"
)
DEFAULT_PORT = FACTS[Engine.POSTGRESQL].port

_CONNECTORX_SSL = {"disable": "disable", "prefer": "prefer", "require": "require", "verify-ca": "require"}
_MOMENTS = ("date", "timestamp", "timestamp_ntz")


def quote(name: str) -> str:
    return '"' + refuse_nul(name).replace('"', '""') + '"'


def literal(value: Value) -> str:
    """An untyped literal, so that it takes the type of the column that it is compared with."""
    text = value.text
    if value.kind is ValueKind.BYTES:
        text = f"\\x{text}"
    elif value.kind is ValueKind.TIMESTAMPTZ:
        text = f"{text}+00"
    elif value.kind is ValueKind.TEXT and "\0" in text:
        raise SourceError("a position holds a NUL character, which PostgreSQL's text never does")
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"E'{escaped}'"


def table_name(table: TableName) -> str:
    return f"{quote(table.schema or 'public')}.{quote(table.table)}"


def _types_query(database: Database, table: TableName) -> str:  # noqa: ARG001 - a session has one database
    schema, name = (literal(Value(ValueKind.TEXT, one)) for one in (table.schema or "public", table.table))
    return (
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a JOIN pg_class c ON"
        " c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
        f" WHERE n.nspname = {schema} AND c.relname = {name} AND a.attnum > 0 AND NOT a.attisdropped"
    )


def row_hash(columns: Sequence[SourceColumn]) -> str:
    """See `Dialect.row_hash`."""
    row = f"ROW({', '.join(column.select for column in columns)})::text"
    return hash_in_sql(Engine.POSTGRESQL, row)


def _open_dialect(database: Database) -> Dialect:
    from tidegauge.sources.postgresql.dialect import PostgresqlDialect

    return PostgresqlDialect(database)


def _ask_access(asked: QueryRunner, tables: Sequence[TableName]) -> ReadAccess:
    from tidegauge.sources.postgresql.privileges import find_access

    return find_access(asked, tables)


def _jdbc_options(database: Database) -> dict[str, str]:
    options = database.options
    settings = {
        "ApplicationName": READER,
        "connectTimeout": options.get("connect_timeout", "10"),
        "tcpKeepAlive": "true",
    }
    names = {"ssl": "sslmode", "ssl_ca": "sslrootcert"}
    settings |= {theirs: options[ours] for ours, theirs in names.items() if ours in options}
    return {
        "url": f"jdbc:postgresql://{server_address(database)}",
        "driver": "org.postgresql.Driver",
        "sessionInitStatement": SESSION,
        "fetchsize": ROWS_AT_ONCE,
        **jdbc_login(database),
        **settings,
    }


def _why_not_direct(database: Database, wanted: ReadMethod) -> str | None:  # noqa: ARG001 - the same for both
    if reason := why_not_installed():
        return reason
    if database.options.get("ssl") == "verify-full":
        return f"the connection {database.name} asks for ssl: verify-full, which connectorx does not have"
    return None


def _column_way(column: SourceColumn) -> ColumnWay | None:
    guarded = column.guard is not None
    if column.arrives in _MOMENTS and guarded:
        # As the driver's own date or timestamp, which spares the server the arithmetic.
        return ColumnWay(f"CASE WHEN {column.guard} THEN NULL ELSE {quote(column.name)} END", "moment", True)
    if size := plain_decimal(column):
        precision, scale = size
        if precision > WIDEST_WHOLE:
            # The guard stops values that round() would change, so only zeros are cut off.
            return ColumnWay(f"round(({column.select})::numeric, {scale})::text", "digits", guarded)
        return ColumnWay(f"(({column.select})::numeric * {10**scale})::bigint", "units", guarded)
    return None


def _make_split(
    database: Database,
    source_table: SourceTable,
    ways: tuple[ColumnWay, ...],
    select: str,
    *,
    guard_query: str | None,
    rows: int | None,
) -> Split:
    options = database.options
    timeout = int(options.get("connect_timeout", "10"))
    settings = {"application_name": READER, "connect_timeout": str(timeout)}
    if mode := options.get("ssl"):
        settings["sslmode"] = _CONNECTORX_SSL[mode]
    if authority := options.get("ssl_ca"):
        settings["sslrootcert"] = authority
    address = ConnectorxAddress(
        database=database.database or database.user or "",
        settings=settings,
        session=tuple(part.strip() for part in SESSION.split(";")),
    )
    return ConnectorxSplit(database, source_table, ways, select, guard_query, rows, address)


POSTGRESQL = SourceEngine(
    engine=Engine.POSTGRESQL,
    rules=RULES,
    open_dialect=_open_dialect,
    literal=literal,
    table_name=table_name,
    types_query=_types_query,
    jdbc_options=_jdbc_options,
    why_not_direct=_why_not_direct,
    column_way=_column_way,
    make_split=_make_split,
    ask_access=_ask_access,
)
