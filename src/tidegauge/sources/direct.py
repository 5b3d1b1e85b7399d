"""The rows of a batch without JDBC: each task reads its split of the window straight into Arrow.

`read: auto` takes this way wherever the same values arrive as through JDBC, and JDBC elsewhere.
"""

from __future__ import annotations

from dataclasses import replace

from tidegauge.errors import ConfigError
from tidegauge.model.batch_data import BatchRows, Split
from tidegauge.model.plan import Batch
from tidegauge.model.spec import Database, Read
from tidegauge.model.table import SourceColumn, SourceTable
from tidegauge.sources.direct_types import ColumnWay, column_ways, why_no_way
from tidegauge.sources.engines import find_engine
from tidegauge.sources.jdbc import JdbcReader


class DirectReader:
    """Implements `model.protocols.source.Reader`: splits where possible and wanted, else Spark's JDBC."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._engine = find_engine(database)
        self._jdbc = JdbcReader(database)

    def batch_data(self, source_table: SourceTable, batch: Batch) -> BatchRows:
        """Raises ConfigError for `read: direct` where it is not possible."""

        batch_data = self._jdbc.batch_data(source_table, batch)
        if check(source_table, self._database) is not None or source_table.options.read is Read.JDBC:
            return batch_data
        return replace(batch_data, splits=self._splits(source_table, batch))

    def _splits(self, source_table: SourceTable, batch: Batch) -> tuple[Split, ...]:
        ways = column_ways(source_table, self._engine.column_way)
        columns = tuple(
            _column_by(way, column) for column, way in zip(source_table.columns, ways, strict=True)
        )
        selects = self._jdbc.selects(replace(source_table, columns=columns), batch)
        queries = self._guard_queries(source_table, ways, batch)
        rows = None if batch.rows is None else batch.rows // len(selects)
        return tuple(
            self._engine.make_split(self._database, source_table, ways, select, guard_query=query, rows=rows)
            for select, query in zip(selects, queries, strict=True)
        )

    def _guard_queries(
        self, source_table: SourceTable, ways: tuple[ColumnWay, ...], batch: Batch
    ) -> list[str] | list[None]:
        """For the guards that are left out of a SELECT because no bad value gets through it."""
        guarded = [
            (column, way) for column, way in zip(source_table.columns, ways, strict=True) if column.guard
        ]
        if all(way.guarded for _, way in guarded):
            return [None] * max(len(self._jdbc.selects(source_table, batch)), 1)
        key = {part.name for part in source_table.key}
        columns = tuple(
            replace(column, select=way.select if column.name in key else "1")
            for column, way in zip(source_table.columns, ways, strict=True)
        )
        selects = self._jdbc.selects(replace(source_table, columns=columns), batch)
        wrong = " OR ".join(column.guard for column, _ in guarded if column.guard)
        return [f"{select} AND ({wrong}) LIMIT 1" for select in selects]


def check(source_table: SourceTable, database: Database) -> str | None:
    """Why `read: auto` goes through JDBC, for the plan to show; None where it does not, or for `read: jdbc`.

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
    engine = find_engine(database)
    reason = engine.why_not_direct(database, source_table.options.read)
    return reason or why_no_way(source_table, engine.column_way)


def _column_by(way: ColumnWay, column: SourceColumn) -> SourceColumn:
    """The column with the SQL that its way asks for."""
    return replace(column, select=way.select, guard=column.guard if way.guarded else None)
