"""A Delta table as the output of a database table's flow: rows and tag are one commit of its log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tidegauge.errors import KeyUnsuitable, OutputDisagrees, OutputError, SparkFailed, TransformFailed
from tidegauge.model.arrow import schema_of
from tidegauge.model.batch_data import BatchData, BatchRows, DeltaBatch, DeltaChange, KeysToDelete
from tidegauge.model.delta_flow import CHANGE_TYPE, DELETE, DeltaFlow, DeltaTable, TableRef
from tidegauge.model.expectation import CheckCount
from tidegauge.model.mode import OutputKind
from tidegauge.model.plan import Batch, Plan, Receipt, Tag
from tidegauge.model.protocols.output import Capabilities
from tidegauge.model.spec import DeltaFolder, TableFlow
from tidegauge.model.staged import Staged
from tidegauge.model.table import Field, Layout
from tidegauge.model.types import quote
from tidegauge.outputs.delta.epochs import EpochState
from tidegauge.outputs.delta.output import DeltaOutput
from tidegauge.outputs.delta.pending import PendingChange
from tidegauge.outputs.delta.synced_checks import SyncedQuarantine, begin_anew, checked_change
from tidegauge.outputs.delta.synced_rows import frame_of, read_few
from tidegauge.outputs.delta.target import target_of
from tidegauge.outputs.delta.types import can_widen, fits
from tidegauge.outputs.delta.written_columns import written_columns
from tidegauge.outputs.warehouse.fit import FitVerdict
from tidegauge.outputs.warehouse.spark_rows import ensure_splits
from tidegauge.spark.errors import from_spark
from tidegauge.spark.hadoop import is_scattered
from tidegauge.spark.on_demand import may_move_here

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_LEAVE_ROWS = frozenset(
    {"SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "ADD COLUMNS", "CHANGE COLUMN", "CHANGE COLUMNS", "OPTIMIZE"}
    | {"VACUUM START", "VACUUM END", "DROP COLUMNS", "RENAME COLUMN", "UPGRADE PROTOCOL", "CREATE TABLE"}
)
"""Delta's names of operations that change no row."""

CountRepeated = Callable[
    [DeltaFlow, "DataFrame", "DataFrame | None", "DataFrame | None"], tuple[CheckCount, ...]
]
"""Runs a flow's `unique` checks on rows that are about to be written, beside those that are there."""
OwnSession = Callable[[], AbstractContextManager["SparkSession"]]


def target_flow(flow: TableFlow, key: tuple[str, ...] = ()) -> DeltaFlow:
    """The flow as a DeltaFlow without inputs, which is what DeltaOutput takes."""
    assert isinstance(flow.output, DeltaFolder)
    options = flow.options
    table = TableRef(path=str(flow.output), storage=flow.output.lake)
    output = DeltaTable(
        table,
        options.mode,
        key,
        giver="the source",
        deletion_vectors=options.deletion_vectors,
        place=options.place,
    )
    return DeltaFlow(
        flow.pipeline, flow.name, (), output, drift=options.drift, tags=flow.tags, expect=options.expect
    )


