"""The rows of a table's batch as a frame that a Delta table is written from.

Few rows are read by this process when the batch is staged. Many rows are read by tasks, a split each, while
the batch is committed: a commit that fails and is tried again reads the window again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tidegauge.errors import OutputDisagrees
from tidegauge.model.arrow import schema_of
from tidegauge.model.batch_data import BatchRows
from tidegauge.model.types import quote
from tidegauge.spark.on_demand import are_few
from tidegauge.spark.split_frame import frame_of_splits, spark_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_PART, _RANK = "__tidegauge_part", "__tidegauge_rank"


def read_few(batch_data: BatchRows, key: Sequence[str]) -> pa.Table | None:
    """The rows, where they are few; None: they have to be read as a frame. With a key, the last row of each
    key in several splits."""
    import pyarrow as pa

    schema = schema_of(batch_data.layout)
    if not batch_data.splits and batch_data.frame is None:
        return schema.empty_table()
    if not batch_data.splits or not are_few(batch_data.rows):
        return None
    parts = [pa.Table.from_batches(split.batches(), schema) for split in batch_data.splits]
    rows = sum(part.num_rows for part in parts)
    # At a live source rows leave the window after they were counted; in a lake they cannot.
    if batch_data.paths and rows != batch_data.rows:
        raise OutputDisagrees(
            f"{rows} rows came from the lake, and {batch_data.rows} should have",
            hint="somebody changes the files of the lake: run again; nothing was written",
        )
    return pa.concat_tables(_keep_last(parts, key) if key and len(parts) > 1 else parts)


def frame_of(
    session: SparkSession, batch_data: BatchRows, held: pa.Table | None, key: Sequence[str]
) -> DataFrame:
    """The rows as a frame: those that `read_few` gave (`held`), or else a lazy one. With a key, the last row
    of each key in several splits."""
    if held is not None:
        return session.createDataFrame(held, schema=spark_schema(session, batch_data.layout))
    if batch_data.splits:
        frame = frame_of_splits(session, batch_data.layout, batch_data.splits)
    else:
        assert batch_data.frame is not None
        frame = batch_data.frame(session)
    return _keep_last_of_frame(frame, key) if key and len(batch_data.splits) != 1 else frame


def _keep_last(parts: Sequence[pa.Table], key: Sequence[str]) -> list[pa.Table]:
    """The parts with only the last row of each key. A row that changes between two reads is in both parts;
    one part never has a key twice."""
    seen: set[tuple[Any, ...]] = set()
    kept: list[pa.Table] = []
    for part in reversed(parts):
        keys = list(zip(*(part.column(name).to_pylist() for name in key), strict=True))
        kept.append(part.filter([one not in seen for one in keys]) if seen else part)
        # A row with NULL in its key is not a version of another row.
        seen.update(one for one in keys if None not in one)
    return kept[::-1]


def _keep_last_of_frame(frame: DataFrame, key: Sequence[str]) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    # Not `row_number`: if one part has a key twice, both rows stay, and the commit refuses them.
    last = Window.partitionBy(*(f.col(quote(name)) for name in key)).orderBy(f.col(_PART).desc())
    parted = frame.withColumn(_PART, f.spark_partition_id())
    counts = " OR ".join([f"{_RANK} = 1", *(f"{quote(name)} IS NULL" for name in key)])
    return parted.withColumn(_RANK, f.rank().over(last)).where(counts).drop(_PART, _RANK)
