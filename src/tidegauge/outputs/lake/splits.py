"""Writes splits to Parquet files, by tasks that each read their split and write its file themselves.

Each try of a task writes a file with a name of its own, so that a task that is repeated, or runs twice at
once, never shares a file with another try; only the file that the task's answer names counts. Tasks run in
Spark or, while no Spark runs and it would be on this machine, in processes of ours. Few rows are not worth
a task: this process reads and writes them itself, in the same way.

Of Spark, only `range`, `mapInArrow` and `collect` are used, which Spark Connect has too.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.errors import OutputDisagrees
from tidegauge.model.arrow import schema_of
from tidegauge.model.batch_data import BatchRows, Split
from tidegauge.model.spec import Lake
from tidegauge.model.staged import DataFile
from tidegauge.spark.on_demand import are_few, local_tasks_for, may_move_here
from tidegauge.spark.task_values import pickle_with_secrets, raise_any, try_work, unpickle_with_secrets
from tidegauge.storage.local import sync_path, translate_os_error
from tidegauge.storage.store import open_store

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

GROUP_ROWS = 262_144
_GROUP_BYTES = 64 * 2**20
"""Rows, and bytes, that are held in memory before a row group is written, whichever is reached first."""
_THREADS = 4
_ANSWER = "split bigint, path string, rows bigint, bytes bigint, error string"


def write_splits(
    lake: Lake, attempt: str, batch_data: BatchRows, spark: Callable[[], SparkSession]
) -> tuple[DataFile, ...]:
    """Write one file for each split that has rows, below `attempt`. Their names sort in the order of the
    splits.

    The files are durable when this returns; paths are relative to the lake's. Spark is only started where the
    rows are many, or not counted, and no other tasks are at hand.
    """
    if are_few(batch_data.rows) and may_move_here(spark):
        return write_here(lake, attempt, batch_data)
    if (local := local_tasks_for(spark)) is not None:
        layout = BatchRows(batch_data.layout)
        written = local.run(
            _write, [(lake, attempt, number, layout, split) for number, split in enumerate(batch_data.splits)]
        )
    else:
        written = _by_tasks(lake, attempt, batch_data, spark())
    _check(lake, attempt, written)
    return tuple(file for file in written if file.rows)


def write_here(
    lake: Lake, attempt: str, batch_data: BatchRows, *, group_rows: int = GROUP_ROWS
) -> tuple[DataFile, ...]:
    """As `write_splits`, but always by this process; `group_rows`: the most rows in a row group."""
    # `_check` makes all files durable together.
    write = partial(_write, lake, attempt, group_rows=group_rows, durable=False)
    given = [(number, batch_data, split) for number, split in enumerate(batch_data.splits)]
    if len(given) == 1:
        written = [write(*given[0])]
    else:
        with ThreadPoolExecutor(min(_THREADS, len(given))) as pool:
            tries = [pool.submit(write, *one) for one in given]
            written = [one.result() for one in tries]
    _check(lake, attempt, written)
    return tuple(file for file in written if file.rows)


def _by_tasks(lake: Lake, attempt: str, batch_data: BatchRows, spark: SparkSession) -> list[DataFile]:
    count = len(batch_data.splits)
    layout = BatchRows(batch_data.layout)
    bodies = [pickle_with_secrets((lake, layout, split)) for split in batch_data.splits]

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _answer_task(attempt, number, bodies[number])

    answers = spark.range(0, count, 1, count).mapInArrow(work, _ANSWER).collect()
    raise_any(answer["error"] for answer in answers)
    found = {int(one["split"]): DataFile(one["path"], int(one["rows"]), int(one["bytes"])) for one in answers}
    if len(answers) != count or set(found) != set(range(count)):
        raise OutputDisagrees(
            f"{count} tasks were to write to {attempt}, and Spark has answers of {len(answers)}",
            hint="run again: the same window is read once more",
        )
    return [found[number] for number in range(count)]


def _answer_task(attempt: str, number: int, body: bytes) -> pa.RecordBatch:
    """Do a task's work, and return its answer as one row."""
    import pyarrow as pa

    def work() -> DataFile:
        lake, layout, split = unpickle_with_secrets(body)
        return _write(lake, attempt, number, layout, split)

    done, failure = try_work(work)
    file = done or DataFile("", 0, 0)
    return pa.RecordBatch.from_pydict(
        {
            "split": [number],
            "path": [file.path],
            "rows": [file.rows],
            "bytes": [file.bytes],
            "error": [failure],
        },
        schema=pa.schema(
            [
                ("split", pa.int64()),
                ("path", pa.string()),
                ("rows", pa.int64()),
                ("bytes", pa.int64()),
                ("error", pa.string()),
            ]
        ),
    )


