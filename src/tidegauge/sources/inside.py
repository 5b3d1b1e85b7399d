"""The rows of a batch as a query, for a target in the same database: no row leaves it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tidegauge.errors import ConfigError
from tidegauge.model.batch_data import BatchRows, RowsQuery
from tidegauge.model.plan import Batch
from tidegauge.model.spec import Database
from tidegauge.model.table import SourceTable
from tidegauge.sources import sql
from tidegauge.sources.dialect import COMMENT
from tidegauge.sources.direct_types import value_not_held
from tidegauge.sources.engines import find_engine
from tidegauge.sources.row_key import COPY, ROW


class SameDatabaseReader:
    """Implements `model.protocols.source.Reader`. Holds no connection: the output has the session."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._engine = find_engine(database)

    def batch_data(self, source_table: SourceTable, batch: Batch) -> BatchRows:
        # Without the batch's splits: they are for parallel readers, and this is one statement.
        (where,) = sql.splits(source_table, replace(batch, split_points=()), self._engine.literal)
        return BatchRows(source_table.layout, batch.rows, inside=self.query(source_table, where))

    def query(self, source_table: SourceTable, where: str) -> RowsQuery:
        """The query for rows that fulfil `where`. Raises ConfigError if only Spark can convert a column."""
        values = []
        for column in source_table.columns:
            if column.inside is None:
                raise ConfigError(
                    f"{source_table.table}: `types` makes a {column.arrives} of the column {column.name}, a"
                    f" {column.native}, and with execute `database` nobody parses text",
                    hint="leave the column as it is, or leave `execute` out",
                    place=source_table.options.place,
                )
            values.append(column.inside)
        guards = " ".join(
            f"WHEN {column.guard} THEN {number}"
            for number, column in enumerate(source_table.columns)
            if column.guard
        )
        named = self._engine.full_name or (lambda _, table: self._engine.table_name(table))
        return RowsQuery(
            source_table.table,
            tuple(values),
            f"CASE {guards} END" if guards else "",
            f"FROM {source_table.relation or named(self._database, source_table.table)} {COMMENT}"
            f" WHERE {where}",
            self._engine.types_query(self._database, source_table.table),
            partial(value_not_held, source_table),
            frozenset(one.name for one in source_table.columns if one.mask or one.name in (ROW, COPY)),
        )
