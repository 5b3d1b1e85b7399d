"""Shows a run while it is under way, and how it ended: shared by `run`, `retry`, `backfill` and `repair`."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from tidegauge.cli.delta_tables import describe
from tidegauge.cli.log import log_line, warn, watch_here
from tidegauge.cli.output import fits, print_json, report_error, say, show_table
from tidegauge.cli.override_table import count
from tidegauge.errors import Stopped, TidegaugeError

if TYPE_CHECKING:
    from tidegauge.model.spec import Project
    from tidegauge.observe.events import Listener
    from tidegauge.operations.override import OverrideResult
    from tidegauge.operations.verify import TableVerification
    from tidegauge.run.report import RunReport


def run_watched(
    project: Project, go: Callable[[Listener, threading.Event], RunReport], *, json: bool, debug: bool
) -> tuple[RunReport, int]:
    """Call `go` with a listener and a stop event. Returns its report, and 128 plus the number of the signal
    that asked to stop; 0 without one."""
    from tidegauge.operations.telemetry import LineageForwarder, tell_of_error

    stop = Stop()
    try:
        with stop, watch_here(debug=debug) as tell, LineageForwarder(project, tell, warn=warn) as traced:
            report = go(traced, stop.asked)
    except Stopped as error:
        report_error(error, json=json, debug=debug)
        raise typer.Exit(stop.exit_code) from None
    except TidegaugeError as error:
        tell_of_error(project, error, warn=warn)
        raise
    return replace(report, lineage=traced.outcome), stop.exit_code


def show_and_exit(
    project: Project,
    report: RunReport,
    command: str,
    *,
    selection: Sequence[str] = (),
    verified: Sequence[TableVerification] | None = None,
    refreshed: Sequence[OverrideResult] = (),
    signalled: int = 0,
    json: bool,
    debug: bool,
    more: dict[str, Any] | None = None,
) -> NoReturn:
    """Show the report as a table or as JSON, and exit: with `signalled`, or if that is 0, by the outcome."""
    from tidegauge.operations.telemetry import send_telemetry
    from tidegauge.operations.verify import explain_nothing_compared, is_proven

    if not json:
        _show_all(project, report, verified)
    told = {} if signalled else send_telemetry(project, report, selection, warn=warn)
    if json:
        print_json(report.to_json(command) | (more or {}) | _details(refreshed, verified) | told)
    failed = _find_failed(refreshed) + report.errors
    nothing = None if verified is None else explain_nothing_compared(verified)
    if nothing is None:
        failed += _find_errors(verified or ())
    elif not failed:
        raise typer.Exit(signalled or report_error(nothing, json=False, debug=debug))
    if debug or not json:
        _report_all(failed, debug=debug)
    good = not failed and (verified is None or is_proven(verified))
    raise typer.Exit(signalled or int(not good))


def _show_all(project: Project, report: RunReport, verified: Sequence[TableVerification] | None) -> None:
    from tidegauge.cli.verify import show as show_verified

    show(report)
    if not (project.syncs or project.delta_flows or project.views):
        say("the project file has no `sync:` and no `flows:`")
    if verified is not None:
        show_verified(list(verified))


def _find_failed(refreshed: Sequence[OverrideResult]) -> list[TidegaugeError]:
    return [one.error for one in refreshed if one.error is not None]


def _find_errors(verified: Sequence[TableVerification]) -> list[TidegaugeError]:
    return [one.error for one in verified if one.error is not None and not one.excused]


def _report_all(errors: Sequence[TidegaugeError], *, debug: bool) -> None:
    """Show each error; flows that were only stopped share one sentence."""
    stopped = sum(isinstance(error, Stopped) for error in errors)
    for error in errors:
        if not isinstance(error, Stopped):
            report_error(error, json=False, debug=debug)
    if stopped:
        many = f"{stopped} flows go" if stopped > 1 else "one flow goes"
        said = f"stopped as asked: {many} on from here with the next run"
        sys.stderr.write(log_line(said, event="stopped", level="warning") + "\n")


def _details(
    refreshed: Sequence[OverrideResult], verified: Sequence[TableVerification] | None
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if refreshed:
        found["refreshed"] = [one.to_json() for one in refreshed]
    if verified is not None:
        found["verify"] = {"tables": [one.to_json() for one in verified]}
    return found


def show(report: RunReport) -> None:
    """Print the table at the end of a run, and its notes."""
    _show_flows(report)
    for note in report.notes:
        say(f"note: {note}")


def _show_flows(report: RunReport) -> None:
    if not report.flows:
        say("nothing to do")
        return
    from tidegauge.api.tables import CHANGES, run_table, tells_changes

    wide = run_table(report)
    if fits(wide):
        show_table(wide)
    else:
        show_table(run_table(report, changes=False))
        for flow in filter(tells_changes, report.flows):
            say(f"{flow.flow}: {', '.join(f'{count(flow.count(which))} {which}' for which in CHANGES)}")
    _show_endings(report)


def _show_endings(report: RunReport) -> None:
    for flow in report.flows:
        for said in (*flow.limit_notes, *flow.endings):
            say(f"{flow.flow}: {said}")
        for said in describe(flow.optimized):
            say(f"{flow.flow}: {said}")


class Stop:
    """Handles SIGINT and SIGTERM: the first asks to stop after the current batch, a second exits at once."""

    def __init__(self, says: str = "stopping after the batch in hand; once more stops at once") -> None:
        self.asked = threading.Event()
        self.exit_code = 0
        self._says = f"{log_line(says, event='stopping', level='warning')}\n".encode()

    def __enter__(self) -> Stop:
        self._before = {name: signal.signal(name, self._ask) for name in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for name, handler in self._before.items():
            signal.signal(name, handler)

    def _ask(self, number: int, _: FrameType | None) -> None:
        code = 128 + number
        if self.asked.is_set():
            os._exit(code)
        self.exit_code = code
        self.asked.set()
        # Not through `sys.stderr`, whose lock the interrupted code may hold.
        os.write(2, self._says)
