"""Tasks that read splits and bring them into a staging table, each over a connection of its own.

A task may be started twice: after a failure, or by speculation while the first still runs. So a sink commits
a task's rows in one transaction together with the task's mark, of which there can be only one: whichever
attempt comes second rolls back, and answers with the count of the first (hazard D3).

Tasks are Spark's or, where there is none yet and it would be on this machine, processes of ours. Of Spark,
only `range`, `mapInArrow` and `collect` are used, which Spark Connect has too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from tidegauge.errors import OutputError, OutputUnreachable
from tidegauge.model.batch_data import BatchRows, Split
from tidegauge.model.spec import TableName
from tidegauge.outputs.warehouse.warehouse import Warehouse, WarehouseColumn, WarehouseSession
from tidegauge.spark.on_demand import are_few, local_tasks_for, may_move_here
from tidegauge.spark.task_values import pickle_with_secrets, raise_any, try_work, unpickle_with_secrets

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_TASKS = 32
"""Tasks that splits are loaded by, and so connections at once, at most, however many executors there are."""
_TRIES = 3
_PAUSE = 0.5
_ANSWER = "task bigint, rows bigint, error string"

Parts = Iterable[tuple[int, Iterable["pa.RecordBatch"]]]
"""The Arrow batches of each split, with the split's ordinal."""


_MARKS = "_m"


def name_marks(stage: TableName) -> TableName:
    """The table that holds the marks of a staging table's tasks."""
    return TableName(stage.schema, f"{stage.table}{_MARKS}")


def make_marks(warehouse: Warehouse, session: WarehouseSession, stage: TableName) -> TableName:
    """Make the table of marks. Commits, so that tasks see it and the staging table."""
    marks = name_marks(stage)
    columns = [WarehouseColumn("task", "int", required=True), WarehouseColumn("rows", "bigint")]
    session.run(warehouse.create(marks, columns, key=["task"]))
    session.commit()
    return marks


def drop_with_marks(warehouse: Warehouse, session: WarehouseSession, table: TableName) -> None:
    """Drop a staging table with its table of marks. A helper of a staging table has no marks."""
    names = [warehouse.table(table)]
    if not table.table[-2:].startswith("_"):
        names.append(warehouse.table(name_marks(table)))
    session.run(f"DROP TABLE IF EXISTS {', '.join(names)}")


class Sink(Protocol):
    """Loads rows into one staging table, from wherever a task runs. Can be pickled."""

    def take(self, task: int, parts: Parts) -> int:
        """Load rows and commit them with the task's mark; returns how many the task has loaded, by this
        attempt or an earlier one. Raises our errors only."""


def read_few(batch_data: BatchRows, spark: Callable[[], SparkSession]) -> Parts | None:
    """The rows of a batch too small for tasks, for this process to load; None where tasks shall load it.

    Rows that were not counted before are read until there are too many.
    """
    if batch_data.splits and not may_move_here(spark):
        return None
    if (not batch_data.splits and batch_data.frame is not None) or not are_few(batch_data.rows or 0):
        return None
    if batch_data.rows is not None:
        return parts_of(batch_data.splits)
    held: list[tuple[int, list[pa.RecordBatch]]] = []
    rows = 0
    for ordinal, batches in parts_of(batch_data.splits):
        held.append((ordinal, []))
        for batch in batches:
            held[-1][1].append(batch)
            rows += batch.num_rows
            if not are_few(rows):
                return None
    return held


def parts_of(splits: Sequence[Split], first: int = 0) -> Iterator[tuple[int, Iterable[pa.RecordBatch]]]:
    for ordinal, split in enumerate(splits, first):
        yield ordinal, split.batches()


def bring(batch_data: BatchRows, sink: Sink, spark: Callable[[], SparkSession]) -> int:
    """Load every row of the batch by tasks; returns how many rows are in the staging table."""
    if batch_data.splits or batch_data.frame is None:
        splits = batch_data.splits
        size = -(-len(splits) // _TASKS)
        groups = [
            (first, pickle_with_secrets(tuple(splits[first : first + size])))
            for first in range(0, len(splits), size)
        ]
        local = local_tasks_for(spark)
        if local is not None:
            given = [(sink, task, *group) for task, group in enumerate(groups)]
            return sum(local.run(_take_with_retries, given))
        return _bring_splits(groups, sink, spark())
    return _bring_frame(batch_data, batch_data.frame(spark()), sink)


def _bring_splits(groups: Sequence[tuple[int, bytes]], sink: Sink, spark: SparkSession) -> int:

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                yield _answer(task, partial(_take_with_retries, sink, task, *groups[task]))

    frame = spark.range(0, len(groups), 1, len(groups)).mapInArrow(work, _ANSWER)
    return _count_rows(frame.collect(), len(groups))


def _bring_frame(batch_data: BatchRows, frame: DataFrame, sink: Sink) -> int:
    from tidegauge.model.arrow import schema_of

    schema = schema_of(batch_data.layout)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        task = context.partitionId()

        def fitted() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                columns = [
                    column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

        yield _answer(task, lambda: sink.take(task, [(task, fitted())]))
        for _ in batches:  # After an error, read to the end, so that Spark keeps no rows that nobody takes.
            pass

    return _count_rows(frame.mapInArrow(work, _ANSWER).collect(), None)


def _take_with_retries(sink: Sink, task: int, first: int, body: bytes) -> int:
    """Load a task's splits; retry after a lost connection. If that one had committed, its mark is found."""
    splits: tuple[Split, ...] = unpickle_with_secrets(body)
    for left in reversed(range(_TRIES)):
        try:
            return sink.take(task, parts_of(splits, first))
        except OutputUnreachable as error:
            if not left or not error.retryable:
                raise
        time.sleep(_PAUSE)
    raise AssertionError("unreachable")


def _answer(task: int, work: Callable[[], int]) -> pa.RecordBatch:
    """Do a task's work; its outcome as a row of `_ANSWER`."""
    import pyarrow as pa

    rows, failure = try_work(work)
    return pa.RecordBatch.from_pydict(
        {"task": [task], "rows": [rows or 0], "error": [failure]},
        schema=pa.schema([("task", pa.int64()), ("rows", pa.int64()), ("error", pa.string())]),
    )


def _count_rows(answers: Sequence[Any], expected: int | None) -> int:
    raise_any(answer["error"] for answer in answers)
    if expected is not None and {answer["task"] for answer in answers} != set(range(expected)):
        raise OutputError(f"{expected} tasks were started and {len(answers)} answered", retryable=True)
    return sum(int(answer["rows"]) for answer in answers)
