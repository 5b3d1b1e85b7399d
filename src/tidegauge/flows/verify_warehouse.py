"""Source against a warehouse, key by key, without Spark wherever the source can be read without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from tidegauge.compare.frames import Difference
from tidegauge.compare.rows import compare_rows
from tidegauge.errors import OutputDisagrees
from tidegauge.flows.flow import open_reader
from tidegauge.model.arrow import schema_of
from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition, Window
from tidegauge.model.protocols.output import Output, TargetTable
from tidegauge.model.protocols.source import Source
from tidegauge.model.spec import NullCursor, TableFlow
from tidegauge.model.table import Field, SourceTable
from tidegauge.outputs.warehouse.fit import Verdict
from tidegauge.outputs.warehouse.spark_rows import ensure_splits
from tidegauge.plan.draft import start
from tidegauge.plan.drift import narrow
from tidegauge.sources.keys import keys

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def verify_warehouse(
    flow: TableFlow,
    source: Source,
    output: Output,
    position: RowPosition | None,
    spark: Callable[[], SparkSession],
) -> Difference:
    """What of the source up to a position is not in the target as it should be.

    Rows past the position, also those that went there while they are compared, are counted and not judged.
    Columns that the target does not have (`drift: freeze`) are not judged either. Rows from below the
    beginning (`initial`), which only a backfill brings, need not be there, and have to be right if they are.
    """
    table = output.capabilities.table
    assert table is not None
    columns = output.layout()
    held = {table.named(field.name): field for field in columns or ()}
    source_table = _narrow(source.describe(flow.table, flow.options), table, held)
    key = [part.name for part in source_table.key]

    def as_held(field: Field) -> Field:
        """As the target has it, where the source's column became another kind of thing since."""
        there = held.get(table.named(field.name))
        if there is None or table.fit(there, field, key=field.name in key) != Verdict.REFUSED:
            return field
        return replace(field, type=there.type)

    begin = start(flow, source_table, None)
    batches = [Batch((Window(begin, position),), empty=position is None)]
    if flow.options.null_cursor is NullCursor.INCLUDE:
        batches.append(Batch((Window(position, position),), nulls=True))
    reader = open_reader(flow)

    with ExitStack() as stack:

        def rows(batch: Batch) -> Iterator[pa.RecordBatch]:
            batch_data = stack.enter_context(ensure_splits(reader.batch_data(source_table, batch), spark))
            for split in batch_data.splits:
                yield from split.batches()

        below = Batch((Window(None, begin),))
        found = compare_rows(
            chain.from_iterable(map(rows, batches)),
            table.rows(replace(source_table.layout, fields=tuple(map(as_held, source_table.layout.fields)))),
            schema_of(source_table.layout),
            key=key,
            leave_out=keys(flow.source, source_table, after=position, ordered=True),
            allowed=partial(rows, below) if begin is not None and position is not None else None,
            versions=flow.options.mode.facts.only_adds,
        )
    if columns is None and found.equal:
        raise OutputDisagrees(
            f"{flow.name}: its target {output.place} is not there, and the ledger says that it was written",
            hint=f"`tidegauge sync -t {flow.table} --full-refresh` writes it anew",
        )
    return found


def _narrow(source_table: SourceTable, table: TargetTable, held: Mapping[str, Field]) -> SourceTable:
    """The table with the columns that the target has, and its key."""
    if not held:
        return source_table
    key = [part.name for part in source_table.key]
    return narrow(
        source_table,
        [one.name for one in source_table.columns if table.named(one.name) in held or one.name in key],
    )
