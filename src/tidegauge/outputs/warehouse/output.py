"""One table's place in a warehouse: staged rows, and one transaction for rows and tag."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from tidegauge.errors import TidegaugeError
from tidegauge.model.batch_data import BatchData, BatchRows, RowsQuery, TruncateTarget
from tidegauge.model.engines import FACTS
from tidegauge.model.plan import Batch, Receipt, Tag
from tidegauge.model.protocols.output import Capabilities
from tidegauge.model.spec import TableFlow, TableName, WarehouseTable
from tidegauge.model.staged import Staged
from tidegauge.model.table import Field, Layout
from tidegauge.outputs.warehouse import inside, staging, target_rows
from tidegauge.outputs.warehouse.commit_batch import StagedBatch, commit_batch
from tidegauge.outputs.warehouse.fit import FitVerdict
from tidegauge.outputs.warehouse.flow_target import FlowTarget
from tidegauge.outputs.warehouse.heads import Head
from tidegauge.outputs.warehouse.open import open_warehouse
from tidegauge.outputs.warehouse.quarantine import REASONS, ROW_COLUMN
from tidegauge.outputs.warehouse.stage_batch import stage_rows
from tidegauge.outputs.warehouse.target_sql import TargetSql, shown_where
from tidegauge.outputs.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


class WarehouseOutput:
    """`model.protocols.output.Output` and `TargetTable` for a flow whose output is a WarehouseTable.

    Why no writer of an older epoch can advance: see `commits`.
    """

    def __init__(self, flow: TableFlow, *, warehouse: Warehouse | None = None) -> None:
        assert isinstance(flow.output, WarehouseTable)
        self.target = FlowTarget(flow, warehouse or open_warehouse(flow.output.warehouse))

    @property
    def place(self) -> str:
        return self.target.place

    @property
    def capabilities(self) -> Capabilities:
        readable = FACTS[self.target.warehouse.database.engine].readable
        return Capabilities(
            takes_tasks=self.target.warehouse.takes_tasks,
            table=self,
            sql=TargetSql(self.target),
            inside=self if readable else None,
        )

    def prepare(self) -> None:
        self.target.prepare()

    def is_empty(self) -> bool:
        target = self.target
        if not target.warehouse.is_there():
            return True
        with target.session() as session:
            if target.commits.is_there(session) and target.commits.any_batch(session):
                return False
            columns = target.warehouse.columns(session, target.table)
            return columns is None or not target.check.is_filled(session)

    def is_open(self, epoch: int, *, kept: bool = False) -> bool:
        target = self.target
        if not target.warehouse.is_there():
            return epoch == 0
        with target.session() as session:
            heads = target.commits.heads(session) if target.commits.is_there(session) else ()
            if kept:
                target.check.check(session, heads, epoch)
        head = next((head for head in heads if head.epoch == epoch), None)
        return not head.closed if head else epoch == 0 and not heads

    def open_epoch(
        self,
        pipeline: str,
        flow: str,
        epoch: int,
        continues: tuple[int, int] | None,
        reason: str,
        *,
        empty: bool = False,
    ) -> None:
        """As the protocol promises. `empty`: the rows that are there go with the first batch, not now."""
        target = self.target
        assert (pipeline, flow) == (target.pipeline, target.flow)
        target.prepare()
        with target.session() as session:
            target.commits.open(
                session, Head(epoch, 0, closed=False, continues=continues, reason=reason, empties=empty)
            )
            session.commit()
            target.pending = target.check.pending(session) is not None

    def shows_earlier_rows(self, epoch: int) -> bool:
        target = self.target
        if not target.warehouse.is_there():
            return False
        with target.session() as session:
            if target.check.pending(session, epoch) is None:
                return False
            columns = target.warehouse.columns(session, target.table)
            return columns is not None and target.check.is_filled(session)

    def lacks(self, continues: tuple[int, int]) -> str | None:
        target, nothing = self.target, f"epoch {continues[0]}" if any(continues) else None
        if not target.warehouse.is_there():
            return nothing
        with target.session() as session:
            return (
                target.commits.find_gap(session, continues) if target.commits.is_there(session) else nothing
            )

    def receipt(self, tag: Tag, *, like: Batch | None = None) -> Receipt | None:
        if not self.target.warehouse.is_there():
            return None
        with self.target.session() as session:
            return self.target.receipt(session, tag, like)

    def layout(self) -> tuple[Field, ...] | None:
        target = self.target
        if not target.warehouse.is_there():
            return None
        with target.session() as session:
            held = target.warehouse.columns(session, target.table)
            if held is None or (target.check.pending(session) and target.check.is_of_another_mode(session)):
                return None
        return tuple(field for field in held if field.name not in target.our_columns)

    def stage(self, batch_data: BatchData, spark: Callable[[], SparkSession]) -> Staged:
        match batch_data:
            case TruncateTarget():
                return Staged(rows=0)
            case BatchRows():
                return stage_rows(self.target, batch_data, spark)
            case _:
                raise AssertionError(f"a warehouse takes no {type(batch_data).__name__}")

    def commit(self, tag: Tag, batch: Batch, staged: Staged, *, layout: Layout, run_id: str) -> Receipt:
        return commit_batch(self.target, StagedBatch(tag, batch, staged, layout, run_id))

    def discard(self, staged: Staged) -> None:
        target = self.target
        if not staged.table or staged.table == target.dropped:
            return
        with suppress(TidegaugeError), target.session() as session:
            staging.drop(target.warehouse, session, TableName(target.table.schema, staged.table))

    def check_readable(self, rows: RowsQuery) -> None:
        with self.target.session() as session:
            inside.check_readable(self.target.warehouse, session, rows)

    # The target as a table: `model.protocols.output.TargetTable`

    @property
    def loose_keys(self) -> bool:
        target = self.target
        if not target.warehouse.loose_keys:
            return False
        with target.session() as session:
            return target.warehouse.is_loose(session, target.table)

    def named(self, name: str) -> str:
        return self.target.named(name)

    def written(self) -> frozenset[str]:
        target = self.target
        if not target.warehouse.is_there():
            return frozenset()
        with target.session() as session:
            if not target.commits.keeps_written(session):
                return frozenset()
            return target.commits.find_written(session)

    def fit(self, held: Field, field: Field, *, key: bool) -> str:
        found = self.target.warehouse.fit(held, field, key=key)
        if found.verdict is FitVerdict.WIDEN and found.type.casefold() == held.source_type.casefold():
            return FitVerdict.HOLDS.value
        return found.verdict.value

    def count(self) -> int:
        target = self.target
        if not target.warehouse.is_there():
            return 0
        with target.session() as session:
            if target.warehouse.columns(session, target.table) is None:
                return 0
            ((rows,),) = session.rows(f"SELECT COUNT(*) FROM {target.warehouse.table(target.table)}")
            return int(rows)

    def find_aside(self, checks: Collection[str]) -> Iterator[str]:
        target = self.target
        with target.session() as session:
            if target.quarantine.is_there(session):
                for row, why in target.quarantine.select(session, ROW_COLUMN, REASONS):
                    if not {*checks}.isdisjoint(json.loads(why)):
                        yield str(row)

    def rows(
        self, layout: Layout, *, only: str = "", block: int = target_rows.BLOCK
    ) -> Iterator[pa.RecordBatch]:
        """As the protocol promises. To read only keys, give a layout of the key columns. Each block is read
        in a transaction of its own."""
        target, warehouse = self.target, self.target.warehouse
        with target.session() as session:
            held = warehouse.columns(session, target.table) or ()
        there = frozenset(self.named(field.name) for field in held)
        if not there:
            return
        where = [part for part in (shown_where(target, there), only) if part]
        fields = [field for field in layout.fields if self.named(field.name) in there]
        yield from target_rows.read(
            warehouse, target.session, target.table, fields, key=layout.key, where=where, block=block
        )
