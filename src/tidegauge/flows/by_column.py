"""A flow that reads a table without versions: by a column that orders its rows, or whole in each run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from tidegauge.compare.frames import Difference
from tidegauge.delta_log.history import histories
from tidegauge.errors import NotCompared, OutputDisagrees, TidegaugeError
from tidegauge.flows.delta import TransformFlow
from tidegauge.flows.flow import FlowResources, PlannedWork
from tidegauge.flows.override.column import ColumnOverridePreviewer
from tidegauge.flows.override.preview import OverridePreview, OverrideRequest
from tidegauge.flows.transform_fingerprint import TransformFingerprint
from tidegauge.model.batch_data import BatchData, DeltaBatch, DeltaChange
from tidegauge.model.delta_flow import DataFlow, DeltaFlow, DeltaInput, Evaluate, ReadByColumn
from tidegauge.model.pending import describe_waiting
from tidegauge.model.plan import Batch, Draft, InputPlan, Plan, ReadWay
from tidegauge.model.position import MOMENTS, Position, RowPosition, Value, ValueKind, VersionPosition, Window
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.protocols.source import ChangedInput
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import TableName
from tidegauge.model.table import Layout
from tidegauge.model.versions import LATEST, DeltaHistory
from tidegauge.outputs.delta.small_batches import tune_for_small
from tidegauge.plan.by_column import ColumnReadState, check_not_lower, check_same, go_back, note_late
from tidegauge.sources.delta.changes import open_changed_input
from tidegauge.sources.spark_tables import ColumnInput, SparkTable, digest_folder
from tidegauge.transform.evaluate import evaluate_change
from tidegauge.transform.judge import can_guard
from tidegauge.transform.predicates import check_expectations
from tidegauge.transform.window import evaluate_window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class _Found:
    """What is new in the input that is read by a column."""

    window: Window | None
    """None: nothing is new."""
    cursor: str = "value"
    fingerprint: str = ""
    rows: int | None = None
    rows_null: int = 0
    remembered: ColumnReadState = field(default_factory=ColumnReadState)
    checked: Position | None = None
    notes: tuple[str, ...] = ()


class ByColumnFlow(TransformFlow):
    """A flow with one input that is read by a column. Its other inputs are pinned when the plan is made."""

    def __init__(self, spec: DeltaFlow, resources: FlowResources) -> None:
        super().__init__(spec, resources)
        assert spec.by_column is not None
        assert spec.by_column.by_column is not None
        self._part: DeltaInput = spec.by_column
        self._by: ReadByColumn = spec.by_column.by_column

    def preview_override(
        self,
        request: OverrideRequest,
        status: FlowStatus | None,
        every: Sequence[DataFlow],
        ledger: LedgerReader,  # noqa: ARG002
    ) -> OverridePreview:
        previewer = ColumnOverridePreviewer(self.spec, status, self._marks.get(self._part.name))
        return previewer.preview(request, every)

    def verify(self, ledger: LedgerReader, spark: Callable[[], SparkSession]) -> Difference:  # noqa: ARG002
        raise NotCompared(
            f"{self.spec.name} reads a table without versions, which may have changed since",
            hint="compare it with a query of your own",
            excused=True,
        )

    def resume(self, plan: Plan, *, confirm_deletes: bool = False) -> PlannedWork:  # noqa: ARG002
        """Resume with the frozen window; its rows are read as the table is now."""
        parts = {part.input: part for part in plan.draft.inputs}
        wanted = {part.name for part in self.spec.inputs}
        if set(parts) != wanted:
            raise OutputDisagrees(
                f"{self.spec.name}: its plan froze the inputs {', '.join(sorted(parts))}, and now it has"
                f" {', '.join(sorted(wanted))}",
                hint="bring the inputs back until the plan has ended, or begin again with `tidegauge"
                f" watermark reset --select {self.spec.name}`",
            )
        check_same(self.spec.name, self._part, parts[self._part.name].source_id, self._identity)
        return PlannedWork(plan.draft, self._make_column_reader(plan.draft), through_jvm=True)

    def _plan_new(self) -> PlannedWork:
        mark = self._marks.get(self._part.name)
        check_expectations(self.spec, {})
        check_same(self.spec.name, self._part, mark.source_id if mark else None, self._identity)
        pins = self._find_pins()
        found = self._find_new()
        count = 1 if found.window else 0
        planned = [
            self._plan_column_input(part, found)
            if part is self._part
            else _plan_pinned_input(part, pins[part.name])
            for part in self.spec.inputs
        ]
        batches = [
            Batch(
                tuple(part.window or Window(None, None) for part in planned),
                rows=found.rows,
                ways=tuple(
                    ReadWay.COLUMN if part is self._part else ReadWay.PINNED for part in self.spec.inputs
                ),
            )
        ] * count
        seen = (self.mark.epoch, self.mark.seq) if self.mark else (0, 0)
        draft = Draft(
            self.spec.pipeline,
            self.spec.name,
            tuple(planned),
            tuple(batches),
            rows_null=found.rows_null,
            rows_waiting=found.remembered.waiting,
            notes=found.notes,
            seen=seen,
        )
        return PlannedWork(draft, self._make_column_reader(draft), through_jvm=True)

    @property
    def _is_delta(self) -> bool:
        return self._by.format in (None, "delta")

    @property
    def _identity(self) -> str:
        """The table and the column that orders it, as one text."""
        return f"{self._part.table} by {self._by.column or 'nothing'}"

    @property
    def _key(self) -> tuple[str, ...]:
        return self._by.key or self.spec.output.key

    def _find_new(self) -> _Found:
        mark = self._marks.get(self._part.name)
        kept = ColumnReadState.parse(mark.pending if mark else None)
        state = self._state()
        now = ColumnReadState(state, transform=str(TransformFingerprint.of(self.spec)))
        same = state is not None and kept.state == state and mark is not None and mark.seq > 0
        if self._by.column is None:
            if same and kept.transform == now.transform:
                return _Found(None, remembered=kept)
            read = state or f"as read at {datetime.now(UTC).isoformat(sep=' ', timespec='microseconds')}"
            upto = RowPosition(Value(ValueKind.TEXT, read))
            return _Found(Window(mark.position if mark else None, upto), remembered=now)
        if same and not kept.waiting:
            return _Found(None, remembered=kept)
        stands = mark.position if mark else None
        little = self._reads_little()
        with self._places.session(self.spec) as session, tune_for_small(session, few=little):
            table = SparkTable(session, self._part, small=little and self._is_delta)
            return self._find_rows(table, stands, kept, now)

    def _find_rows(
        self, table: SparkTable, stands: Position | None, kept: ColumnReadState, now: ColumnReadState
    ) -> _Found:
        part, cursor = self._part, table.cursor
        table.check_key(self._key)
        survey = table.survey()
        check_not_lower(self.spec.name, part, stands, survey.highest)
        at = stands.cursor if isinstance(stands, RowPosition) else None
        upto = survey.upto
        if at is not None and (upto is None or (upto.kind is at.kind and upto < at)):
            upto = at
        notes: tuple[str, ...] = ()
        kind = "timestamp" if cursor.kind in MOMENTS else "value"
        if survey.rows_null:
            notes = (f"{part.name}: {survey.rows_null:,} rows have no {cursor.name}, and are never read",)
        if survey.rows_waiting:
            notes += (f"{part.name}: {describe_waiting(survey.rows_waiting)}",)
        now = replace(now, waiting=survey.rows_waiting)
        found = _Found(None, kind, table.fingerprint, None, survey.rows_null, now, None, notes)
        if upto is None:
            return replace(found, notes=(*notes, f"{part.name}: there is no row to read yet"))
        after = go_back(at, self._by.lookback, cursor.scale, part) if at else None
        next_after = go_back(upto, self._by.lookback, cursor.scale, part)
        rows, older, ahead = table.count(after, upto, next_after)
        return replace(
            found,
            window=Window(RowPosition(after) if after else None, RowPosition(upto)) if rows else None,
            rows=rows,
            remembered=replace(now, older=(next_after.text, ahead)),
            checked=RowPosition(upto),
            notes=(*notes, *note_late(part, kept.older, older, after)),
        )

    def _state(self) -> str | None:
        """A text that changes whenever the table does, found without Spark; None: there is no such text."""
        table = self._part.table
        if not self._is_delta:
            return digest_folder(table.path) if table.path and not table.on_s3 else None
        location = self._places.find(table)
        if location is None:
            return None
        answer = histories({"": (location, LATEST, table.storage)})[""]
        return None if isinstance(answer, TidegaugeError) else f"{answer.table_id} {answer.latest}"

    def _find_pins(self) -> dict[str, DeltaHistory]:
        others = [part for part in self.spec.inputs if part is not self._part]
        found: dict[str, DeltaHistory] = {}
        where = {part.name: self._places.location(part.table) for part in others}
        asked = {part.name: (where[part.name], LATEST, part.table.storage) for part in others}
        for name, answer in histories(asked).items():
            if isinstance(answer, TidegaugeError):
                raise answer
            found[name] = answer
        return found

    def _plan_column_input(self, part: DeltaInput, found: _Found) -> InputPlan:
        return InputPlan(
            input=part.name,
            cursor=found.cursor,
            window=found.window,
            source_id=self._identity,
            fingerprint=found.fingerprint,
            pending=str(found.remembered),
            checked=found.checked,
        )

    def _make_column_reader(self, draft: Draft) -> Callable[[Batch], BatchData]:
        spec, names = self.spec, [part.input for part in draft.inputs]
        layout = Layout(TableName(None, spec.name), (), spec.output.key, "value", None)
        last_of = () if spec.output.mode.facts.only_adds or self._by.column is None else self._key

        def read_batch(batch: Batch) -> BatchData:
            small = self._reads_little()

            def change(
                session: SparkSession, target: Callable[[], DataFrame] | None, *, guarded: bool = False
            ) -> DeltaChange:
                table = SparkTable(session, self._part, small=small and self._is_delta)
                inputs: dict[str, ChangedInput] = {}
                for part, window in zip(spec.inputs, self._order_windows(names, batch), strict=True):
                    if part is self._part:
                        inputs[part.name] = ColumnInput(table, window, last_of)
                    else:
                        where = self._places.location(part.table)
                        inputs[part.name] = open_changed_input(
                            session, part.table, where, window, ReadWay.PINNED
                        )
                held: list[DataFrame] = []
                if self._by.column is None:
                    made = evaluate_change(
                        spec,
                        inputs,
                        session,
                        target,
                        Evaluate.WHOLE,
                        cached=held,
                        guarded=guarded,
                        small=small,
                    )
                else:
                    made = evaluate_window(
                        spec, inputs, session, target, cached=held, guarded=guarded, small=small
                    )
                return replace(made, cached=tuple(held))

            quick = partial(change, guarded=True) if can_guard(spec) else None
            return DeltaBatch(layout, batch.rows, change=change, guarded=quick, reads_little=small)

        return read_batch

    def _order_windows(self, names: Sequence[str], batch: Batch) -> Iterator[Window]:
        """Yield the batch's windows in the order in which the flow lists its inputs now."""
        by_name: Mapping[str, Window] = dict(zip(names, batch.windows, strict=True))
        return (by_name[part.name] for part in self.spec.inputs)


def _plan_pinned_input(part: DeltaInput, history: DeltaHistory) -> InputPlan:
    return InputPlan(
        input=part.name,
        cursor="snapshot",
        window=Window(None, VersionPosition(history.latest)),
        source_id=history.table_id,
        fingerprint=history.digest,
    )
