"""`tidegauge retry`: tries the plans that failed again, and plans nothing new."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegauge.cli.log import LogFormat, LogFormatOption
from tidegauge.cli.options import (
    DebugOption,
    JsonOption,
    ParallelOption,
    ProjectOption,
    SelectOption,
    StageOption,
    TableOption,
    WaitOption,
    selection,
)
from tidegauge.cli.progress import run_watched, show_and_exit
from tidegauge.cli.project import open_project


def command(
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    stage: StageOption = None,
    parallel: ParallelOption = 2,
    wait: WaitOption = "0s",
    reason: Annotated[str | None, typer.Option(help="Why; the history keeps it, if one is given.")] = None,
    log_format: LogFormatOption = LogFormat.TEXT,  # noqa: ARG001 - read where lines are written
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Try the plans again that failed or were left, with the same windows; plan nothing new."""
    from tidegauge.config.durations import parse_duration
    from tidegauge.operations.retry import retry
    from tidegauge.run.options import RunOptions

    chosen = selection(select, table)
    order = RunOptions(chosen, stage=stage, parallel=parallel, wait=parse_duration(wait), debug=debug)
    loaded = open_project(project)
    report, signalled = run_watched(
        loaded,
        lambda tell, stop: retry(loaded, order, tell=tell, stop=stop, reason=reason),
        json=json,
        debug=debug,
    )
    show_and_exit(loaded, report, "retry", selection=chosen, signalled=signalled, json=json, debug=debug)
