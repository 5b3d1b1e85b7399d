"""A source table and its target, up to a position: the two sides of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from tidegauge.compare.frames import Difference
from tidegauge.compare.rows import compare_rows, count_alike
from tidegauge.flows.verify.quarantine_filter import QuarantineFilter
from tidegauge.model.arrow import schema_of
from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition, Window
from tidegauge.model.protocols.output import Output, TargetTable
from tidegauge.model.protocols.source import Source
from tidegauge.model.spec import NullCursor, TableFlow
from tidegauge.model.table import EVERY_ROW, Field, SourceTable
from tidegauge.outputs.warehouse.fit import FitVerdict
from tidegauge.outputs.warehouse.spark_rows import ensure_splits
from tidegauge.plan.draft import find_window_start
from tidegauge.plan.drift import narrow
from tidegauge.sources.direct import DirectReader
from tidegauge.sources.keys import read_keys

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class PairFilter:
    """SQL of each side that is true for the rows to compare."""

    source: str
    target: str


class TablePair:
    """A source table and its target.

    Rows that an expectation sets aside count as if the source did not have them. Rows past the position, even
    those that got there during the comparison, are counted but not compared.

    Columns that the target does not have (`drift: freeze`) are not compared either. Rows below the beginning
    (`initial`), which only a backfill brings, may be missing in the target, but must be right if they exist.
    """

    def __init__(
        self,
        flow: TableFlow,
        source: Source,
        output: Output,
        position: RowPosition | None,
        spark: Callable[[], SparkSession],
    ) -> None:
        table = output.capabilities.table
        assert table is not None
        self.flow, self.table, self.sql = flow, table, output.capabilities.sql
        self.source = source
        position = EVERY_ROW if flow.options.snapshot else position
        self.position = position
        self.layout = output.layout()
        """The target's columns; None: the target does not exist."""
        self.held: Mapping[str, Field] = {table.named(field.name): field for field in self.layout or ()}
        self.described = source.describe(flow.table, flow.options)
        """The source table with all its columns."""
        # With expectations all columns are read: a check may need one that the target has lost.
        self.source_table = (
            self.described if flow.options.expect else _narrow(self.described, table, self.held)
        )
        self.key = [part.name for part in self.source_table.key]
        self.versions = flow.options.mode.facts.only_adds
        """Whether the target keeps every version of a row. Then only keys are compared."""
        self.begin = find_window_start(flow, self.source_table, None)
        self.batches = [Batch((Window(self.begin, position),), creates_output=position is None)]
        if flow.options.null_cursor is NullCursor.INCLUDE:
            self.batches.append(Batch((Window(position, position),), nulls=True))
        self.reader = DirectReader(flow.source)
        self._spark = spark

    def compare(self, only: PairFilter | None = None, *, name_all: bool = False) -> Difference:
        """Compare row by row. `name_all`: the result has every key that differs.

        `only`: compare just these rows.
        """
        source_table = replace(self.source_table, only=only.source) if only else self.source_table
        layout = self.source_table.layout
        held = replace(layout, fields=tuple(map(self._fit_to_target, layout.fields)))
        has_below = self.begin is not None and self.position is not None
        sieve = QuarantineFilter(self.flow.options.expect, layout, self.table)
        # Of a row that is set aside now, an earlier version may have passed and been appended.
        stays = self.versions and sieve.sets_aside
        with ExitStack() as stack:
            stack.callback(sieve.close)

            def rows(batch: Batch, *, passing: bool = True) -> Iterator[pa.RecordBatch]:
                batch_data = self.reader.batch_data(source_table, batch)
                found = stack.enter_context(ensure_splits(batch_data, self._spark))
                for split in found.splits:
                    for part in split.batches():
                        yield sieve.pick(part, passing=passing)

            def may_be_there() -> Iterator[pa.RecordBatch]:
                if has_below:
                    yield from rows(Batch((Window(None, self.begin),)))
                if stays:
                    for batch in self.batches:
                        yield from rows(batch, passing=False)

            if not self.key:
                return count_alike(
                    chain.from_iterable(map(rows, self.batches)), self.table.rows(held), schema_of(layout)
                )
            return compare_rows(
                chain.from_iterable(map(rows, self.batches)),
                self.table.rows(held, only=only.target if only else ""),
                schema_of(layout),
                key=self.key,
                leave_out=read_keys(self.flow.source, self.source_table, after=self.position, ordered=True),
                allowed=may_be_there if has_below or stays else None,
                versions=self.versions,
                name_all=name_all,
            )

    def _fit_to_target(self, field: Field) -> Field:
        """The field with the target's type, if the target cannot hold the source's present type at all."""
        there = self.held.get(self.table.named(field.name))
        if there is None or self.table.fit(there, field, key=field.name in self.key) != FitVerdict.REFUSED:
            return field
        return replace(field, type=there.type)


def _narrow(source_table: SourceTable, table: TargetTable, held: Mapping[str, Field]) -> SourceTable:
    """The source table with just its key and the columns that the target has."""
    if not held:
        return source_table
    key = [part.name for part in source_table.key]
    return narrow(
        source_table,
        [one.name for one in source_table.columns if table.named(one.name) in held or one.name in key],
    )
