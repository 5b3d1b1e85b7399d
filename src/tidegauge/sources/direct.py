"""The data side of a database without JDBC: each task reads its part of the window straight into Arrow.

`read: auto` takes this way wherever the same values arrive as through JDBC, and JDBC elsewhere.
"""

from __future__ import annotations

import importlib.util
import ipaddress
from dataclasses import replace

from tidegauge.errors import ConfigError
from tidegauge.model.batch_data import BatchRows, Split
from tidegauge.model.plan import Batch
from tidegauge.model.spec import Database, Engine, Read
from tidegauge.model.table import SourceColumn, SourceTable
from tidegauge.sources.connectorx_split import ConnectorxSplit
from tidegauge.sources.direct_types import ColumnWay, column_ways, unknown_way
from tidegauge.sources.jdbc import JdbcReader
from tidegauge.sources.sqlite.split import SqliteSplit

_NO_TLS = ("require", "verify-ca", "verify-full")


class DirectReader:
    """Implements `model.protocols.source.Reader`: stretches where possible and wanted, else Spark's JDBC."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._jdbc = JdbcReader(database)

    def batch_data(self, source_table: SourceTable, batch: Batch) -> BatchRows:
        """Raises ConfigError for `read: direct` where it is not possible."""

        batch_data = self._jdbc.batch_data(source_table, batch)
        if check(source_table, self._database) is not None or source_table.options.read is Read.JDBC:
            return batch_data
        return replace(batch_data, splits=self._splits(source_table, batch))

    def _splits(self, source_table: SourceTable, batch: Batch) -> tuple[Split, ...]:
        chosen = column_ways(source_table, self._database.engine)
        columns = tuple(_asked(column, way) for column, way in zip(source_table.columns, chosen, strict=True))
        selects = self._jdbc.selects(replace(source_table, columns=columns), batch)
        if self._database.engine is Engine.SQLITE:
            return tuple(SqliteSplit(self._database, source_table, chosen, select) for select in selects)
        rows = None if batch.rows is None else batch.rows // len(selects)
        inquiries = self._inquiries(source_table, chosen, batch)
        return tuple(
            ConnectorxSplit(self._database, source_table, chosen, select, inquiry, rows)
            for select, inquiry in zip(selects, inquiries, strict=True)
        )

    def _inquiries(
        self, source_table: SourceTable, chosen: tuple[ColumnWay, ...], batch: Batch
    ) -> list[str] | list[None]:
        """For the guards that are left out of a SELECT because no bad value gets through it."""
        guards = [
            column.guard for column, way in zip(source_table.columns, chosen, strict=True) if column.guard
        ]
        if all(way.guarded for column, way in zip(source_table.columns, chosen, strict=True) if column.guard):
            return [None] * max(len(self._jdbc.selects(source_table, batch)), 1)
        key = {part.name for part in source_table.key}
        columns = tuple(
            replace(column, select=way.select if column.name in key else "1")
            for column, way in zip(source_table.columns, chosen, strict=True)
        )
        selects = self._jdbc.selects(replace(source_table, columns=columns), batch)
        return [f"{select} AND ({' OR '.join(guards)}) LIMIT 1" for select in selects]


def check(source_table: SourceTable, database: Database) -> str | None:
    """Why `read: auto` goes through JDBC, for the plan to show; None where it does not, or was told to.

    Raises ConfigError for `read: direct` where it is not possible.
    """
    wanted = source_table.options.read
    if wanted is Read.JDBC:
        return None
    reason = direct_reason(source_table, database)
    if reason is not None and wanted is Read.DIRECT:
        raise ConfigError(
            f"{source_table.table}: `read: direct` is not possible: {reason}",
            hint="leave `read:` at auto, which goes through JDBC for this table",
            place=source_table.options.place,
        )
    return reason


def direct_reason(source_table: SourceTable, database: Database) -> str | None:
    """Why a table cannot be read without JDBC; None where it can."""
    if database.engine is not Engine.SQLITE and importlib.util.find_spec("connectorx") is None:
        return "connectorx is not installed (pip install connectorx)"
    return _connection(database, source_table.options.read) or unknown_way(source_table, database.engine)


def _connection(database: Database, wanted: Read) -> str | None:
    mode = database.options.get("ssl")
    if database.engine is Engine.MYSQL:
        if mode in _NO_TLS or "ssl_ca" in database.options:
            return f"the connection {database.name} asks for TLS, which connectorx does not have for MySQL"
        if mode != "disable" and wanted is Read.AUTO and not _is_here(database.host):
            return (
                f"connectorx reads MySQL without TLS, and {database.name} is on another machine"
                " (`ssl: disable` or `read: direct` allows it)"
            )
    if database.engine is Engine.POSTGRESQL and mode == "verify-full":
        return f"the connection {database.name} asks for ssl: verify-full, which connectorx does not have"
    return None


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _asked(column: SourceColumn, way: ColumnWay) -> SourceColumn:
    return replace(column, select=way.select, guard=column.guard if way.guarded else None)
