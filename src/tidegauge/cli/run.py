"""`tidegauge run`: bring every flow up to date."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from tidegauge.cli.options import DebugOption, JsonOption, ProjectOption, SelectOption, TableOption, selection
from tidegauge.cli.output import print_json, print_table, report_error
from tidegauge.cli.project import open_project
from tidegauge.errors import Stopped

if TYPE_CHECKING:
    from tidegauge.engine.report import RunReport


def command(
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    parallel: Annotated[int, typer.Option(min=1, max=64, help="How many flows run side by side.")] = 2,
    wait: Annotated[
        str, typer.Option(help="How long to wait for a flow that another runner holds: 60s.")
    ] = "0s",
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Read what is new in every table and commit it, exactly once."""
    from tidegauge.config.durations import parse_duration
    from tidegauge.engine.run import Order, run
    from tidegauge.observe.view import watch

    loaded = open_project(project)
    order = Order(selection(select, table), parallel=parallel, wait=parse_duration(wait), debug=debug)
    stop = Stop()
    try:
        with stop, watch(sys.stderr) as tell:
            report = run(loaded, order, tell=tell, stop=stop.asked)
    except Stopped as error:
        report_error(error, json=json, debug=debug)
        raise typer.Exit(stop.exit_code) from None
    if json:
        print_json(report.to_json())
    else:
        show(report)
    for flow in report.flows:
        if flow.error is not None and (debug or not json):
            report_error(flow.error, json=False, debug=debug)
    raise typer.Exit(stop.exit_code or (0 if all(flow.ok for flow in report.flows) else 1))


def show(report: RunReport) -> None:
    """The closing table."""
    columns = ["flow", "state", "batches", "rows", "seconds", "up to"]
    rows = []
    for flow in report.flows:
        windows = flow.to_json()["windows"]
        upto = windows[0]["upto"] if windows else None
        rows.append(
            [
                flow.flow,
                flow.state,
                flow.batches,
                flow.rows,
                f"{flow.seconds:.1f}",
                upto["cursor"] if isinstance(upto, dict) else upto,
            ]
        )
    print_table(columns, rows, numbers=("batches", "rows", "seconds"))


class Stop:
    """The first signal asks to stop after the batch in hand; the second stops at once."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.exit_code = 0

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
        # Past Python's buffer, which the code that was interrupted may be holding.
        os.write(2, b"stopping after the batch in hand; once more stops at once\n")