def _write(
    lake: Lake,
    attempt: str,
    number: int,
    batch_data: BatchRows,
    split: Split,
    *,
    group_rows: int = GROUP_ROWS,
    durable: bool = True,
) -> DataFile:
    """Write one split to one file of its own. If it fails, or has no rows, no file is left. `durable`: sync a
    local file."""
    path = f"{attempt}/part-{number:05d}-{uuid.uuid4().hex[:12]}.parquet"
    if lake.on_s3:
        with tempfile.NamedTemporaryFile(prefix="tidegauge-", suffix=".parquet") as local:
            rows = _fill(Path(local.name), batch_data, split, group_rows)
            size = Path(local.name).stat().st_size
            if rows:
                open_store(lake).upload(path, Path(local.name))  # type: ignore[attr-defined]
        return DataFile(path, rows, size)
    target = Path(lake.path, path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            rows = _fill(target, batch_data, split, group_rows)
            size = target.stat().st_size
            if rows and durable:
                sync_path(target)
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        if not rows:
            target.unlink()
    except OSError as error:
        raise translate_os_error(error, Path(lake.path, attempt)) from error
    return DataFile(path, rows, size)


def _fill(target: Path, batch_data: BatchRows, split: Split, group_rows: int) -> int:
    """Write a split's rows to a file, with the types that Spark would write, and return how many there are.

    Only text gets a dictionary, which costs more time than all the rest: text repeats, numbers seldom do.
    Zstandard at its lowest level takes a tenth more time than Snappy, and makes files half as large.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = schema_of(batch_data.layout)
    rows = 0
    with pq.ParquetWriter(
        target,
        schema,
        compression="zstd",
        compression_level=1,
        store_schema=False,
        store_decimal_as_integer=True,
        use_dictionary=[field.name for field in schema if pa.types.is_string(field.type)],
    ) as writer:
        held: list[pa.RecordBatch] = []
        held_rows = held_bytes = 0
        for batch in split.batches():
            held.append(batch)
            rows += batch.num_rows
            held_rows, held_bytes = held_rows + batch.num_rows, held_bytes + batch.nbytes
            if held_rows >= group_rows or held_bytes >= _GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(held, schema), row_group_size=group_rows)
                held, held_rows, held_bytes = [], 0, 0
        if held:
            writer.write_table(pa.Table.from_batches(held, schema), row_group_size=group_rows)
    return rows


def _check(lake: Lake, attempt: str, written: Sequence[DataFile]) -> None:
    """Check that this process sees the whole files, make them durable, and delete the files of other tries.
    Raises OutputDisagrees where a file is missing."""
    kept = [file for file in written if file.rows]
    if not kept:
        return
    store = open_store(lake)
    there = {entry.path: entry.bytes for entry in store.list(attempt)}
    lacking = [file.path for file in kept if there.get(file.path) != file.bytes]
    if lacking:
        raise OutputDisagrees(
            f"{lacking[0]} was written by a task, and is not in {store.place}",
            hint="a local path needs every executor on this machine; else use a shared mount or s3a://",
        )
    store.sync([file.path for file in kept])
    # Files of tries that were given up. A try that still writes leaves its file to `files clean`.
    rest = sorted(set(there) - {file.path for file in kept})
    store.delete(rest, below=attempt)
