"""Compare a source with a lake, key by key, in Spark."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from tidegauge.compare.frames import Difference, KeyExceptions, compare_frames
from tidegauge.compare.whole_rows import compare_whole
from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition, Window
from tidegauge.model.protocols.source import Source
from tidegauge.model.spec import LakeTable, NullCursor, TableFlow
from tidegauge.model.table import EVERY_ROW
from tidegauge.outputs.lake.table import SEQ, latest, load_committed, number_manifests, versions
from tidegauge.plan.draft import find_window_start
from tidegauge.sources.direct import DirectReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def verify_lake(
    flow: TableFlow, source: Source, position: RowPosition | None, epoch: int, spark: SparkSession
) -> Difference:
    """Compare the source with the lake, up to a position."""
    assert isinstance(flow.output, LakeTable)
    position = EVERY_ROW if flow.options.snapshot else position
    source_table = source.describe(flow.table, flow.options)
    reader = DirectReader(flow.source)
    key = [part.name for part in source_table.key]
    begin = find_window_start(flow, source_table, None)
    batches = [Batch((Window(begin, position),), creates_output=position is None)]
    if flow.options.null_cursor is NullCursor.INCLUDE:
        batches.append(Batch((Window(position, position),), nulls=True))
    rows = reduce(
        lambda one, other: one.unionAll(other), (reader.frame(spark, source_table, one) for one in batches)
    )
    target = _newest(flow.output, spark, key, epoch, copies=flow.options.snapshot)
    if not key:
        return compare_whole(rows, target)
    waiting = reader.keys_after(spark, source_table, position)
    found = compare_frames(rows, target, key=key, beside=KeyExceptions(waiting=waiting), hold=True)
    if not found.extra or begin is None or position is None:
        return found
    below = reader.frame(spark, source_table, Batch((Window(None, begin),)))
    return compare_frames(
        rows, target, key=key, beside=KeyExceptions(waiting=waiting, allowed=below), hold=True
    )


def _newest(table: LakeTable, spark: SparkSession, key: list[str], epoch: int, *, copies: bool) -> DataFrame:
    """The newest version of each row; without a key all rows. `copies`: the rows of the last copy."""
    if key and not copies:
        return latest(spark, table.lake, table.folder, key=key, epoch=epoch)
    rows = versions(spark, table.lake, table.folder, epoch=epoch)
    if copies:
        last, _ = number_manifests(load_committed(table.lake, table.folder, epoch=epoch))[-1]
        rows = rows.where(f"{SEQ} = {last}")
    return rows.drop(SEQ)
