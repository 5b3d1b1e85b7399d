"""Progress of a run in a notebook: one table below the cell, updated while the flows run."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from tidegauge.model.state import NOTHING_NEW, State
from tidegauge.observe.events import (
    BatchCommitted,
    Comparing,
    FlowEnded,
    FlowPlanned,
    Listener,
    NoteAdded,
    Planning,
    RunEvent,
    SparkStarting,
)
from tidegauge.observe.progress import SaidOnce
from tidegauge.observe.tables import Table

_PAUSE = 0.2
"""Seconds between two updates of the table: a notebook holds each update for a moment."""
_COLUMNS = ("flow", "state", "batch", "rows")


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook, Jupyter's or Databricks'."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


@contextmanager
def watch_in_notebook() -> Iterator[Listener]:
    display: Any = import_module("IPython.display")
    progress = NotebookProgress()
    handle = display.display(progress, display_id=True)
    progress.show = handle.update
    try:
        yield progress
    finally:
        handle.update(progress)


class NotebookProgress:
    """A listener that is shown as a table; calls `show` with itself when the table has changed."""

    def __init__(self) -> None:
        self.show: Callable[[NotebookProgress], None] = lambda _: None
        self._lock = threading.Lock()
        self._once = SaidOnce()
        self._doing = "planning"
        self._flows: dict[str, list[object]] = {}
        self._notes: list[str] = []
        self._shown_at = float("-inf")

    @property
    def table(self) -> Table:
        rows = tuple((flow, *cells) for flow, cells in self._flows.items())
        doing = (f"{self._doing} …",) if self._doing else ()
        return Table(_COLUMNS, rows, numbers=("rows",), notes=(*self._notes, *doing))

    def __repr__(self) -> str:
        return self.table.to_text()

    def _repr_html_(self) -> str:
        return self.table.to_html()

    def __call__(self, event: RunEvent) -> None:
        with self._lock:
            self._take(self._once(event))
            if time.monotonic() - self._shown_at >= _PAUSE or isinstance(event, FlowEnded):
                self._shown_at = time.monotonic()
                self.show(self)

    def _take(self, event: RunEvent) -> None:
        match event:
            case Planning(flows):
                self._doing = f"planning {flows:,} flow{'' if flows == 1 else 's'}"
            case SparkStarting():
                self._doing = "starting Spark"
            case Comparing(table, number, of):
                self._doing = f"comparing {table} ({number} of {of})"
            case FlowPlanned(flow, batches=batches, notes=notes):
                self._notes += [f"{flow}: {note}" for note in notes]
                self._flows[flow] = [State.RUNNING if batches else NOTHING_NEW, "", 0]
                self._doing = ""
            case NoteAdded(flow, note):
                self._notes.append(f"{flow}: {note}")
            case BatchCommitted(flow, number, of, rows):
                before = self._flows.get(flow, [State.RUNNING, "", 0])[2]
                total = (before if isinstance(before, int) else 0) + rows
                self._flows[flow] = [State.RUNNING, f"{number} of {of}", total]
                self._doing = ""
            case FlowEnded(flow, _, rows):
                batch = self._flows.get(flow, ["", "", 0])[1]
                self._flows[flow] = [event.told_state, batch, rows]
            case _:
                pass
