"""What a run would do, found out the same way a run finds it out, and nothing kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegauge.engine.prepare import prepare
from tidegauge.engine.report import error_to_json, windows_to_json
from tidegauge.engine.select import Sources, choose
from tidegauge.errors import TidegaugeError, WrongState
from tidegauge.ledger.open import open_ledger
from tidegauge.model.plan import Draft
from tidegauge.model.position import to_text
from tidegauge.model.secret import mask
from tidegauge.model.spec import Flow, Project
from tidegauge.model.state import State
from tidegauge.write.parquet import ParquetOutput


@dataclass(frozen=True)
class Preview:
    flow: str
    state: State
    """PLANNED: there is work. SKIPPED: nothing new. Otherwise what an open plan is in."""
    output: str
    draft: Draft | None = None
    done: int = 0
    error: TidegaugeError | None = None

    @property
    def rows(self) -> int:
        return sum(batch.rows or 0 for batch in self.draft.batches[self.done :]) if self.draft else 0

    @property
    def batches(self) -> int:
        return len(self.draft.batches) - self.done if self.draft else 0

    @property
    def notes(self) -> tuple[str, ...]:
        if self.draft is None:
            return ()
        waiting, nulls = self.draft.rows_waiting, self.draft.rows_null
        return (
            *self.draft.notes,
            *([f"{waiting:,} rows are dated past the source's clock and wait"] if waiting else []),
            *([f"{nulls:,} rows have no cursor value"] if nulls else []),
        )

    @property
    def after(self) -> str:
        return self._end("after")

    @property
    def upto(self) -> str:
        return self._end("upto")

    def _end(self, which: str) -> str:
        if self.draft is None or self.draft.inputs[0].window is None:
            return "—"
        return to_text(getattr(self.draft.inputs[0].window, which))

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "state": self.state.value,
            "rows": self.rows if self.draft else None,
            "batches": self.batches,
            "output": self.output,
            "windows": windows_to_json(self.draft) if self.draft else [],
            "rows_waiting": self.draft.rows_waiting if self.draft else 0,
            "rows_null_cursor": self.draft.rows_null if self.draft else 0,
            "notes": [mask(note) for note in self.notes],
            "error": error_to_json(self.error) if self.error else None,
        }


def preview(project: Project, selection: Sequence[str]) -> list[Preview]:
    """One entry for each selected flow; a flow with an open plan shows what is left of that."""
    with open_ledger(project.ledger, create=False) as ledger, Sources() as sources:
        choice = choose(project, selection, sources)
        names = [flow.name for flow in choice.flows]
        statuses = {status.flow: status for status in ledger.status(project.pipeline, names)}
        marks = {mark.flow: mark for mark in ledger.watermarks(project.pipeline, names)}
        shown = [Preview(name, State.FAILED, "—", error=error) for name, error in choice.faults]
        for flow in choice.flows:
            status = statuses.get(flow.name)
            where = f"{flow.output.path}/{flow.folder}"
            if status is not None and status.override is not None:
                begun = WrongState(
                    f"{flow.name}: an override ({status.override.kind}) that {status.override.actor} began"
                    " has not ended",
                    hint="`tidegauge run` ends it and goes on",
                    retryable=True,
                )
                shown.append(Preview(flow.name, status.state, where, error=begun))
                continue
            if status is not None and status.plan is not None:
                shown.append(Preview(flow.name, status.state, where, status.plan.draft, status.plan.done))
                continue
            try:
                _, draft = prepare(flow, sources.of(flow.source), _output(flow), marks.get(flow.name))
            except TidegaugeError as error:
                shown.append(Preview(flow.name, State.FAILED, where, error=error))
                continue
            state = State.PLANNED if draft.batches else State.SKIPPED
            shown.append(Preview(flow.name, state, where, draft))
    return shown


def _output(flow: Flow) -> ParquetOutput:
    return ParquetOutput(flow.output, flow.folder)
