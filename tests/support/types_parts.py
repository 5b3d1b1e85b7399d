"""Reads whole tables through Spark into Parquet, to check the types and values that arrive."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.source_parts import Place, batches
from tidegauge.sources.jdbc import JdbcReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Case:
    """A column type, values as SQL of the database, and the type and values that must arrive."""

    native: str
    values: tuple[str, ...]
    arrives: pa.DataType
    expected: tuple[Any, ...]


def arrived(
    spark: SparkSession, place: Place, table: str, folder: Path, *, step: int = 1_000_000, **options: Any
) -> pa.Table:
    """Read every batch of a table into Parquet, and return the content of the files."""
    source_table, survey = place.survey(table, step=step, **options)
    reader = JdbcReader(place.database)
    parts = []
    for number, batch in enumerate(batches(survey, None, 2)):
        path = folder / f"part{number}"
        reader.read(spark, source_table, batch).write.parquet(str(path))
        parts.append(pq.read_table(path))
    return pa.concat_tables(parts)


def make(place: Place, table: str, cases: list[Case], quote: str) -> None:
    """Create a table with a column for each case and a row for each value; shorter columns end in NULL."""
    columns = [f"{quote}v{i}{quote} {case.native}" for i, case in enumerate(cases)]
    place.run(f"CREATE TABLE {table} (id int PRIMARY KEY, {', '.join(columns)})")
    for row in range(max(len(case.values) for case in cases) + 1):
        values = [case.values[row] if row < len(case.values) else "NULL" for case in cases]
        place.run(f"INSERT INTO {table} VALUES ({row}, {', '.join(values)})")


def column(table: pa.Table, number: int) -> tuple[pa.DataType, list[Any]]:
    ordered = table.sort_by("id")
    found = ordered.column(f"v{number}")
    return found.type, found.to_pylist()
