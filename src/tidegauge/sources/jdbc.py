"""The rows of a batch as a Spark frame, through Spark's JDBC reader.

Columns travel as c0, c1, … and get their names at the very end, so that no name of the user's reaches
Spark's SQL. One more column, g, has the number of the first column whose value cannot be held exactly.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from tidegauge.model.batch_data import BatchRows
from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition
from tidegauge.model.spec import Database
from tidegauge.model.table import SourceTable
from tidegauge.sources import sql
from tidegauge.sources.dialect import COMMENT
from tidegauge.sources.engines import find_engine
from tidegauge.sources.texts import spark_text
from tidegauge.sources.types import IN_UTC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class JdbcReader:
    """Implements `model.protocols.source.Reader`. Holds no connection: Spark's tasks open their own."""

    def __init__(self, database: Database) -> None:
        self._engine = find_engine(database)
        self._options = self._engine.jdbc_options(database) if self._engine.jdbc_options else {}

    def batch_data(self, source_table: SourceTable, batch: Batch) -> BatchRows:
        return BatchRows(
            source_table.layout, batch.rows, frame=lambda spark: self.read(spark, source_table, batch)
        )

    def read(self, spark: SparkSession, source_table: SourceTable, batch: Batch) -> DataFrame:
        return self._load(spark, source_table, self.selects(source_table, batch))

    def keys_after(
        self, spark: SparkSession, source_table: SourceTable, position: RowPosition | None
    ) -> DataFrame:
        """The keys of the rows past a position, which no batch has read yet."""
        narrow = only_key(source_table)
        past = sql.after(source_table, position, self._engine.literal)
        return self._load(spark, narrow, [self.select(narrow, past)])

    def _load(self, spark: SparkSession, source_table: SourceTable, selects: list[str]) -> DataFrame:
        guarded = any(column.guard for column in source_table.columns)
        wire = [f"c{i} {column.wire}" for i, column in enumerate(source_table.columns)]
        options = {
            **self._options,
            "customSchema": ", ".join([*wire, "g int"] if guarded else wire),
            # Spark shall add no condition of its own: the window is the whole condition.
            "pushDownPredicate": "false",
        }
        frames = [
            spark.read.format("jdbc").options(**options).option("dbtable", f"({select}) AS w").load()
            for select in selects
        ]
        frame = reduce(lambda one, other: one.unionAll(other), frames)
        if guarded:
            frame = frame.where(f"CASE WHEN g IS NULL THEN true ELSE {_raise_error(source_table)} END")
        sooner = IN_UTC if spark.conf.get("spark.sql.session.timeZone") == "UTC" else {}
        finished = [
            f"{sooner.get(column.finish, column.finish).replace('{}', f'c{i}')} AS c{i}"
            for i, column in enumerate(source_table.columns)
        ]
        return frame.selectExpr(*finished).toDF(*(column.name for column in source_table.columns))

    def selects(self, source_table: SourceTable, batch: Batch) -> list[str]:
        """One SELECT for each parallel reader of the batch."""
        wheres = sql.splits(source_table, batch, self._engine.literal)
        return [self.select(source_table, where) for where in wheres]

    def select(self, source_table: SourceTable, where: str) -> str:
        columns = [f"{column.select} AS c{i}" for i, column in enumerate(source_table.columns)]
        guards = [
            f"WHEN {column.guard} THEN {i}" for i, column in enumerate(source_table.columns) if column.guard
        ]
        if guards:
            columns.append(f"CASE {' '.join(guards)} END AS g")
        table = sql.relation(source_table, self._engine.table_name)
        return f"SELECT {COMMENT} {', '.join(columns)} FROM {table} WHERE {where}"


def only_key(source_table: SourceTable) -> SourceTable:
    """The table with the columns of its key alone."""
    columns = {column.name: column for column in source_table.columns}
    return replace(source_table, columns=tuple(columns[part.name] for part in source_table.key))


def _raise_error(source_table: SourceTable) -> str:
    """Spark SQL that fails the job with one sentence: which column, of which row."""
    names = " ".join(
        f"WHEN {i} THEN {spark_text(f'{column.name}, a {column.native},')}"
        for i, column in enumerate(source_table.columns)
        if column.guard
    )
    numbers = {column.name: i for i, column in enumerate(source_table.columns)}
    parts = []
    for part in source_table.key:
        number = numbers[part.name]
        column = source_table.columns[number]
        value = column.finish.replace("{}", f"c{number}")
        shown = f"HEX({value})" if column.arrives == "binary" else f"CAST({value} AS string)"
        parts.append(f"COALESCE({shown}, '?')")
    key = " || ', ' || ".join(parts)
    head = spark_text(f"tidegauge: {source_table.table}: column ")
    tail = spark_text(" holds a value that cannot be held exactly, in the row with the key ")
    return f"CAST(raise_error({head} || CASE g {names} END || {tail} || {key}) AS boolean)"
