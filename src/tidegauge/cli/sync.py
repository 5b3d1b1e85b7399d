"""`tidegauge sync`: `run` with options such as `--backup-only` for one stage."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegauge.cli.confirm import ReasonOption, YesOption
from tidegauge.cli.log import LogFormat, LogFormatOption
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
    one_stage,
    selection,
)
from tidegauge.cli.run import (
    ConfirmDeletesOption,
    DryRunOption,
    FullRefreshOption,
    RunRequest,
    StrategyOption,
    VerifyDataOption,
    carry_out,
)


def command(
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    stage: StageOption = None,
    backup_only: Annotated[bool, typer.Option("--backup-only", help="The same as --stage extract.")] = False,
    redshift_only: Annotated[bool, typer.Option("--redshift-only", help="The same as --stage load.")] = False,
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
    log_format: LogFormatOption = LogFormat.TEXT,  # noqa: ARG001 - read where lines are written
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Bring one table up to date, both its stages; every table, if none is named. The same as run."""
    wanted = RunRequest(
        command="sync",
        selection=selection(select, table),
        stage=one_stage(stage, {"--backup-only": backup_only, "--redshift-only": redshift_only}),
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
    )
    carry_out(project, wanted)
