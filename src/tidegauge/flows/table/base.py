"""What the three kinds of flow of a database table have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from tidegauge.compare.frames import Difference
from tidegauge.errors import NotCompared
from tidegauge.flows.agreement import check_agreement
from tidegauge.flows.flow import FlowResources, PlannedWork
from tidegauge.flows.recall import RecalledFlow
from tidegauge.flows.table.deletes import DeletedRows
from tidegauge.flows.table.repaired_rows import RepairedRows
from tidegauge.flows.verify.lost_columns import refuse_lost_columns
from tidegauge.flows.verify.warehouse import verify_warehouse
from tidegauge.model.batch_data import BatchData, ReadBatch
from tidegauge.model.plan import Batch, Draft, Plan
from tidegauge.model.position import RowPosition
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.protocols.output import Output
from tidegauge.model.protocols.source import Source
from tidegauge.model.spec import Execution, TableFlow
from tidegauge.model.table import Layout
from tidegauge.model.watermark import Recalled, Watermark
from tidegauge.outputs.recall import RecalledEpoch, recall
from tidegauge.plan.draft import is_whole
from tidegauge.spark.on_demand import are_few
from tidegauge.transform.mark import mark_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class NewRows:
    """What is new in the source of a table's flow."""

    draft: Draft
    read_batch: ReadBatch
    changes: tuple[str, ...] = ()
    through_jvm: bool = False
    unlike: pa.Table | None = None
    """The keys that a comparison found, for the batch that writes their rows; None: there was none."""
    may_have_more: bool = True
    """Whether the output may have rows that the source does not have."""


