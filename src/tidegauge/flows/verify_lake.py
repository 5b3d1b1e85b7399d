"""Source against a lake, key by key, in Spark."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from tidegauge.compare.frames import Beside, Difference, compare
from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition, Window
from tidegauge.model.protocols.source import Source
from tidegauge.model.spec import LakeTable, NullCursor, TableFlow
from tidegauge.outputs.lake.table import latest
from tidegauge.plan.draft import start
from tidegauge.sources.direct import DirectReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def verify_lake(
    flow: TableFlow, source: Source, position: RowPosition | None, epoch: int, spark: SparkSession
) -> Difference:
    """What of the source up to a position is not in the lake as it should be; see `verify_warehouse`."""
    assert isinstance(flow.output, LakeTable)
    source_table = source.describe(flow.table, flow.options)
    reader = DirectReader(flow.source)
    key = [part.name for part in source_table.key]
    begin = start(flow, source_table, None)
    batches = [Batch((Window(begin, position),), empty=position is None)]
    if flow.options.null_cursor is NullCursor.INCLUDE:
        batches.append(Batch((Window(position, position),), nulls=True))
    rows = reduce(
        lambda one, other: one.unionAll(other), (reader.frame(spark, source_table, one) for one in batches)
    )
    target = latest(spark, flow.output.lake, flow.output.folder, key=key, epoch=epoch)
    waiting = reader.keys_after(spark, source_table, position)
    found = compare(rows, target, key=key, beside=Beside(waiting=waiting), hold=True)
    if not found.extra or begin is None or position is None:
        return found
    below = reader.frame(spark, source_table, Batch((Window(None, begin),)))
    return compare(rows, target, key=key, beside=Beside(waiting=waiting, allowed=below), hold=True)
