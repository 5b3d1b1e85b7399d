"""Progress of a run: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from tidegauge.model.plan import NO_INDEX
from tidegauge.model.position import to_text
from tidegauge.model.secret import mask
from tidegauge.model.state import State
from tidegauge.observe.events import (
    BatchCommitted,
    Comparing,
    FlowEnded,
    FlowPlanned,
    FlowsChosen,
    Listener,
    NoteAdded,
    Planning,
    RunEvent,
    RunStarted,
    SparkStarting,
    StepBegun,
    StepDone,
)

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


@contextmanager
def watch(stream: TextIO) -> Iterator[Listener]:
    """A listener that shows the run on this stream until the block ends."""
    if not stream.isatty():
        yield LogLines(stream)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[batch]}"),
        TextColumn("{task.fields[rows]}", justify="right"),
        TextColumn("{task.fields[rate]}", justify="right"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(file=stream),
    ) as progress:
        yield Bars(progress)


class LogLines:
    """Writes one line for each event that matters, for logs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._once = SaidOnce()

    def __call__(self, event: RunEvent) -> None:
        for line in describe(self._once(event)):
            self._stream.write(mask(line) + "\n")
        self._stream.flush()


class SaidOnce:
    """Removes the note about a missing index from every plan event but the first that has it."""

    def __init__(self) -> None:
        self._has_said = False

    def __call__(self, event: RunEvent) -> RunEvent:
        if not isinstance(event, FlowPlanned):
            return event
        said: list[str] = []
        for note in event.notes:
            if not note.startswith(NO_INDEX):
                said.append(note)
            elif not self._has_said:
                said.append(f"{note} (said once; `tidegauge plan` names all tables of which it is true)")
                self._has_said = True
        return replace(event, notes=tuple(said))


def describe(event: RunEvent) -> list[str]:
    """Return the log lines of an event; none for events not worth a line."""
    match event:
        case Planning(flows):
            return [f"planning {flows} flow{'' if flows == 1 else 's'}"]
        case FlowPlanned(flow, notes=notes):
            said = [f"{flow}: note: {note}" for note in notes]
            return [*said, _describe_plan(event)] if event.batches else said
        case NoteAdded(flow, note):
            return [f"{flow}: note: {note}"]
        case SparkStarting():
            return ["starting Spark"]
        case Comparing(table, number, of):
            return [f"comparing {table} ({number} of {of})"]
        case BatchCommitted(flow, number, of, rows, found):
            return [f"{flow}: batch {number}/{of}: {count_rows(rows)}{', already there' if found else ''}"]
        case FlowEnded():
            return [_describe_end(event)]
        case RunStarted() | FlowsChosen() | StepBegun() | StepDone():
            return []


def _describe_end(ended: FlowEnded) -> str:
    if ended.state is State.SKIPPED:
        why = ended.reason or ended.error
        return f"{ended.flow}: {ended.told_state}{f': {why}' if why else ''}"
    error = f": {ended.error}" if ended.error else ""
    return f"{ended.flow}: {ended.state}: {count_rows(ended.rows)} in {ended.seconds:.1f} s{error}"


def _describe_plan(planned: FlowPlanned) -> str:
    begin = "takes up an earlier plan" if planned.resumed else "planned"
    what = count_rows(planned.rows) if planned.rows is not None else _describe_windows(planned)
    return f"{planned.flow}: {begin}: {what} in {planned.batches} batch{'' if planned.batches == 1 else 'es'}"


def _describe_windows(planned: FlowPlanned) -> str:
    """Describe the versions that rows come from, where rows are counted only when they are read."""
    windows = [(one.input, one.window) for one in (planned.draft.inputs if planned.draft else ())]
    moving = [
        f"{name} from {to_text(window.after)} to {to_text(window.upto)}"
        for name, window in windows
        if window is not None and window.after != window.upto
    ]
    return ", ".join(moving) or "changes"


def count_rows(rows: int) -> str:
    return f"{rows:,} row{'' if rows == 1 else 's'}"


class Bars:
    """A bar for each table: rows, rate and time left."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}
        self._lock = threading.Lock()
        self._once = SaidOnce()
        self._status = progress.add_task("planning", total=None, batch="", rows="", rate="")

    def __call__(self, event: RunEvent) -> None:
        with self._lock:
            self._show(self._once(event))

    def _show(self, event: RunEvent) -> None:
        match event:
            case Planning(flows):
                self._progress.update(
                    self._status, description=f"planning {flows} flow{'' if flows == 1 else 's'}"
                )
            case SparkStarting():
                self._progress.update(self._status, description="starting Spark")
            case Comparing(table, number, of):
                self._progress.update(self._status, description=f"comparing {table} ({number} of {of})")
            case FlowPlanned(flow, rows, batches, resumed, notes):
                for note in notes:
                    self._print(flow, note)
                if batches:
                    name = f"{flow} (taken up)" if resumed else flow
                    if flow in self._tasks:
                        self._progress.remove_task(self._tasks[flow])
                    self._tasks[flow] = self._progress.add_task(
                        name, total=rows, batch="", rows="0 rows", rate=""
                    )
            case NoteAdded(flow, note):
                self._print(flow, note)
            case BatchCommitted(flow, number, of, rows, _):
                self._progress.update(self._status, visible=False)
                self._progress.update(self._tasks[flow], batch=f"batch {number} of {of}")
                self._advance(self._tasks[flow], rows)
            case FlowEnded(flow, state, _, _, _) if flow in self._tasks and state is State.SUCCESS:
                self._progress.update(
                    self._tasks[flow],
                    total=self._count_completed(flow),
                    completed=self._count_completed(flow),
                )
            case FlowEnded() | RunStarted() | FlowsChosen() | StepBegun() | StepDone():
                pass

    def _print(self, flow: str, note: str) -> None:
        self._progress.console.print(mask(f"{flow}: {note}"), style="yellow", markup=False)

    def _count_completed(self, flow: str) -> float:
        return next(task.completed for task in self._progress.tasks if task.id == self._tasks[flow])

    def _advance(self, task: TaskID, rows: int) -> None:
        self._progress.advance(task, rows)
        shown = next(one for one in self._progress.tasks if one.id == task)
        rate = shown.completed / shown.elapsed if shown.elapsed else 0
        self._progress.update(task, rows=count_rows(int(shown.completed)), rate=f"{rate:,.0f}/s")
