"""Compare a source with a warehouse, without Spark wherever the source can be read without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegauge.compare.frames import Difference
from tidegauge.errors import OutputDisagrees
from tidegauge.flows.verify.blocks import compare_by_blocks
from tidegauge.flows.verify.lost_columns import mark_lost_columns
from tidegauge.flows.verify.table_pair import TablePair
from tidegauge.model.position import RowPosition
from tidegauge.model.protocols.output import Output
from tidegauge.model.protocols.source import Source
from tidegauge.model.spec import TableFlow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def verify_warehouse(
    flow: TableFlow,
    source: Source,
    output: Output,
    position: RowPosition | None,
    spark: Callable[[], SparkSession],
    *,
    known: str | None = None,
) -> Difference:
    """Compare the source with the target, up to a position: see `TablePair`.

    `known`: see `mark_lost_columns`. Raises OutputDisagrees if the target does not exist.
    """
    pair = TablePair(flow, source, output, position, spark)
    found = compare_pair(pair, name_all=False)
    if pair.layout is None and found.equal:
        raise OutputDisagrees(
            f"{flow.name}: its target {output.place} is not there, and the ledger says that it was written",
            hint=f"`tidegauge sync -t {flow.table} --full-refresh` writes it anew",
        )
    return mark_lost_columns(pair, found, known=known)


def compare_pair(pair: TablePair, *, name_all: bool) -> Difference:
    """Compare by hashes of blocks if both sides can compute them, else row by row; the result says which.

    `name_all`: the result has every key that differs.
    """
    found = compare_by_blocks(pair)
    if isinstance(found, Difference):
        return found
    return replace(pair.compare(name_all=name_all), why_rows=found or None)
