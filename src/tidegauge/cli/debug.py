"""`--debug` for commands that run flows: windows, statements, files, and the time that each step takes."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidegauge.cli.explain import describe_batches
from tidegauge.cli.log import log_line
from tidegauge.model.trace import TRACE

if TYPE_CHECKING:
    from tidegauge.observe.events import Listener, RunEvent


@contextmanager
def debugging(tell: Listener) -> Iterator[Listener]:
    """A listener that also writes debug lines to stderr, until the block ends."""
    handler, before = _TracedLines(), TRACE.level
    TRACE.addHandler(handler)
    TRACE.setLevel(logging.DEBUG)
    try:
        yield StepTimes(tell)
    finally:
        TRACE.removeHandler(handler)
        TRACE.setLevel(before)


class _TracedLines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        _write(record.getMessage())


class StepTimes:
    """Passes events on to `tell`, and writes the windows of each new plan and the seconds of each step."""

    def __init__(self, tell: Listener) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._began: dict[tuple[str, str], float] = {}

    def __call__(self, event: RunEvent) -> None:
        from tidegauge.observe.events import FlowPlanned, StepBegun, StepDone

        match event:
            case FlowPlanned(flow, draft=draft) if draft is not None:
                for line in describe_batches(draft, len(draft.batches) - event.batches):
                    _write(f"{flow}: {line}")
            case StepBegun(flow, step):
                with self._lock:
                    self._began[flow, step] = time.perf_counter()
            case StepDone(flow, step):
                with self._lock:
                    took = time.perf_counter() - self._began.pop((flow, step))
                _write(f"{flow}: {step} took {took:.3f} s")
            case _:
                pass
        self._tell(event)


def _write(text: str) -> None:
    at = f"{time.strftime('%H:%M:%S')} "
    sys.stderr.write(log_line(f"debug: {at}{text}", event="debug", level="debug") + "\n")
