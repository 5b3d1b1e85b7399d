"""`tidegauge run`: brings every flow up to date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegauge.cli.confirm import ReasonOption, YesOption
from tidegauge.cli.log import LogFormat, LogFormatOption, watch_here
from tidegauge.cli.options import (
    DebugOption,
    JsonOption,
    LimitOption,
    ParallelOption,
    ProjectOption,
    SelectOption,
    StageOption,
    TableOption,
    WaitOption,
    local,
    selection,
)
from tidegauge.cli.output import say
from tidegauge.cli.plan import show as show_plan
from tidegauge.cli.progress import run_watched, show_and_exit
from tidegauge.cli.project import open_project
from tidegauge.cli.refresh import refresh
from tidegauge.cli.serve import check_extra
from tidegauge.cli.write_file import check_place, write_file
from tidegauge.errors import ConfigError
from tidegauge.model.spec import Stage, Strategy

if TYPE_CHECKING:
    from tidegauge.model.spec import Project
    from tidegauge.operations.override import OverrideResult
    from tidegauge.operations.verify import TableVerification
    from tidegauge.run.report import RunReport

StrategyOption = Annotated[
    Strategy | None,
    typer.Option(
        help="What goes side by side. Else tables do, each with as many readers as `parallel` says."
    ),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Only show what would be read and written, as plan does.")
]
FullRefreshOption = Annotated[
    bool,
    typer.Option(
        "--full-refresh",
        help="Begin again at the beginning, with nothing left of what is there; needs a reason.",
    ),
]
VerifyDataOption = Annotated[
    bool, typer.Option("--verify-data", help="Then prove source and targets equal; exit 1 if they are not.")
]
ConfirmDeletesOption = Annotated[
    bool,
    typer.Option("--confirm-deletes", help="Also take more from a target at once than deletes_limit allows."),
]


@dataclass(frozen=True)
class RunRequest:
    """The options of `run` or `sync`, as both commands understand them."""

    command: str
    selection: tuple[str, ...]
    stage: Stage | None
    parallel: int
    strategy: Strategy | None
    limit: int | None
    wait: str
    dry_run: bool
    full_refresh: bool
    verify_data: bool
    confirm_deletes: bool
    reason: str | None
    yes: bool
    json: bool
    debug: bool
    report: Path | None = None


def command(
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    stage: StageOption = None,
    parallel: ParallelOption = 2,
    strategy: StrategyOption = None,
    limit: LimitOption = None,
    wait: WaitOption = "0s",
    dry_run: DryRunOption = False,
    full_refresh: FullRefreshOption = False,
    verify_data: VerifyDataOption = False,
    confirm_deletes: ConfirmDeletesOption = False,
    reason: ReasonOption = None,
    yes: YesOption = False,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page about the run, such as run.html.")
    ] = None,
    log_format: LogFormatOption = LogFormat.TEXT,  # noqa: ARG001 - read where lines are written
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Read what is new in every table and commit it, exactly once."""
    wanted = RunRequest(
        command="run",
        selection=selection(select, table),
        stage=stage,
        parallel=parallel,
        strategy=strategy,
        limit=limit,
        wait=wait,
        dry_run=dry_run,
        full_refresh=full_refresh,
        verify_data=verify_data,
        confirm_deletes=confirm_deletes,
        reason=reason,
        yes=yes,
        json=json,
        debug=debug,
        report=report,
    )
    carry_out(project, wanted)


def carry_out(path: Path | None, wanted: RunRequest) -> None:
    """The work of both commands: run, verify and report as `wanted` says, then exit."""
    from tidegauge.config.durations import parse_duration
    from tidegauge.run.options import RunOptions
    from tidegauge.run.run import run

    if wanted.reason and not wanted.full_refresh:
        raise ConfigError("--reason belongs to --full-refresh", hint="leave it out: a run needs none")
    if wanted.report is not None:
        check_extra()
        check_place(local(wanted.report))
    json, debug = wanted.json, wanted.debug
    order = RunOptions(
        wanted.selection,
        stage=wanted.stage,
        parallel=wanted.parallel,
        strategy=wanted.strategy,
        limit=wanted.limit,
        wait=parse_duration(wanted.wait),
        confirm_deletes=wanted.confirm_deletes,
        debug=debug,
    )
    project = open_project(path)
    refreshed: Sequence[OverrideResult] = ()
    if wanted.full_refresh:
        refreshed = refresh(
            project,
            wanted.selection,
            wanted.stage,
            command=wanted.command,
            reason=wanted.reason,
            yes=wanted.yes,
            dry_run=wanted.dry_run,
            json=json,
            debug=debug,
        )
        # A flow whose new epoch could not begin is not run, and its error is reported at the end.
        order = replace(order, selection=tuple(one.preview.name for one in refreshed if one.error is None))
    elif wanted.dry_run:
        show_plan(project, order.selection, stage=order.stage, limit=order.limit, json=json, debug=debug)
    report, signalled = run_watched(
        project, lambda tell, stop: run(project, order, tell=tell, stop=stop), json=json, debug=debug
    )
    verified = None
    if wanted.verify_data and not signalled and not report.errors:
        verified = _verify(project, report, debug=debug)
    if wanted.verify_data and verified is None and not json:
        say("not verified: not every flow ended well")
    if wanted.report is not None:
        _write_page(wanted.report, project, report)
    show_and_exit(
        project,
        report,
        wanted.command,
        selection=wanted.selection,
        verified=verified,
        refreshed=refreshed,
        signalled=signalled,
        json=json,
        debug=debug,
    )


def _write_page(file: Path, project: Project, report: RunReport) -> None:
    from tidegauge.dashboard.files import make_run_file

    write_file(file, make_run_file(project, report))


def _verify(project: Project, report: RunReport, *, debug: bool) -> list[TableVerification]:
    from tidegauge.operations.verify import verify

    names = sorted({flow.flow for flow in report.flows})
    with watch_here(debug=debug) as tell:
        return verify(project, names, tell=tell, debug=debug) if names else []
