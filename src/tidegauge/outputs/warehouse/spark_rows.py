"""Rows that only Spark can read, written once to Parquet on this machine so that an engine can load files."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.errors import OutputError
from tidegauge.model.batch_data import BatchRows, LakeFile
from tidegauge.model.spec import Lake
from tidegauge.spark import hadoop
from tidegauge.storage.parquet_split import ParquetSplit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@contextmanager
def ensure_splits(batch_data: BatchRows, spark: Callable[[], SparkSession]) -> Iterator[BatchRows]:
    """The batch itself where it has splits; else its rows in files, which are removed at the end.

    The files are in the order of Spark's partitions, as they were read. Raises OutputError, with a hint,
    where Spark does not run on this machine.
    """
    if batch_data.splits or batch_data.frame is None:
        yield batch_data
        return
    session = spark()
    if hadoop.is_scattered(session):
        raise OutputError(
            f"the rows of {batch_data.layout.table} can be read by Spark alone, and it runs on other"
            " machines",
            hint="use `spark: {master: local[*]}` for this sync, or load through a lake with `via:`",
        )
    top = Path(tempfile.mkdtemp(prefix="tidegauge-scratch-"))
    try:
        yield _write_frame(batch_data, batch_data.frame(session), Lake("scratch", str(top)))
    finally:
        shutil.rmtree(top, ignore_errors=True)


def _write_frame(batch_data: BatchRows, frame: DataFrame, lake: Lake) -> BatchRows:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        hadoop.configure_session(frame.sparkSession)
        frame.write.options(**hadoop.COMMIT).mode("error").parquet(hadoop.path_of(lake, "rows"))
    except (PySparkException, Py4JError) as error:
        clearer = hadoop.translate_hadoop_error(error, lake.path)
        if clearer is None:
            raise  # the frame's own failure, which only its maker can explain
        raise clearer from error
    files = tuple(_file(lake, path) for path in sorted((Path(lake.path) / "rows").glob("part-*.parquet")))
    kept = tuple(file for file in files if file.rows)
    splits = tuple(ParquetSplit(file, batch_data.layout) for file in kept)
    return replace(batch_data, files=kept, splits=splits, frame=None)


def _file(lake: Lake, path: Path) -> LakeFile:
    import pyarrow.parquet as pq

    rows = int(pq.read_metadata(path).num_rows)
    return LakeFile(lake, f"rows/{path.name}", rows, path.stat().st_size)