class SyncedDeltaOutput(DeltaOutput):
    """`model.protocols.output.Output` and `TargetTable` for a TableFlow whose output is a DeltaFolder.

    The key of its rows is not known before the first batch. `own_session`: opens a session to read the target
    with. `count_repeated`: needed for a flow that expects values to be unique.
    """

    refuses_lost = False
    """`flows.verify.lost_columns` looks for them as a sync is planned: a backfill of one may add it."""

    def __init__(
        self,
        flow: TableFlow,
        *,
        plan: Plan | None = None,
        own_session: OwnSession | None = None,
        count_repeated: CountRepeated | None = None,
    ) -> None:
        super().__init__(target_flow(flow), locate=lambda: str(flow.output), plan=plan)
        if not flow.options.mode.facts.only_adds:
            beside = self._delta_flow.output.table.quarantine.path
            self._quarantine = SyncedQuarantine(self._delta_flow, lambda: beside)
            self._quarantine.every_time = flow.options.snapshot
        self._flow = flow
        self._own_session = own_session
        self._count_repeated = count_repeated

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(table=self)

    def is_open(self, epoch: int, *, kept: bool = False) -> bool:
        """`kept`: as `Output` promises, as far as the log alone tells."""
        now = self._read_standing()
        if kept and now is not None and now.look is not None and now.ours and now.look.is_empty():
            made_it = (one for one in now.look.commits() if one.info.get("operation") not in _LEAVE_ROWS)
            last = next(made_it, None)
            if last is not None and last.note is None:
                raise OutputDisagrees(
                    f"{self.place} was emptied by something else ({last.info.get('operation')}, version"
                    f" {last.version})",
                    hint="RESTORE it to the version before, or fill it again with `tidegauge run --select"
                    f" {self._flow.refresh_name} --full-refresh`",
                )
        return super().is_open(epoch, kept=kept)

    def stage(self, batch_data: BatchData, spark: Callable[[], SparkSession]) -> Staged:
        assert isinstance(batch_data, BatchRows)
        layout, mode = batch_data.layout, self._flow.options.mode
        if mode.needs_key(OutputKind.DELTA) and not layout.key:
            raise KeyUnsuitable(
                f"{layout.table} has no key, and mode {mode} needs one", hint="name one with `key:`"
            )
        key = layout.key if mode.needs_key(OutputKind.DELTA) else ()
        self._delta_flow = target_flow(self._flow, key)
        checked = batch_data.checked
        gone = isinstance(batch_data, KeysToDelete)
        assert gone or bool(checked) is bool(self._flow.options.expect)
        brought = checked.rows if checked else batch_data
        held = read_few(brought, key) if may_move_here(spark) else None

        def change(session: SparkSession, target: Callable[[], DataFrame] | None) -> DeltaChange:
            rows = frame_of(session, brought, held, key)
            if checked is not None:
                repeated = partial(self._count_repeated_rows, target)
                return checked_change(self._flow.name, checked, rows, key, repeated)
            return DeltaChange(self._make_deletes(rows, target) if gone else rows)

        staged = super().stage(DeltaBatch(layout, batch_data.rows, change=change), spark)
        return replace(staged, rows=held.num_rows if held is not None else 0)

    def _commit(self, now: EpochState, pending: PendingChange, tag: Tag, batch: Batch, run_id: str) -> None:
        opening = now.marker
        if opening is not None and opening.emptied == tag.epoch and tag.epoch and tag.seq == 1:
            pending.change = begin_anew(pending.change)
        super()._commit(now, pending, tag, batch, run_id)

    def _count_repeated_rows(
        self, target: Callable[[], DataFrame] | None, rows: DataFrame
    ) -> tuple[CheckCount, ...]:
        assert self._count_repeated is not None, "a flow that checks rows is opened with it"
        return self._count_repeated(self._delta_flow, rows, target() if target else None, None)

    def commit(self, tag: Tag, batch: Batch, staged: Staged, *, layout: Layout, run_id: str) -> Receipt:
        try:
            return super().commit(tag, batch, staged, layout=layout, run_id=run_id)
        except (SparkFailed, TransformFailed) as error:
            if error.__cause__ is None:
                raise
            raise from_spark(error.__cause__, self.place) from error

    def _make_deletes(self, keys: DataFrame, target: Callable[[], DataFrame] | None) -> DataFrame:
        """The keys as deletes, with NULL in the other columns that the flow has written."""
        from pyspark.sql import functions as f

        there = {field.name.casefold() for field in keys.schema.fields}
        ours = {name.casefold() for name in self.written()} - there
        others = [one for one in target().schema.fields if one.name.casefold() in ours] if target else []
        nulls = (f.lit(None).cast(one.dataType).alias(one.name) for one in others)
        return keys.select("*", *nulls, f.lit(DELETE).alias(CHANGE_TYPE))

    # The target as a table: `model.protocols.output.TargetTable`

    @property
    def loose_keys(self) -> bool:
        return False

    def named(self, name: str) -> str:
        return name.casefold()

    def written(self) -> frozenset[str]:
        """As `TargetTable` promises; in a table that only grows also all columns that it has, since none is
        ever set to NULL."""
        now = self._read_standing()
        if now is None or now.look is None:
            return frozenset()
        target = target_of(now.look)
        found = frozenset(written_columns(target, self._delta_flow.output))
        if self._flow.options.mode.facts.only_adds:
            return found.union(column.name for column in target.columns)
        return found

    def fit(self, held: Field, field: Field, *, key: bool) -> str:  # noqa: ARG002
        if fits(held.type, field.type):
            return FitVerdict.HOLDS.value
        return (FitVerdict.WIDEN if can_widen(field.type, held.type) else FitVerdict.REFUSED).value

    def count(self) -> int:
        if self.layout() is None:
            return 0
        with self._session() as session:
            return self._read_frame(session).count()

    def rows(self, layout: Layout, *, only: str = "") -> Iterator[pa.RecordBatch]:
        held = {self.named(field.name): field.name for field in self.layout() or ()}
        fields = tuple(field for field in layout.fields if self.named(field.name) in held)
        if not held or not fields:
            return
        there = replace(layout, fields=fields)
        with self._session() as session:
            names = [f"{quote(held[self.named(one.name)])} AS {quote(one.name)}" for one in fields]
            frame = self._read_frame(session).where(only or "true").selectExpr(*names)
            if is_scattered(session):
                yield from frame.toArrow().cast(schema_of(there)).to_batches()
                return
            with ensure_splits(BatchRows(there, frame=lambda _: frame), lambda: session) as found:
                for split in found.splits:
                    yield from split.batches()

    def find_aside(self, checks: Collection[str]) -> Iterator[str]:  # noqa: ARG002
        """Nothing: this is asked for foreign keys only, and a sync into Delta tables checks none."""
        return iter(())

    def _session(self) -> AbstractContextManager[SparkSession]:
        if self._own_session is None:
            raise OutputError(f"{self.place} can be read by Spark alone, and there is none here")
        return self._own_session()

    def _read_frame(self, session: SparkSession) -> DataFrame:
        return session.read.format("delta").load(self.place)
