"""A flow between Delta tables: what is new in its inputs, and what a batch does to its output."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, partial
from typing import TYPE_CHECKING, ClassVar

from tidegauge.compare.frames import Difference
from tidegauge.delta_log.history import histories, version_at
from tidegauge.delta_log.location import lake_of
from tidegauge.errors import OutputDisagrees, TableMissing, TidegaugeError, at_place
from tidegauge.flows.agreement import check_agreement
from tidegauge.flows.check_transform import check_transform
from tidegauge.flows.flow import FlowResources, PlannedWork
from tidegauge.flows.override.delta import DeltaOverridePreviewer
from tidegauge.flows.override.preview import OverridePreview, OverrideRequest
from tidegauge.flows.recall import RecalledFlow
from tidegauge.flows.transform_fingerprint import TargetTransforms, TransformFingerprint
from tidegauge.flows.verify.delta import verify_delta
from tidegauge.model.batch_data import BatchData, DeltaBatch, DeltaChange
from tidegauge.model.delta_flow import DataFlow, DeltaFlow, DeltaInput, Evaluate, Sql
from tidegauge.model.pending import Pending
from tidegauge.model.plan import Batch, Draft, Plan
from tidegauge.model.position import VersionPosition, Window
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.protocols.output import Output
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import Lake, TableName
from tidegauge.model.table import Layout
from tidegauge.model.versions import DeltaHistory
from tidegauge.model.watermark import Recalled
from tidegauge.outputs.delta.recall import recall_delta
from tidegauge.outputs.delta.small_batches import reads_little
from tidegauge.plan import frozen
from tidegauge.plan.versions import draft_versions, log_needed_after, read_up_to
from tidegauge.sources.delta.changes import open_changed_input
from tidegauge.sources.delta.errors import translate_read_error
from tidegauge.transform.choose import choose_evaluation
from tidegauge.transform.evaluate import evaluate_change
from tidegauge.transform.faults import name_transform
from tidegauge.transform.judge import can_guard
from tidegauge.transform.needed import refuse_without_needed
from tidegauge.transform.nondeterminism import follows_clock
from tidegauge.transform.parse import is_readable
from tidegauge.transform.predicates import check_expectations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class WholeBecause(StrEnum):
    """Why a plan is evaluated whole although the transform itself could be evaluated incrementally."""

    CHANGED = "the transform has changed since the last plan"
    SET_BACK = "its watermark was set back, so the target already has some of the rows that are read again"
    UNCOUNTED = "the input was not checked for duplicate keys when the target was written"


@dataclass(frozen=True)
class _Choice:
    """How a plan is evaluated, and why."""

    evaluate: Evaluate
    why: str
    """The reason, for people."""
    whole_because: WholeBecause | None = None
    """None: the transform itself decided."""

    @classmethod
    def whole(cls, because: WholeBecause) -> _Choice:
        return cls(Evaluate.WHOLE, because.value, because)

    @property
    def changes(self) -> tuple[str, ...]:
        """What the ledger's history records of the choice."""
        return (self.why,) if self.whole_because is WholeBecause.CHANGED else ()


