"""Turns a run's events into OpenLineage events and sends them without delaying the run."""

from __future__ import annotations

import queue
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from tidegauge.errors import TidegaugeError
from tidegauge.model.lineage import FlowLineage
from tidegauge.model.plan import Draft
from tidegauge.model.secret import mask
from tidegauge.model.state import State
from tidegauge.model.table import Layout
from tidegauge.model.view_flow import GraphFlow
from tidegauge.observe.events import (
    BatchCommitted,
    FlowEnded,
    FlowPlanned,
    FlowsChosen,
    RunEvent,
    RunStarted,
)

PATIENCE = 10.0
"""Seconds that the end of a run waits for events that are not sent yet."""
_UUID_NAMESPACE = uuid.UUID("5a5c6a2e-6f0e-4d0e-9d64-7d1d6f1b7a01")
_ENDINGS = {State.SUCCESS: "COMPLETE", State.SKIPPED: "COMPLETE", State.FAILED: "FAIL"}

Describe = Callable[[GraphFlow, Layout | None], FlowLineage | None]


@dataclass
class FlowTrace:
    """What is known of one flow's execution so far."""

    run_id: str
    flow: str
    spec: GraphFlow | None
    draft: Draft | None = None
    layout: Layout | None = None
    batches: int = 0
    rows: int = 0
    counts: dict[str, int | None] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True)
class LineageEvent:
    """One event to be sent: START, RUNNING, COMPLETE, FAIL or ABORT, with what was known at that time."""

    kind: str
    at: datetime
    parent: str
    pipeline: str
    trace: FlowTrace
    lineage: FlowLineage | None


class Send(Protocol):
    def __call__(self, occurrence: LineageEvent) -> None:
        """Send one event. Raises if that fails; takes seconds at most."""


class LineageListener:
    """Collects events and sends them in a thread of its own. Never raises.

    After one event could not be sent, no other is tried: a server that is down costs one timeout.
    """

    def __init__(self, describe: Describe, send: Send) -> None:
        self._describe = describe
        self._send = send
        self._specs: dict[str, GraphFlow] = {}
        self._traces: dict[str, FlowTrace] = {}
        self._parent, self._pipeline = uuid.uuid4().hex, ""
        self._numbers: dict[str, int] = {}
        self._queue: queue.Queue[tuple[str, datetime, FlowTrace] | None] = queue.Queue()
        self._lock = threading.Lock()
        self.sent = 0
        self.lost = 0
        self.error: str | None = None
        self._thread = threading.Thread(target=self._send_queued, daemon=True)
        self._thread.start()

    def __call__(self, event: RunEvent) -> None:
        with self._lock:
            self._note(event)

    def close(self) -> None:
        """Wait up to PATIENCE seconds for events that are not sent yet."""
        self._queue.put(None)
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            self.lost += self._queue.qsize()
            self.error = self.error or f"not all events were sent within {PATIENCE:.0f} s"

    def _note(self, event: RunEvent) -> None:
        match event:
            case RunStarted(run_id, pipeline):
                self._parent, self._pipeline = run_id, pipeline
            case FlowsChosen(specs):
                self._specs |= {spec.name: spec for spec in specs}
            case FlowPlanned(flow, _, batches, _, _, draft) if batches:
                self._begin(flow, draft)
            case BatchCommitted(flow, _, _, rows, _, layout) if flow in self._traces:
                trace = self._traces[flow]
                trace.batches += 1
                trace.rows += rows
                trace.layout = layout or trace.layout
                self._put("RUNNING", trace)
            case FlowEnded(flow, state, rows, _, error, counts):
                if flow not in self._traces and state is State.FAILED:
                    self._begin(flow, None)
                if flow in self._traces:
                    ended = self._traces.pop(flow)
                    ended.rows, ended.counts, ended.error = rows, dict(counts), error
                    self._put(_ENDINGS.get(state, "ABORT"), ended)
            case _:
                pass

    def _begin(self, flow: str, draft: Draft | None) -> None:
        # A run that first finishes an earlier plan of a flow executes that flow twice.
        number = self._numbers[flow] = self._numbers.get(flow, 0) + 1
        name = str(uuid.uuid5(_UUID_NAMESPACE, f"{self._parent}/{flow}/{number}"))
        trace = self._traces[flow] = FlowTrace(name, flow, self._specs.get(flow), draft)
        self._put("START", trace)

    def _put(self, kind: str, trace: FlowTrace) -> None:
        copy = FlowTrace(**{**vars(trace), "counts": dict(trace.counts)})
        self._queue.put((kind, datetime.now(UTC), copy))

    def _send_queued(self) -> None:
        while (found := self._queue.get()) is not None:
            if self.error is not None:
                self.lost += 1
                continue
            kind, at, trace = found
            try:
                self._send(LineageEvent(kind, at, self._parent, self._pipeline, trace, self._look(trace)))
                self.sent += 1
            except Exception as error:  # lineage must not break a run; `error` is reported after close
                self.lost += 1
                ours = isinstance(error, TidegaugeError)
                self.error = mask(error.args[0] if ours else f"{type(error).__name__}: {error}")[:300]

    def _look(self, trace: FlowTrace) -> FlowLineage | None:
        if trace.spec is None:
            return None
        try:
            return self._describe(trace.spec, trace.layout)
        except Exception:  # send the event even without lineage
            return None


def to_uuid(run_id: str) -> str:
    return str(uuid.UUID(run_id))
