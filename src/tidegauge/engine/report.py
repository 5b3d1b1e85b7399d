"""What a run did, flow by flow: the frozen result that tables and `--json` are made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tidegauge.errors import Stopped, TidegaugeError
from tidegauge.model.plan import Draft
from tidegauge.model.secret import mask
from tidegauge.model.state import State


def error_to_json(error: TidegaugeError) -> dict[str, Any]:
    return {
        "type": error.type,
        "message": mask(str(error)),
        "hint": mask(error.hint) if error.hint else None,
        "retryable": error.retryable,
    }


def windows_to_json(draft: Draft) -> list[dict[str, Any]]:
    return [
        {"input": part.input, "cursor": part.cursor, **part.window.to_json()}
        for part in draft.inputs
        if part.window is not None
    ]


@dataclass(frozen=True)
class FlowReport:
    flow: str
    state: State
    seconds: float
    batches: int = 0
    rows: int = 0
    draft: Draft | None = None
    error: TidegaugeError | None = None
    resumed: bool = False
    """The plan was an earlier run's."""

    @property
    def ok(self) -> bool:
        return self.error is None

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "state": self.state.value,
            "batches": self.batches,
            "rows_read": self.rows,
            "rows_written": self.rows,
            # The lake keeps every version of a row: whether a key was there before is not known.
            "rows_inserted": None if self.rows else 0,
            "rows_updated": None if self.rows else 0,
            "rows_deleted": 0,
            "rows_quarantined": 0,
            "rows_waiting": self.draft.rows_waiting if self.draft else 0,
            "rows_null_cursor": self.draft.rows_null if self.draft else 0,
            "seconds": round(self.seconds, 3),
            "resumed": self.resumed,
            "windows": windows_to_json(self.draft) if self.draft else [],
            "notes": [mask(note) for note in self.draft.notes] if self.draft else [],
            "error": error_to_json(self.error) if self.error else None,
        }


@dataclass(frozen=True)
class RunReport:
    run_id: str
    flows: tuple[FlowReport, ...] = field(default=())

    @property
    def state(self) -> State:
        """FAILED if anything did; PLANNED if it was only stopped, and the rest is for the next run."""
        states = {report.state for report in self.flows}
        errors = [report.error for report in self.flows if report.error is not None]
        if errors:
            stopped = all(isinstance(error, Stopped) for error in errors)
            return State.PLANNED if stopped else State.FAILED
        return State.SUCCESS if State.SUCCESS in states else State.SKIPPED

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": "tidegauge/run/1",
            "run_id": self.run_id,
            "state": self.state.value,
            "flows": [report.to_json() for report in self.flows],
        }
