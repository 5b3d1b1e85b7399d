"""Few rows between Spark and this process: taken in as an Arrow table, and given back as a frame.

A query over small frames is one job of one task: each frame is one partition, so that no row is sent around,
and it is in memory, so that nothing is read twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_VALUES = 2_000_000
"""In a change that this process takes in."""


def collect_few(rows: DataFrame) -> pa.Table | None:
    """The rows, or None where they are many."""
    most = max(1, _VALUES // max(1, len(rows.columns)))
    found = rows.limit(most + 1).toArrow()
    return None if found.num_rows > most else found


def frame_of(session: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    return session.createDataFrame(rows, schema).coalesce(1)


def hold_few(session: SparkSession, frame: DataFrame) -> DataFrame | None:
    """The same rows, computed now and once; None where they are many."""
    found = collect_few(frame)
    return None if found is None else frame_of(session, found, frame.schema)