class TableFlowBase(ABC):
    """Implements `flows.flow.Flow`, except for where the rows come from."""

    def __init__(self, spec: TableFlow, resources: FlowResources) -> None:
        self.spec = spec
        self._resources = resources
        self.output = self._open_output()
        self.mark = resources.mark(spec.name)
        self.upstream = resources.mark(spec.upstream)
        """The watermark of the flow whose output this one reads; None: there is none, or it has no
        watermark yet."""
        self.target_checked = False

    @abstractmethod
    def find_new(self, *, limit: int | None, confirm_deletes: bool, refreshing: bool) -> NewRows:
        """Plan what is new. `refreshing`: a full refresh was begun; its first batch empties the output."""

    @abstractmethod
    def find_again(self, plan: Plan) -> NewRows:
        """Read the rows of a frozen plan again."""

    @abstractmethod
    def check_source(self) -> None:
        """See `Flow.check_source`."""

    fingerprint: ClassVar[None] = None

    def check_transform(self) -> tuple[str, ...]:
        """Nothing to check: rows are written as they are."""
        return ()

    @property
    def inside(self) -> bool:
        """Whether the rows never leave the database."""
        return self.spec.options.execute is Execution.DATABASE

    def source(self) -> Source:
        """The source database. A flow that reads a lake only asks it for deleted rows: it may be down."""
        return self._resources.sources.of(self.spec.source)

    def plan(self, *, limit: int | None = None, confirm_deletes: bool = False) -> PlannedWork:
        mark = self.mark
        refreshing = self._check_output()
        found = self.find_new(limit=limit, confirm_deletes=confirm_deletes, refreshing=refreshing)
        draft, deletes = found.draft, self._make_deleted_rows(confirm_deletes)
        if found.may_have_more and not refreshing:
            draft = deletes.plan(draft, self.source, mark.position if mark else None)
        seen = (mark.epoch, mark.seq) if mark else (0, 0)
        draft = replace(draft, seen=seen, notes=(*draft.notes, *found.changes, *_tell_expected(self.spec)))
        # The notes repeat what an earlier plan decided about columns; the history records it only once.
        news = mark is not None and mark.fingerprint != draft.inputs[0].fingerprint
        rows = _AllRows(found.read_batch, deletes, self._make_repaired_rows(found.unlike), self.spec)
        return self._make_work(
            draft, rows.batch_data, found.changes if news else (), through_jvm=found.through_jvm
        )

    def refuse_lost_columns(self, layout: Layout) -> None:
        """Raise OutputDisagrees if the output has lost columns that new rows would fill only in part.

        Not if the flow reads from the beginning, or a backfill brings the values back.
        """
        from_beginning = self.mark is None or self.mark.position is None
        if not (from_beginning or is_whole(self.spec) or self._resources.restores_columns):
            refuse_lost_columns(self.spec, self.output, layout)

    @property
    def is_seen_new(self) -> bool:
        """Whether one look at many targets has shown that nothing was committed and no target exists."""
        return self.target_checked and (self.mark is None or (self.mark.epoch, self.mark.seq) == (0, 0))

    def _check_output(self) -> bool:
        """Refuse an output that does not agree with the ledger. Returns whether a full refresh was begun."""
        mark = self.mark
        if not self.target_checked:
            check_agreement(self.spec, self.output, mark)
        return (
            mark is not None
            and mark.epoch > 0
            and not mark.seq
            and self.output.shows_earlier_rows(mark.epoch)
        )

    def resume(self, plan: Plan, *, confirm_deletes: bool = False) -> PlannedWork:
        found = self.find_again(plan)
        rows = _AllRows(
            found.read_batch, self._make_deleted_rows(confirm_deletes), self._make_repaired_rows(), self.spec
        )
        return self._make_work(plan.draft, rows.batch_data, found.changes, through_jvm=found.through_jvm)

    def read_repair(self, batch: Batch) -> BatchData:
        """Read what a batch of a repair writes or deletes."""
        repaired = self._make_repaired_rows()
        return _AllRows(repaired.batch_data, self._make_deleted_rows(False), repaired, self.spec).batch_data(
            batch
        )

    @abstractmethod
    def recall_mark(self, found: RecalledEpoch) -> tuple[Recalled, tuple[str, ...]]:
        """The watermark of an epoch that the output keeps, and notes on it for people."""

    def recall(self) -> RecalledFlow | None:
        found = recall(self.spec)
        if found is None:
            return None
        notes: tuple[str, ...] = ()
        if found.opened is not None and found.windows:
            notes = (
                f"epoch {found.epoch} was opened by hand ({found.opened}) and no batch has come since:"
                " the output does not store the position that was set then; the flow goes on after the last"
                " batch of the epoch before",
            )
        if found.removed:
            notes += (
                f"the files of {found.removed} of its {len(found.windows)} batches were cleaned away: a load"
                " that has not passed them, and `verify --stage extract`, need a full refresh",
            )
        mark, more = self.recall_mark(found)
        return RecalledFlow(found.epoch, found.seq, {self.spec.input: mark}, (*notes, *more))

    def verify(self, ledger: LedgerReader, spark: Callable[[], SparkSession]) -> Difference:
        names = [name for name in (self.spec.name, self.spec.upstream) if name]
        marks = {mark.flow: mark for mark in ledger.watermarks(self.spec.pipeline, names)}
        mark = self.find_compared(marks)
        if mark is None or not (mark.seq or isinstance(mark.position, RowPosition)):
            raise NotCompared(
                f"{self.spec.name} has no watermark yet, so there is nothing to compare", hint="run it first"
            )
        assert mark.position is None or isinstance(mark.position, RowPosition)
        epoch = marks[self.spec.name].epoch
        return self.compare(mark.position, spark, epoch=epoch, known=mark.fingerprint)

    def find_compared(self, marks: Mapping[str, Watermark]) -> Watermark | None:
        """The watermark up to which the output should have all rows of the source; None: there is none."""
        return marks.get(self.spec.name)

    def compare(
        self,
        position: RowPosition | None,
        spark: Callable[[], SparkSession],
        *,
        epoch: int,  # noqa: ARG002
        known: str | None,
    ) -> Difference:
        """Compare source and output up to a position; None: the output has no row with a cursor.

        `known`: the fingerprint of the source's columns at the last batch.
        """
        return verify_warehouse(self.spec, self.source(), self.output, position, spark, known=known)

    def open_output(self, plan: Plan) -> Output:
        return self._open_output(plan)

    @contextmanager
    def session(self, shared: Callable[[], SparkSession]) -> Iterator[Callable[[], SparkSession]]:
        """Open a session of its own for a Delta table, whose commits get their tag from a session setting."""
        if not self.spec.uses_delta:
            yield shared
            return
        from tidegauge.outputs.delta.synced import target_flow

        with ExitStack() as opened:
            own = self._resources.delta_tables.session(target_flow(self.spec))
            yield cache(lambda: opened.enter_context(own))

    def _open_output(self, plan: Plan | None = None) -> Output:
        if self.spec.uses_delta:
            return self._resources.delta_tables.synced_output(self.spec, plan)
        return self._resources.open_output(self.spec)

    def _make_work(
        self, draft: Draft, read_batch: ReadBatch, changes: tuple[str, ...], *, through_jvm: bool
    ) -> PlannedWork:
        """Make the work of a plan, with who will move its rows, as far as that is known before."""
        many = any(not are_few(batch.rows) for batch in draft.batches)
        asked = self.spec.options.execute is Execution.SPARK
        by_tasks = (many or asked) and self.output.capabilities.takes_tasks and not self.inside
        by_spark = through_jvm or self.spec.uses_delta or (asked and by_tasks)
        return PlannedWork(
            draft,
            read_batch,
            changes,
            by_spark=by_spark,
            by_tasks=by_tasks,
            only_by_spark=asked,
            through_jvm=through_jvm,
            inside=self.inside,
        )

    def _make_deleted_rows(self, confirmed: bool) -> DeletedRows:
        return DeletedRows(self.spec, self.output, confirmed=confirmed, reached=self._reached())

    def _make_repaired_rows(self, unlike: pa.Table | None = None) -> RepairedRows:
        return RepairedRows(self.spec, self.output, unlike)

    def _reached(self) -> RowPosition | None:
        """The position up to which the source database was looked at, by this flow or by its extract."""
        mark = self.upstream or self.mark
        reached = mark.checked or mark.position if mark else None
        return reached if isinstance(reached, RowPosition) else None


def _tell_expected(flow: TableFlow) -> tuple[str, ...]:
    expect = flow.options.expect
    return (f"expects {', '.join(map(str, expect))}",) if expect else ()


@dataclass(frozen=True)
class _AllRows:
    """Reads batches of every kind: new rows, deleted rows and repaired rows."""

    rows: ReadBatch
    deletes: DeletedRows
    repaired: RepairedRows
    flow: TableFlow

    def batch_data(self, batch: Batch) -> BatchData:
        if batch.deletes:
            return self.deletes.batch_data(batch)
        rows = self.repaired.batch_data(batch) if batch.repairs else self.rows(batch)
        return mark_rows(rows, self.flow.options.expect)
