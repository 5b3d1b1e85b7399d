"""Makes splits one lazy frame: each task reads its split by itself.

Only `range` and `mapInArrow` are used, which Spark Connect has too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tidegauge.model.batch_data import Split
from tidegauge.model.table import Layout
from tidegauge.model.types import quote
from tidegauge.spark.task_values import FAILED, pickle_with_secrets, try_work, unpickle_with_secrets

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def frame_of_splits(session: SparkSession, layout: Layout, splits: Sequence[Split]) -> DataFrame:
    """A lazy frame over splits. An error of a split fails the job that reads the frame; `spark.errors` turns
    it back into that error."""
    bodies = [pickle_with_secrets(split) for split in splits]

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from _read(unpickle_with_secrets(bodies[number]))

    count = len(bodies)
    return session.range(0, count, 1, count).mapInArrow(work, spark_schema(session, layout))


def spark_schema(session: SparkSession, layout: Layout) -> Any:
    nulls = [f"CAST(NULL AS {field.type}) AS {quote(field.name)}" for field in layout.fields]
    return session.sql(f"SELECT {', '.join(nulls)} WHERE false").schema


def _read(split: Split) -> Iterator[pa.RecordBatch]:
    """Read a split inside a Spark task, from which errors only come out as text."""
    batches = iter(split.batches())
    while True:
        batch, failure = try_work(lambda: next(batches, None))
        if failure is not None:
            raise RuntimeError(f"{FAILED}{json.dumps(json.loads(failure))}")
        if batch is None:
            return
        yield batch
