"""The rows of a batch without JDBC: each task reads its split of the window straight into Arrow.

`read: auto` reads this way if the same values arrive as through JDBC, and else through JDBC.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegauge.errors import ConfigError
from tidegauge.model.batch_data import BatchRows, Split
from tidegauge.model.engines import FACTS
from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition
from tidegauge.model.spec import Database, ReadMethod
from tidegauge.model.table import SourceColumn, SourceTable
from tidegauge.model.trace import trace_sql
from tidegauge.sources import sql
from tidegauge.sources.direct_types import ColumnWay, column_ways, why_no_way
from tidegauge.sources.engines import find_engine
from tidegauge.sources.jdbc import JdbcReader, only_key
from tidegauge.spark.on_demand import are_few
from tidegauge.spark.split_frame import frame_of_splits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class DirectReader:
    """Implements `model.protocols.source.Reader`: splits where possible and wanted, else Spark's JDBC."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._engine = find_engine(database)
        self._jdbc = JdbcReader(database)

    def batch_data(self, source_table: SourceTable, batch: Batch) -> BatchRows:
        """Raises ConfigError for `read: direct` or `read: jdbc` if that is not possible."""

        batch_data = self._jdbc.batch_data(source_table, batch)
        if (
            find_jdbc_reason(source_table, self._database) is not None
            or source_table.options.read is ReadMethod.JDBC
        ):
            return batch_data
        splits = self._splits(source_table, batch)
        if self._engine.spread and not are_few(batch.rows or 0):
            splits = self._engine.spread(splits)
        frame = batch_data.frame if self._has_jdbc(source_table) else None
        return replace(batch_data, splits=splits, frame=frame)

    def frame(self, spark: SparkSession, source_table: SourceTable, batch: Batch) -> DataFrame:
        """The rows of a batch as a frame: through JDBC if there is a driver for it, else from splits."""
        if self._has_jdbc(source_table):
            return self._jdbc.read(spark, source_table, batch)
        return frame_of_splits(spark, source_table.layout, self._splits(source_table, batch))

    def keys_after(
        self, spark: SparkSession, source_table: SourceTable, position: RowPosition | None
    ) -> DataFrame:
        """The keys of the rows past a position, which no batch has read yet, as a frame."""
        if self._engine.jdbc_options:
            return self._jdbc.keys_after(spark, source_table, position)
        narrow = only_key(source_table)
        ways = column_ways(narrow, self._engine.column_way)
        past = sql.after(source_table, position, self._engine.literal)
        select = self._jdbc.select(_apply_ways(narrow, ways), past)
        split = self._engine.make_split(self._database, narrow, ways, select, guard_query=None, rows=None)
        return frame_of_splits(spark, narrow.layout, [split])

    def _has_jdbc(self, source_table: SourceTable) -> bool:
        return bool(self._engine.jdbc_options) and not _find_in_process_column(source_table)

    def _splits(self, source_table: SourceTable, batch: Batch) -> tuple[Split, ...]:
        ways = column_ways(source_table, self._engine.column_way)
        selects = self._jdbc.selects(_apply_ways(source_table, ways), batch)
        for select in selects:
            trace_sql(self._database.name, select)
        queries = self._guard_queries(source_table, ways, batch)
        rows = None if batch.rows is None else batch.rows // len(selects)
        return tuple(
            self._engine.make_split(self._database, source_table, ways, select, guard_query=query, rows=rows)
            for select, query in zip(selects, queries, strict=True)
        )

    def _guard_queries(
        self, source_table: SourceTable, ways: tuple[ColumnWay, ...], batch: Batch
    ) -> list[str] | list[None]:
        """For each SELECT of the batch a query that finds a row that a guard stops; None if the SELECT itself
        asks for all guards."""
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


def find_jdbc_reason(source_table: SourceTable, database: Database) -> str | None:
    """Why `read: auto` goes through JDBC, for the plan to show; None if it does not, or for `read: jdbc`.

    Raises ConfigError for `read: direct` or `read: jdbc` if that is not possible.
    """
    wanted = source_table.options.read
    if wanted is ReadMethod.JDBC:
        title = FACTS[database.engine].title
        reason = None
        if find_engine(database).jdbc_options is None:
            reason = f"{title} is read by its own driver alone"
        elif hashed := _find_in_process_column(source_table):
            reason = f"{title} has no sha256 of its own, for the column {hashed}"
        if reason is not None:
            raise ConfigError(
                f"{source_table.table}: `read: jdbc` is not possible: {reason}",
                hint="leave `read:` at auto",
                place=source_table.options.place,
            )
        return None
    reason = direct_reason(source_table, database)
    if reason is not None and wanted is ReadMethod.DIRECT:
        raise ConfigError(
            f"{source_table.table}: `read: direct` is not possible: {reason}",
            hint="leave `read:` at auto, which goes through JDBC for this table",
            place=source_table.options.place,
        )
    return reason


def direct_reason(source_table: SourceTable, database: Database) -> str | None:
    """Why a table cannot be read without JDBC; None if it can."""
    engine = find_engine(database)
    reason = engine.why_not_direct(database, source_table.options.read)
    return reason or why_no_way(source_table, engine.column_way)


def _find_in_process_column(source_table: SourceTable) -> str | None:
    """The name of a column whose SQL no JDBC driver can run; None if there is none."""
    return next((column.name for column in source_table.columns if column.in_process), None)


def _apply_ways(source_table: SourceTable, ways: tuple[ColumnWay, ...]) -> SourceTable:
    """The table, with the SQL that the way of each column asks for."""
    columns = tuple(_apply_way(way, column) for column, way in zip(source_table.columns, ways, strict=True))
    return replace(source_table, columns=columns)


def _apply_way(way: ColumnWay, column: SourceColumn) -> SourceColumn:
    return replace(column, select=way.select, guard=column.guard if way.guarded else None)