class TransformFlow:
    """Implements `flows.flow.Flow` for a flow between Delta tables."""

    target_checked: ClassVar[bool] = False

    def __init__(self, spec: DeltaFlow, resources: FlowResources) -> None:
        self.spec = spec
        self.output: Output = resources.delta_tables.output(spec)
        self.mark = resources.mark(spec.name)
        self._marks = {mark.input: mark for mark in resources.marks.get(spec.name, ())}
        self._places = resources.delta_tables
        self._sources = resources.sources

    @property
    def fingerprint(self) -> str | None:
        return None if self.spec.transform is None else TransformFingerprint.of(self.spec).transform

    def check_transform(self) -> tuple[str, ...]:
        sql = self.spec.transform
        # A transform that is always evaluated whole may use SQL that only Spark can parse.
        if not isinstance(sql, Sql) or (follows_clock(self.spec) and not is_readable(sql.text)):
            return ()
        return check_transform(sql, self.spec.read, self._places)

    def check_source(self) -> None:
        """Nothing to check: the flow reads no database."""

    def plan(self, *, limit: int | None = None, confirm_deletes: bool = False) -> PlannedWork:  # noqa: ARG002
        """Plan from the inputs' logs, without a Spark job. `limit` is ignored: versions cannot be cut."""
        check_agreement(self.spec, self.output, self.mark)
        return self._plan_new()

    def open_output(self, plan: Plan) -> Output:
        return self._places.output(self.spec, plan)

    @contextmanager
    def session(self, shared: Callable[[], SparkSession]) -> Iterator[Callable[[], SparkSession]]:  # noqa: ARG002
        """A session of the flow's own, so that other flows do not see its settings and views."""
        with ExitStack() as opened:
            yield cache(lambda: opened.enter_context(self._places.session(self.spec)))

    def preview_override(
        self,
        request: OverrideRequest,
        status: FlowStatus | None,
        every: Sequence[DataFlow],
        ledger: LedgerReader,  # noqa: ARG002
    ) -> OverridePreview:
        previewer = DeltaOverridePreviewer(
            self.spec, status, list(self._marks.values()), version_at=self._version_at
        )
        return previewer.preview(request, every)

    def _version_at(self, part: DeltaInput, timestamp: str) -> int:
        return version_at(self._places.location(part.table), timestamp, storage=part.table.storage)

    def recall(self) -> RecalledFlow | None:
        spec, table = self.spec, self.spec.output.table
        where = self._places.find(table)
        if where is None:
            return None
        found = recall_delta(lake_of(where, table.storage), spec.pipeline, spec.name)
        if found is None:
            return None
        notes: tuple[str, ...] = ()
        if found.opened is not None and found.marks:
            notes = (
                f"epoch {found.epoch} was opened by hand ({found.opened}) and no batch has come since:"
                " the output does not store the positions that were set then; the flow goes on after the last"
                " batch of the epoch before",
            )
        # An epoch without positions still needs watermarks, because they carry the epoch's number.
        marks = found.marks or {part.name: Recalled("", None) for part in spec.inputs}
        return RecalledFlow(found.epoch, found.seq, marks, notes)

    def verify(self, ledger: LedgerReader, spark: Callable[[], SparkSession]) -> Difference:  # noqa: ARG002
        """Compare the target with the transform over whole inputs, as they were at the watermark."""
        spec = self.spec
        return verify_delta(spec, lambda: ledger.watermarks(spec.pipeline, [spec.name]), self._places)

    def check_refillable(self) -> None:
        """Plan as if nothing were committed yet: raises if the inputs cannot be read from the beginning."""
        type(self)(self.spec, FlowResources(self._sources, self._places))._plan_new()

    def _plan_new(self) -> PlannedWork:
        flow, first = self.spec, self.mark
        dated = replace(flow, inputs=tuple(self._resolve_initial(part) for part in flow.inputs))
        marks = self._marks
        found = self._histories(
            {part.name: log_needed_after(dated, part, marks.get(part.name)) for part in dated.inputs}
        )
        choice = self._choose(found, TargetTransforms.read(mark.pending for mark in self._marks.values()))
        seen = (first.epoch, first.seq) if first else (0, 0)
        draft = draft_versions(dated, found, self._marks, seen=seen)
        if draft.batches:
            # Kept with the watermarks: the next plan has to know which transform made the target's rows.
            made_by = replace(TransformFingerprint.of(flow), whole=choice.whole_because is not None)
            inputs = tuple(replace(part, pending=Pending.of_target(made_by).text) for part in draft.inputs)
            said = f"evaluated by {choice.evaluate}: {choice.why}"
            expects = [f"expects {', '.join(map(str, flow.expect))}"] if flow.expect else []
            draft = replace(draft, inputs=inputs, notes=(said, *expects, *draft.notes))
        else:
            inputs = tuple(replace(part, pending=self._pending(part.input)) for part in draft.inputs)
            draft = replace(draft, inputs=inputs)
        return self._make_work(draft, choice, found)

    def resume(self, plan: Plan, *, confirm_deletes: bool = False) -> PlannedWork:  # noqa: ARG002
        """Resume with the same windows and pinned versions; the transform may have been changed since."""
        flow = self.spec
        planned, wanted = {part.input for part in plan.draft.inputs}, {part.name for part in flow.inputs}
        if planned != wanted:
            raise OutputDisagrees(
                f"{flow.name}: its plan froze the inputs {', '.join(sorted(planned))}, and now it has"
                f" {', '.join(sorted(wanted))}",
                hint="bring the inputs back until the plan has ended, or begin again with `tidegauge"
                f" watermark reset --select {flow.name}`",
            )
        found = self._histories(frozen.find_first_versions(plan.draft, plan.done))
        frozen.check_frozen_versions(flow, plan.draft, found, plan.done)
        origin = TargetTransforms.read(part.pending for part in plan.draft.inputs)
        choice = self._choose(found, origin)
        if origin.whole:
            choice = replace(choice, evaluate=Evaluate.WHOLE)
        return self._make_work(plan.draft, choice, found)

    def _choose(self, found: Mapping[str, DeltaHistory], origin: TargetTransforms) -> _Choice:
        """Choose how the plan is evaluated. `origin`: which transform made the rows of the target."""
        columns = {
            name: {field["name"]: str(field["type"]) for field in json.loads(history.schema)["fields"]}
            for name, history in found.items()
        }
        best = choose_evaluation(self.spec, columns=columns)
        check_expectations(self.spec, columns)
        self._check_rows_as_they_are(columns)
        choice, now, mode = (
            _Choice(best.evaluate, best.why),
            TransformFingerprint.of(self.spec),
            self.spec.output.mode,
        )
        if origin.set_back and not mode.facts.keeps_every_change:
            return _Choice.whole(WholeBecause.SET_BACK)
        if mode.facts.only_adds:
            return choice
        if not origin.is_of(now):
            # The rows of the old transform must not stay in the target.
            return _Choice.whole(WholeBecause.CHANGED)
        if choice.evaluate is Evaluate.ROWS and not origin.has_duplicate_check(now):
            return _Choice.whole(WholeBecause.UNCOUNTED)
        return choice

    def _check_rows_as_they_are(self, columns: Mapping[str, Mapping[str, str]]) -> None:
        """Refuse inputs that lack a column the output needs, where no transform could still add it."""
        parts = [part for part in self.spec.inputs if not part.for_checks]
        if self.spec.transform is None and len(parts) == 1 and not parts[0].raw:
            refuse_without_needed(self.spec, name_transform(self.spec), list(columns[parts[0].name]))

    def _histories(self, after: Mapping[str, int | None]) -> dict[str, DeltaHistory]:
        places = {part.name: part.place for part in self.spec.inputs}
        found: dict[str, DeltaHistory] = {}
        wanted: dict[str, tuple[str, int | None, Lake | None]] = {}
        for part in self.spec.inputs:
            with at_place(part.place), self._name_writers():
                where = self._places.location(part.table)
            wanted[part.name] = (where, after[part.name], part.table.storage)
        for name, answer in histories(wanted).items():
            if isinstance(answer, TidegaugeError):
                with at_place(places[name]), self._name_writers():
                    raise answer
            found[name] = answer
        return found

    @contextmanager
    def _name_writers(self) -> Iterator[None]:
        """Add to TableMissing which flows make the table: the missing input may only not be written yet."""
        try:
            yield
        except TableMissing as error:
            if self.spec.upstreams:
                above = ", ".join(self.spec.upstreams)
                error.hint = (
                    f"if {above} makes it, run that first (`--select +{self.spec.name}` takes along what it"
                    f" reads from); else {error.hint}"
                )
            raise

    def _tables(self) -> dict[str, str]:
        return {part.name: self._places.location(part.table) for part in self.spec.inputs}

    def _pending(self, name: str) -> str | None:
        mark = self._marks.get(name)
        return mark.pending if mark else None

    def _resolve_initial(self, part: DeltaInput) -> DeltaInput:
        """Return the input with the table's version of that time in place of an `initial` timestamp."""
        initial = part.initial
        if initial is None or initial in ("snapshot", "earliest") or initial.isdigit():
            return part
        if read_up_to(self._marks.get(part.name)) is not None:
            return part
        where = self._places.location(part.table)
        return replace(part, initial=str(version_at(where, initial, storage=part.table.storage)))

    def _make_work(self, draft: Draft, choice: _Choice, found: Mapping[str, DeltaHistory]) -> PlannedWork:
        rows = self._make_batch_reader(draft, choice, found)
        return PlannedWork(draft, rows, choice.changes, through_jvm=True)

    def _make_batch_reader(
        self, draft: Draft, choice: _Choice, found: Mapping[str, DeltaHistory]
    ) -> Callable[[Batch], BatchData]:
        flow, names = self.spec, [part.input for part in draft.inputs]
        parts = {part.name: part for part in flow.inputs}
        layout = Layout(TableName(None, flow.name), (), flow.output.key, "version", None)

        def read_batch(batch: Batch) -> BatchData:
            small = self._reads_little()

            def change(
                session: SparkSession, target: Callable[[], DataFrame] | None, *, guarded: bool = False
            ) -> DeltaChange:
                held: list[DataFrame] = []
                inputs = {
                    name: open_changed_input(
                        session,
                        parts[name].table,
                        self._places.location(parts[name].table),
                        window,
                        way,
                        raw=parts[name].raw,
                        unique=_find_unique_key(found[name], window),
                        small=small,
                    )
                    for name, window, way in zip(names, batch.windows, batch.ways, strict=True)
                }
                made = evaluate_change(
                    flow, inputs, session, target, choice.evaluate, cached=held, guarded=guarded, small=small
                )
                return replace(made, cached=tuple(held))

            return DeltaBatch(
                layout,
                change=change,
                guarded=partial(change, guarded=True) if can_guard(flow) else None,
                explain=lambda error: translate_read_error(error, self._tables()),
                reads_little=small,
            )

        return read_batch

    def _reads_little(self) -> bool:
        """Whether all inputs are small tables. One without a path counts as large: a lookup may cost more."""
        tables = [part.table for part in self.spec.inputs]
        return all(table.path for table in tables) and reads_little(
            lake_of(str(table.path), table.storage) for table in tables
        )


def _find_unique_key(history: DeltaHistory, window: Window) -> tuple[str, ...]:
    """The key by which every version of the window that changed rows was merged; empty if not known."""
    first = window.after.version if isinstance(window.after, VersionPosition) else -1
    last = window.upto.version if isinstance(window.upto, VersionPosition) else -1
    inside = [one for one in history.versions if first < one.number <= last]
    keys = {one.key for one in inside if one.changes}
    return keys.pop() if len(keys) == 1 and len(inside) == last - first else ()
