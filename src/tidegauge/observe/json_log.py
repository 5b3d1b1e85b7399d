"""A run as log lines for machines: one JSON object per line."""

from __future__ import annotations

import json
import threading
import time
from datetime import UTC, datetime
from typing import Any, TextIO

from tidegauge.model.secret import mask
from tidegauge.model.state import State
from tidegauge.observe.events import (
    BatchCommitted,
    Comparing,
    FlowEnded,
    FlowPlanned,
    FlowsChosen,
    NoteAdded,
    Planning,
    RunEvent,
    RunStarted,
    SparkStarting,
    StepBegun,
    StepDone,
)

_LEVELS = {State.FAILED: "error", State.RUNNING: "warning"}


class JsonLines:
    """Every line has the same keys; a key that the event has no value for is null. Thread-safe."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._run: str | None = None
        self._begun: dict[str, float] = {}
        """When the current batch of each flow began, on the monotonic clock."""
        self._lock = threading.Lock()

    def __call__(self, event: RunEvent) -> None:
        with self._lock:
            lines = [render(**line, run=self._run) for line in self._describe(event)]
            if lines:
                self._stream.write("".join(f"{line}\n" for line in lines))
                self._stream.flush()

    def _describe(self, event: RunEvent) -> list[dict[str, Any]]:
        match event:
            case RunStarted(run_id, pipeline):
                self._run = run_id
                return [{"event": "run_started", "message": pipeline}]
            case Planning(flows):
                return [{"event": "planning", "message": f"{flows} flow{'' if flows == 1 else 's'}"}]
            case SparkStarting():
                return [{"event": "spark_starting"}]
            case Comparing(table, number, of):
                return [{"event": "comparing", "flow": table, "message": f"{number} of {of}"}]
            case FlowsChosen() | StepDone():
                return []
            case StepBegun(flow, step):
                self._begun |= {flow: time.monotonic()} if step == "begin" else {}
                return []
            case BatchCommitted():
                return [_batch(event, self._begun.pop(event.flow, None))]
            case FlowPlanned() | NoteAdded() | FlowEnded():
                return _describe_flow(event)


def _describe_flow(event: FlowPlanned | NoteAdded | FlowEnded) -> list[dict[str, Any]]:
    match event:
        case FlowPlanned(flow, rows, batches, resumed, notes):
            said = [_note(flow, note) for note in notes]
            word = "taken_up" if resumed else "planned"
            return [*said, {"event": word, "flow": flow, "rows": rows}] if batches else said
        case NoteAdded(flow, note):
            return [_note(flow, note)]
        case FlowEnded(flow, state, rows, seconds, error):
            level = _LEVELS.get(state, "info")
            line = {"event": "flow_ended", "flow": flow, "rows": rows, "seconds": round(seconds, 3)}
            return [{**line, "level": level, "state": state.value, "message": error}]


def _batch(event: BatchCommitted, begun: float | None) -> dict[str, Any]:
    line = {
        "event": "batch_found" if event.found else "batch_committed",
        "flow": event.flow,
        "batch": event.number,
        "rows": event.rows,
        "message": f"of {event.of}",
    }
    return line if begun is None else {**line, "seconds": round(time.monotonic() - begun, 3)}


def render(
    *,
    event: str,
    level: str = "info",
    run: str | None = None,
    flow: str | None = None,
    batch: int | None = None,
    state: str | None = None,
    rows: int | None = None,
    seconds: float | None = None,
    message: str | None = None,
) -> str:
    """Make one JSON line, without newline. Masks values first: in JSON a secret may look different."""
    body = {
        "at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": level,
        "run": run,
        "flow": flow and mask(flow),
        "batch": batch,
        "event": event,
        "state": state,
        "rows": rows,
        "seconds": seconds,
        "message": message and mask(message),
    }
    return json.dumps(body, ensure_ascii=False)


def _note(flow: str, note: str) -> dict[str, Any]:
    return {"event": "note", "level": "warning", "flow": flow, "message": note}
