"""A flow between Delta tables: what of its inputs is new, and what a batch does to its output."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from tidegauge.delta_log.history import histories, version_at
from tidegauge.errors import OutputDisagrees, TidegaugeError
from tidegauge.flows.agreement import check_agreement
from tidegauge.flows.flow import FlowResources, PlannedWork
from tidegauge.flows.override import OverridePreview, OverrideRequest
from tidegauge.flows.override_delta import DeltaOverridePreviewer
from tidegauge.model.batch_data import BatchData, DeltaBatch, DeltaChange
from tidegauge.model.delta_flow import AnyFlow, DeltaFlow, DeltaInput, Evaluate, Function, Sql
from tidegauge.model.mode import OutputKind
from tidegauge.model.plan import SET_BACK, Batch, Draft, Plan
from tidegauge.model.position import VersionPosition, Window
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.protocols.output import Output
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import TableName
from tidegauge.model.table import Layout
from tidegauge.model.versions import History
from tidegauge.plan import frozen
from tidegauge.plan.versions import asks, begins, draft_versions
from tidegauge.sources.delta.changes import moved
from tidegauge.sources.delta.errors import translated_read
from tidegauge.transform.choose import Evaluation, choose_evaluation
from tidegauge.transform.evaluate import evaluate_change

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ANEW = "the transform has changed since the last plan"
_AGAIN = "its watermark was set back, so the target knows some of what is read again"
_UNCOUNTED = "whether a key was in the input twice was not looked at when its target was written"
_WHOLE = " whole"
"""Behind a digest: the plan has to be evaluated whole, also by whoever takes it up."""


class DeltaTransform:
    """Implements `flows.flow.Flow`."""

    def __init__(self, spec: DeltaFlow, resources: FlowResources) -> None:
        self.spec = spec
        self.output: Output = resources.delta_tables.output(spec)
        self.mark = resources.mark(spec.name)
        self._marks = {mark.input: mark for mark in resources.marks.get(spec.name, ())}
        self._places = resources.delta_tables
        self._sources = resources.sources

    def plan(self, *, limit: int | None = None, confirm_deletes: bool = False) -> PlannedWork:  # noqa: ARG002
        """Reads the logs of the inputs, and starts no Spark job. Versions are not cut at a number of rows."""
        check_agreement(self.spec, self.output, self.mark)
        return self._plan_new()

    def open_output(self, plan: Plan) -> Output:
        return self._places.output(self.spec, plan)

    @contextmanager
    def session(self, shared: Callable[[], SparkSession]) -> Iterator[Callable[[], SparkSession]]:  # noqa: ARG002
        """One of its own, so that no setting and no view of one flow is seen by another."""
        with ExitStack() as opened:
            yield cache(lambda: opened.enter_context(self._places.session(self.spec)))

    def preview_override(
        self,
        request: OverrideRequest,
        status: FlowStatus | None,
        every: Sequence[AnyFlow],
        ledger: LedgerReader,  # noqa: ARG002
    ) -> OverridePreview:
        previewer = DeltaOverridePreviewer(self.spec, status, list(self._marks.values()))
        return previewer.preview(request, every)

    def check_refillable(self) -> None:
        """Its inputs can be read from the beginning, whatever the output holds."""
        DeltaTransform(self.spec, FlowResources(self._sources, self._places))._plan_new()

    def _plan_new(self) -> PlannedWork:
        flow, first = self.spec, self.mark
        dated = replace(flow, inputs=tuple(self._dated(part) for part in flow.inputs))
        marks = self._marks
        found = self._histories({part.name: asks(dated, part, marks.get(part.name)) for part in dated.inputs})
        choice = self._choice(found, {mark.pending for mark in self._marks.values()})
        seen = (first.epoch, first.seq) if first else (0, 0)
        draft = draft_versions(dated, found, self._marks, seen=seen)
        if draft.batches:
            # Kept with the marks: the next plan has to know by what the rows were made that are there.
            whole = choice.why in (_ANEW, _AGAIN, _UNCOUNTED)
            pending = _digest(flow) + _counted(flow) + (_WHOLE if whole else "")
            inputs = tuple(replace(part, pending=pending) for part in draft.inputs)
            said = f"evaluated by {choice.evaluate}: {choice.why}"
            draft = replace(draft, inputs=inputs, notes=(said, *draft.notes))
        else:
            inputs = tuple(replace(part, pending=self._pending(part.input)) for part in draft.inputs)
            draft = replace(draft, inputs=inputs)
        changes = (_ANEW,) if choice.why == _ANEW else ()
        return PlannedWork(draft, self._read_batch(draft, choice, found), changes, by_jdbc=True)

    def resume(self, plan: Plan, *, confirm_deletes: bool = False) -> PlannedWork:  # noqa: ARG002
        """The same windows and the same pinned snapshots; the transform may have been mended since."""
        flow = self.spec
        planned, wanted = {part.input for part in plan.draft.inputs}, {part.name for part in flow.inputs}
        if planned != wanted:
            raise OutputDisagrees(
                f"{flow.name}: its plan froze the inputs {', '.join(sorted(planned))}, and now it has"
                f" {', '.join(sorted(wanted))}",
                hint="bring the inputs back until the plan has ended, or begin again with `tidegauge"
                f" watermark reset --select {flow.name}`",
            )
        found = self._histories(frozen.since(plan.draft, plan.done))
        frozen.check(flow, plan.draft, found, plan.done)
        known = {part.pending for part in plan.draft.inputs}
        choice = self._choice(found, known)
        if any(one and one.endswith(_WHOLE) for one in known):
            choice = Evaluation(Evaluate.WHOLE, choice.why)
        changes = (_ANEW,) if choice.why == _ANEW else ()
        return PlannedWork(plan.draft, self._read_batch(plan.draft, choice, found), changes, by_jdbc=True)

    def _choice(self, found: Mapping[str, History], known: Set[str | None]) -> Evaluation:
        """`known`: by what the rows were made that are there, as marks and plans keep it."""
        columns = {
            name: {field["name"]: str(field["type"]) for field in json.loads(history.schema)["fields"]}
            for name, history in found.items()
        }
        choice = choose_evaluation(self.spec, columns=columns)
        mode = self.spec.output.mode
        if SET_BACK in known and not mode.facts.keeps_every_change:
            return Evaluation(Evaluate.WHOLE, _AGAIN)
        made = {one.removesuffix(_WHOLE) for one in known if one is not None and one != SET_BACK}
        if mode.facts.only_adds:
            return choice
        if not {one.partition(" ")[0] for one in made} - {_digest(self.spec)}:
            counted = all(one.endswith(_counted(self.spec)) for one in made)
            by_rows = choice.evaluate is Evaluate.ROWS
            return choice if counted or not by_rows else Evaluation(Evaluate.WHOLE, _UNCOUNTED)
        # What is there was made by another transform, and the law is about this one.
        return Evaluation(Evaluate.WHOLE, _ANEW)

    def _histories(self, after: Mapping[str, int | None]) -> dict[str, History]:
        wanted = {
            part.name: (self._places.location(part.table), after[part.name], part.table.storage)
            for part in self.spec.inputs
        }
        found: dict[str, History] = {}
        for name, answer in histories(wanted).items():
            if isinstance(answer, TidegaugeError):
                raise answer
            found[name] = answer
        return found

    def _tables(self) -> dict[str, str]:
        return {part.name: self._places.location(part.table) for part in self.spec.inputs}

    def _pending(self, name: str) -> str | None:
        mark = self._marks.get(name)
        return mark.pending if mark else None

    def _dated(self, part: DeltaInput) -> DeltaInput:
        """A beginning that was given as a moment, as the version that was there then."""
        initial = part.initial
        if initial is None or initial in ("snapshot", "earliest") or initial.isdigit():
            return part
        if begins(self._marks.get(part.name)) is not None:
            return part
        where = self._places.location(part.table)
        return replace(part, initial=str(version_at(where, initial, storage=part.table.storage)))

    def _read_batch(
        self, draft: Draft, choice: Evaluation, found: Mapping[str, History]
    ) -> Callable[[Batch], BatchData]:
        flow, names = self.spec, [part.input for part in draft.inputs]
        parts = {part.name: part for part in flow.inputs}
        layout = Layout(TableName(None, flow.name), (), flow.output.key, "version", None)

        def read_batch(batch: Batch) -> BatchData:
            def change(session: SparkSession, target: Callable[[], DataFrame] | None) -> DeltaChange:
                keep: list[DataFrame] = []
                inputs = {
                    name: moved(
                        session,
                        parts[name].table,
                        self._places.location(parts[name].table),
                        window,
                        way,
                        raw=parts[name].raw,
                        unique=_unique(found[name], window),
                    )
                    for name, window, way in zip(names, batch.windows, batch.ways, strict=True)
                }
                made = evaluate_change(flow, inputs, session, target, choice.evaluate, keep=keep)
                return replace(made, kept=tuple(keep))

            return DeltaBatch(
                layout, change=change, explain=lambda error: translated_read(error, self._tables())
            )

        return read_batch


def _unique(history: History, window: Window) -> tuple[str, ...]:
    """The columns by which every version of the window was merged here, if it changed any row."""
    first = window.after.version if isinstance(window.after, VersionPosition) else -1
    last = window.upto.version if isinstance(window.upto, VersionPosition) else -1
    inside = [one for one in history.versions if first < one.number <= last]
    keys = {one.key for one in inside if one.changes}
    return keys.pop() if len(keys) == 1 and len(inside) == last - first else ()


def _counted(flow: DeltaFlow) -> str:
    """Behind a digest: each key was seen to come once. That is what evaluation by rows builds upon."""
    if not flow.output.mode.one_row_per_key(OutputKind.DELTA) or any(part.raw for part in flow.inputs):
        return ""
    return f" by {hashlib.sha256(json.dumps(flow.output.key).encode()).hexdigest()[:8]}"


def made_by(flow: DeltaFlow) -> set[str]:
    """What marks keep of a target that this transform made."""
    digest = _digest(flow)
    return {digest + counted + whole for counted in ("", _counted(flow)) for whole in ("", _WHOLE)}


def _digest(flow: DeltaFlow) -> str:
    """Changes with the user's transform, as far as it can be seen."""
    match flow.transform:
        case Sql(text):
            body = text
        case Function(name, _, call):
            try:
                body = inspect.getsource(call) if call is not None else name
            except OSError:
                body = name
        case None:
            body = ""
    return hashlib.sha256(body.encode()).hexdigest()[:16]
