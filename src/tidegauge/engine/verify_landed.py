"""Source against a warehouse, key by key, without Spark wherever the source can be read without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tidegauge.engine.outside import open_reader
from tidegauge.maintain.compare import Difference
from tidegauge.maintain.compare_rows import compare_rows
from tidegauge.model.arrow import schema_of
from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition, Window
from tidegauge.model.protocols import Source
from tidegauge.model.spec import Flow, Mode, NullCursor
from tidegauge.plan.draft import start
from tidegauge.plan.drift import narrowed
from tidegauge.read.keys import keys
from tidegauge.write.warehouse.output import WarehouseOutput
from tidegauge.write.warehouse.scratch import landed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def verify_landed(
    flow: Flow,
    source: Source,
    output: WarehouseOutput,
    position: RowPosition,
    spark: Callable[[], SparkSession],
) -> Difference:
    """What of the source up to a position is not in the target as it should be.

    Rows that changed past the position, also while they are compared, are not judged. Columns that the target
    does not have (`drift: freeze`) are not either.
    """
    shape = source.shape(flow.table, flow.options)
    held = {output.named(field.name) for field in output.layout() or ()}
    key = [part.name for part in shape.key]
    if held:
        shape = narrowed(
            shape, [c.name for c in shape.columns if output.named(c.name) in held or c.name in key]
        )
    batches = [Batch((Window(start(flow, shape, None), position),))]
    if flow.options.null_cursor is NullCursor.INCLUDE:
        batches.append(Batch((Window(position, position),), nulls=True))
    reader = open_reader(flow)
    with ExitStack() as stack:
        cargoes = [stack.enter_context(landed(reader.cargo(shape, batch), spark)) for batch in batches]

        def rows() -> Iterator[pa.RecordBatch]:
            for cargo in cargoes:
                for stretch in cargo.stretches:
                    yield from stretch.batches()

        return compare_rows(
            rows(),
            output.rows(shape.layout),
            schema_of(shape.layout),
            key=key,
            leave_out=keys(flow.source, shape, after=position),
            versions=flow.options.mode is Mode.APPEND,
        )
