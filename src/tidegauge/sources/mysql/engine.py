"""Reading MySQL and MariaDB: names and values in their SQL, what every session sets first, the options of the
JDBC driver, and how rows come through connectorx.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from tidegauge.model.batch_data import Split
from tidegauge.model.engines import FACTS, Engine, hash_in_sql
from tidegauge.model.position import Value, ValueKind
from tidegauge.model.privileges import QueryRunner, ReadAccess
from tidegauge.model.spec import Database, ReadMethod, TableName
from tidegauge.model.table import SourceColumn, SourceTable
from tidegauge.sources.connectorx_split import ConnectorxAddress, ConnectorxSplit, why_not_installed
from tidegauge.sources.dialect import COMMENT, Dialect, refuse_nul
from tidegauge.sources.direct_types import WIDEST_WHOLE, ColumnWay, plain_decimal
from tidegauge.sources.engine import SourceEngine
from tidegauge.sources.jdbc_address import jdbc_login, server_address
from tidegauge.sources.mysql.types import RULES

SESSION = "time_zone = '+00:00', sql_mode = '', net_write_timeout = 600"
"""Settings of every session. `sql_mode` is emptied because some modes pad CHAR values or change what quotes
mean."""
DEFAULT_PORT = FACTS[Engine.MYSQL].port

_STREAM = "-2147483648"
"""The fetch size with which the JDBC driver streams rows; with any other it holds the whole result."""
_JDBC_SSL = {
    "disable": "DISABLED",
    "prefer": "PREFERRED",
    "require": "REQUIRED",
    "verify-ca": "VERIFY_CA",
    "verify-full": "VERIFY_IDENTITY",
}
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_MOMENTS = ("date", "timestamp", "timestamp_ntz")


def quote(name: str) -> str:
    return "`" + refuse_nul(name).replace("`", "``") + "`"


def literal(value: Value) -> str:
    match value.kind:
        case ValueKind.INT | ValueKind.DECIMAL:
            return value.text
        case ValueKind.DATE:
            return f"DATE'{value.text}'"
        case ValueKind.TIMESTAMP | ValueKind.TIMESTAMPTZ:
            return f"TIMESTAMP'{_micros(value.text)}'"
        case ValueKind.BYTES:
            return f"X'{value.text}'"
        case ValueKind.TEXT:
            # As hexadecimal digits: no quote, escape or sql_mode can change the value.
            return f"_utf8mb4 X'{value.text.encode().hex()}'"


def table_name(table: TableName) -> str:
    return f"{quote(table.schema)}.{quote(table.table)}" if table.schema else quote(table.table)


def row_hash(columns: Sequence[SourceColumn]) -> str:
    """See `Dialect.row_hash`."""
    values = [f"CONCAT({column.select})" for column in columns]
    # A text longer than the server's `max_allowed_packet` is NULL: the values' own MD5 stand for it.
    short = ", ".join(f"IFNULL(MD5({value}), '-')" for value in values)
    texts = ", ".join(f"COALESCE(HEX({value}), MD5({value}), '-')" for value in values)
    return hash_in_sql(Engine.MYSQL, f"IFNULL(CONCAT_WS(',', {texts}), CONCAT_WS(',', {short}))")


def _micros(text: str) -> str:
    """Cut a timestamp to microseconds: MySQL would round a seventh digit up, and a bound must not grow."""
    whole, point, fraction = text.partition(".")
    return f"{whole}{point}{fraction[:6]}"


def _types_query(database: Database, table: TableName) -> str:
    found = (table.schema or database.database or "", table.table)
    schema, name = (literal(Value(ValueKind.TEXT, one)) for one in found)
    return (
        f"SELECT {COMMENT} COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS"
        f" WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME = {name}"
    )


def _open_dialect(database: Database) -> Dialect:
    from tidegauge.sources.mysql.dialect import MysqlDialect

    return MysqlDialect(database)


def _ask_access(asked: QueryRunner, tables: Sequence[TableName]) -> ReadAccess:
    from tidegauge.sources.mysql.privileges import find_access

    return find_access(asked, tables)


def _jdbc_options(database: Database) -> dict[str, str]:
    options = database.options
    settings = {
        "autoDeserialize": "false",
        "allowLoadLocalInfile": "false",
        "allowUrlInLocalInfile": "false",
        "allowMultiQueries": "false",
        "tinyInt1isBit": "false",
        "yearIsDateType": "false",
        "connectionTimeZone": "UTC",
        "forceConnectionTimeZoneToSession": "true",
        "characterEncoding": "UTF-8",
        "useServerPrepStmts": "true",
        "connectTimeout": str(1000 * int(options.get("connect_timeout", "10"))),
        "tcpKeepAlive": "true",
    }
    if mode := options.get("ssl"):
        settings["sslMode"] = _JDBC_SSL[mode]
    if authority := options.get("ssl_ca"):
        settings["trustCertificateKeyStoreUrl"] = f"file:{authority}"
        settings["trustCertificateKeyStoreType"] = "PEM"
    return {
        "url": f"jdbc:mysql://{server_address(database)}",
        "driver": "com.mysql.cj.jdbc.Driver",
        "sessionInitStatement": f"SET {COMMENT} {SESSION}",
        "prepareQuery": COMMENT,
        "fetchsize": _STREAM,
        **jdbc_login(database),
        **settings,
    }


def _why_not_direct(database: Database, wanted: ReadMethod) -> str | None:
    mode = database.options.get("ssl")
    if reason := why_not_installed():
        return reason
    if mode in ("require", "verify-ca", "verify-full") or "ssl_ca" in database.options:
        return f"the connection {database.name} asks for TLS, which connectorx does not have for MySQL"
    if mode != "disable" and wanted is ReadMethod.AUTO and not _is_this_machine(database.host):
        return (
            f"connectorx reads MySQL without TLS, and {database.name} is on another machine"
            " (`ssl: disable` or `read: direct` allows it)"
        )
    return None


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _column_way(column: SourceColumn) -> ColumnWay | None:
    guarded = column.guard is not None
    quoted = quote(column.name)
    if column.arrives in _MOMENTS and guarded:
        # As the driver's own date or timestamp, which spares the server the arithmetic. The driver has no
        # zero dates, so it stops the batch at one. With `zero_dates: null` the column goes the usual way.
        usual = {rule.select.format(c=quoted) for rule in RULES.rules if rule.safe_for_all}
        return ColumnWay(quoted, "moment", False) if column.select in usual else None
    if size := plain_decimal(column):
        select, how = _decimal(column, *size)
        return ColumnWay(select, how, guarded)
    if column.finish == "{}" and column.wire in _INTEGERS and column.select.endswith("+ 0)"):
        return ColumnWay(f"CAST({column.select} AS SIGNED)", "cast", guarded)
    return None


def _decimal(column: SourceColumn, precision: int, scale: int) -> tuple[str, str]:
    if column.native.startswith(("bigint", "bit")) and column.arrives == "decimal(20,0)":
        return column.select, "cast"
    if precision > WIDEST_WHOLE:
        # The guard stops values that ROUND would change, so only zeros are cut off.
        return f"CAST(ROUND({column.select}, {scale}) AS CHAR)", "digits"
    return f"CAST(({column.select}) * {10**scale} AS SIGNED)", "units"


def _make_split(
    database: Database,
    source_table: SourceTable,
    ways: tuple[ColumnWay, ...],
    select: str,
    *,
    guard_query: str | None,
    rows: int | None,
) -> Split:
    timeout = int(database.options.get("connect_timeout", "10"))
    address = ConnectorxAddress(
        database=database.database or "",
        # Through a socket file the server would take the login for another user.
        settings={"prefer_socket": "false", "tcp_connect_timeout_ms": str(1000 * timeout)},
        session=(f"SET {COMMENT} {SESSION}", f"SET {COMMENT} NAMES utf8mb4"),
    )
    return ConnectorxSplit(database, source_table, ways, select, guard_query, rows, address)


MYSQL = SourceEngine(
    engine=Engine.MYSQL,
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
