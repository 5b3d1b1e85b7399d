"""Moves few rows between Spark and this process: out as an Arrow table, and back as a frame.

Such a frame is one partition in memory, so that no row is shuffled and nothing is read twice: a query over
some of them is one job of one task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_VALUES = 2_000_000
"""The most values (rows times columns) that this process collects."""


def collect_few(rows: DataFrame) -> pa.Table | None:
    """The rows as an Arrow table; None where they are many."""
    most = max(1, _VALUES // max(1, len(rows.columns)))
    found = rows.limit(most + 1).toArrow()
    return None if found.num_rows > most else found


def frame_of(session: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    return session.createDataFrame(rows, schema).coalesce(1)


def hold_few(session: SparkSession, frame: DataFrame) -> DataFrame | None:
    """The same rows, computed now and once; None where they are many."""
    found = collect_few(frame)
    return None if found is None else frame_of(session, found, frame.schema)
