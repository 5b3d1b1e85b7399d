"""`tidegauge.load_project`: a project file, and what can be done with it from Python."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from types import FrameType

from tidegauge.api.results import PlanResult, RunResult, StatusResult, VerifyResult, WatermarksResult
from tidegauge.config.durations import parse_duration
from tidegauge.config.find import find_project
from tidegauge.config.load import load_project as read_project
from tidegauge.errors import ConfigError, RunFailed, TidegaugeError
from tidegauge.model.spec import Project, Stage
from tidegauge.observe.events import Listener
from tidegauge.observe.notebook import is_notebook, watch_in_notebook
from tidegauge.observe.progress import watch
from tidegauge.operations.plan import preview
from tidegauge.operations.status import summarize_flows
from tidegauge.operations.telemetry import LineageForwarder, send_telemetry, tell_of_error
from tidegauge.operations.verify import explain_nothing_compared, verify
from tidegauge.operations.watermarks import list_watermarks
from tidegauge.run.options import RunOptions
from tidegauge.run.run import run

SelectWords = str | Sequence[str]
"""What `--select` takes: one or several names, patterns, `tag:x`, `+up` or `down+`."""

_log = logging.getLogger("tidegauge")


def load_project(path: str | os.PathLike[str] | None = None) -> LoadedProject:
    """Load the project from this file, or from the `tidegauge.yml` in this folder.

    Without a path, the file is searched in the working folder and its parents. The file is read once: load
    the project again to see later changes.
    """
    return LoadedProject(read_project(find_project(None, Path(path) if path is not None else None)))


@dataclass(frozen=True)
class LoadedProject:
    """Does what `tidegauge plan`, `run`, `status`, `verify` and `watermark list` do, with typed results.

    An error that stops a command is raised; its text ends with the hint.
    """

    spec: Project

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.spec.pipeline

    def __repr__(self) -> str:
        return f"<Tidegauge project {self.name} in {self.spec.root}>"

    def plan(
        self, select: SelectWords = (), *, stage: str | None = None, limit: int | None = None
    ) -> PlanResult:
        """Preview what a run would read and write, and why. Writes nothing.

        An error of a single flow is not raised: it is in that flow's entry.
        """
        notes: list[str] = []
        flows = preview(
            self.spec, _list_words(select), stage=_parse_stage(stage), limit=limit, remark=notes.append
        )
        return PlanResult(tuple(flows), tuple(notes))

    def run(
        self,
        select: SelectWords = (),
        *,
        stage: str | None = None,
        parallel: int = 2,
        limit: int | None = None,
        wait: str | timedelta = "0s",
        confirm_deletes: bool = False,
        check: bool = True,
        progress: bool | Listener = True,
    ) -> RunResult:
        """Read what is new and commit it, exactly once.

        `check`: raise RunFailed, with the whole result in its `result`, if a flow failed; if False, look at
        `result.ok`. `wait`: how long to wait for flows that another runner holds. `progress`: True shows it
        in the notebook or on stderr; a function receives the run's events instead. In the main thread, the
        first Ctrl-C stops after the current batch and then raises KeyboardInterrupt, the second raises it at
        once.
        """
        options = RunOptions(
            _list_words(select),
            stage=_parse_stage(stage),
            parallel=parallel,
            limit=limit,
            wait=parse_duration(wait) if isinstance(wait, str) else wait,
            confirm_deletes=confirm_deletes,
        )
        with _catch_interrupt() as stop:
            result = self._run(options, progress, stop)
        if check and not result.ok:
            raise _make_failure(result)
        return result

    def _run(self, options: RunOptions, progress: bool | Listener, stop: threading.Event) -> RunResult:
        try:
            with (
                _open_progress(progress) as tell,
                LineageForwarder(self.spec, tell, warn=_log.warning) as traced,
            ):
                report = run(self.spec, options, tell=traced, stop=stop)
        except TidegaugeError as error:
            tell_of_error(self.spec, error, warn=_log.warning)
            raise
        report = replace(report, lineage=traced.outcome)
        told = (
            {} if stop.is_set() else send_telemetry(self.spec, report, options.selection, warn=_log.warning)
        )
        return RunResult(report, told)

    def status(self, select: SelectWords = ()) -> StatusResult:
        """Show where every flow stands, from the ledger alone: asks no source and starts no Spark."""
        at, flows = summarize_flows(self.spec, _list_words(select))
        return StatusResult(at, tuple(flows))

    def verify(
        self, select: SelectWords = (), *, stage: str | None = None, progress: bool | Listener = True
    ) -> VerifyResult:
        """Compare source and target up to the watermark, key by key; the result's `equal` says if they match.

        Raises NotCompared if no table could be compared.
        """
        with _open_progress(progress) as tell:
            found = verify(self.spec, _list_words(select), stage=_parse_stage(stage), tell=tell)
            nothing = explain_nothing_compared(found)
            if nothing is not None:
                raise nothing
            return VerifyResult(tuple(found))

    def watermarks(self) -> WatermarksResult:
        """List the watermark of every input."""
        at, marks = list_watermarks(self.spec)
        return WatermarksResult(at, tuple(marks))


def _make_failure(result: RunResult) -> RunFailed:
    (name, first), *others = [
        (flow.flow, flow.error) for flow in result.flows if flow.error is not None and not flow.ok
    ]
    more = f"; so did {', '.join(other for other, _ in others)}" if others else ""
    error = RunFailed(f"{name} failed: {first.sentence}{more}", hint=first.hint, result=result)
    error.__cause__ = first
    return error


def _list_words(select: SelectWords) -> tuple[str, ...]:
    return (select,) if isinstance(select, str) else tuple(select)


def _parse_stage(word: str | None) -> Stage | None:
    try:
        return None if word is None else Stage(word)
    except ValueError:
        stages = " or ".join(f'"{one.value}"' for one in Stage)
        raise ConfigError(f"there is no stage {word!r}", hint=f"write {stages}") from None


def _open_progress(progress: bool | Listener) -> AbstractContextManager[Listener]:
    if callable(progress):
        return nullcontext(progress)
    if not progress:
        return nullcontext(lambda _: None)
    return watch_in_notebook() if is_notebook() else watch(sys.stderr)


@contextmanager
def _catch_interrupt() -> Iterator[threading.Event]:
    """Give an event that the first Ctrl-C sets; outside the main thread nothing sets it."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def ask(_: int, __: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        sys.stderr.write("stopping after the batch in hand; once more stops at once\n")

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
    if stop.is_set():
        raise KeyboardInterrupt
