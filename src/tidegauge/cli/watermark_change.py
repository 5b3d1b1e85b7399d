"""`tidegauge watermark set|reset|copy|undo`: changes by hand where flows go on."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegauge.cli.confirm import DryRunOption, ForceOption, PreviewedOption, ReasonOption, YesOption
from tidegauge.cli.options import (
    DebugOption,
    JsonOption,
    PipelineOption,
    ProjectOption,
    SelectOption,
    StageOption,
    TableOption,
    one_stage,
    selection,
)
from tidegauge.cli.project import open_project
from tidegauge.cli.watermark_ask import override
from tidegauge.cli.watermark_tracked import override as override_tracked
from tidegauge.errors import ConfigError
from tidegauge.model.spec import Stage

_FirstStageOption = Annotated[
    Stage | None,
    typer.Option(
        help="Which stage of a table that has two. Default: extract; load follows what extract then writes."
    ),
]


def set_(
    timestamp: Annotated[
        str | None, typer.Option(help="Everything up to this moment counts as read: '2025-08-01 00:00:00'.")
    ] = None,
    position: Annotated[
        str | None,
        typer.Option(
            help="""A value of the cursor, or {"cursor": …, "key": […]} as --json shows it; for the stage
            load, how many batches of the lake count as loaded."""
        ),
    ] = None,
    stage: _FirstStageOption = None,
    reason: ReasonOption = None,
    force: ForceOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    previewed: PreviewedOption = None,
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    pipeline: PipelineOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Go on from another position; what is in the lake stays. Of a Delta table a timestamp means the version
    that it had then."""
    from tidegauge.flows.override.preview import SetTo

    if (timestamp is None) == (position is None):
        raise ConfigError(
            "`watermark set` needs either --timestamp or --position",
            hint="--timestamp '2025-08-01 00:00:00', or --position 1042",
        )
    if pipeline is not None:
        from tidegauge.operations.tracker_pipelines import preview_set

        _refuse_previewed(previewed)
        found = open_project(project)
        tables = selection(select, table)
        preview = preview_set(found, pipeline, tables, timestamp=timestamp, position=position)
        override_tracked(found, preview, reason=reason, yes=yes, dry_run=dry_run, force=force, json=json)
        return
    override(
        open_project(project),
        _named("set", select, table),
        SetTo(timestamp, position),
        command="set",
        stage=stage,
        reason=reason,
        yes=yes,
        dry_run=dry_run,
        force=force,
        json=json,
        debug=debug,
        previewed=previewed,
    )


def reset(
    stage: StageOption = None,
    mysql_only: Annotated[bool, typer.Option("--mysql-only", help="The same as --stage extract.")] = False,
    redshift_only: Annotated[bool, typer.Option("--redshift-only", help="The same as --stage load.")] = False,
    reason: ReasonOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    previewed: PreviewedOption = None,
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    pipeline: PipelineOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Begin again at the beginning; readers no longer follow what is in the lake now."""
    from tidegauge.flows.override.preview import Reset

    if pipeline is not None:
        from tidegauge.operations.tracker_pipelines import preview_reset

        _refuse_previewed(previewed)
        found = open_project(project)
        preview = preview_reset(found, pipeline, selection(select, table))
        override_tracked(found, preview, reason=reason, yes=yes, dry_run=dry_run, force=True, json=json)
        return
    override(
        open_project(project),
        _named("reset", select, table),
        Reset(),
        command="reset",
        stage=one_stage(stage, {"--mysql-only": mysql_only, "--redshift-only": redshift_only}),
        reason=reason,
        yes=yes,
        dry_run=dry_run,
        force=True,
        json=json,
        debug=debug,
        previewed=previewed,
    )


def copy(
    from_: Annotated[str, typer.Option("--from", help="The flow whose watermark is copied.")],
    to: Annotated[str, typer.Option("--to", help="The flow that goes on from there.")],
    from_pipeline: Annotated[
        str | None, typer.Option(help="The pipeline of --from, in the same ledger, if it is another.")
    ] = None,
    stage: _FirstStageOption = None,
    reason: ReasonOption = None,
    force: ForceOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    project: ProjectOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Let one flow go on from where another stands."""
    from tidegauge.flows.override.preview import CopyOf

    override(
        open_project(project),
        (to,),
        CopyOf(from_, from_pipeline),
        command="copy",
        stage=stage,
        reason=reason,
        yes=yes,
        dry_run=dry_run,
        force=force,
        json=json,
        debug=debug,
    )


def undo(
    stage: StageOption = None,
    reason: ReasonOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Take the last change by hand back: position and lake are as they were before it."""
    from tidegauge.flows.override.preview import UndoLast

    override(
        open_project(project),
        _named("undo", select, table),
        UndoLast(),
        command="undo",
        stage=stage,
        reason=reason,
        yes=yes,
        dry_run=dry_run,
        force=True,
        json=json,
        debug=debug,
    )


def _refuse_previewed(previewed: str | None) -> None:
    if previewed is not None:
        raise ConfigError(
            "--previewed is for flows of the project, and not with --pipeline", hint="leave one of them out"
        )


def _named(command: str, select: list[str] | None, table: list[str] | None) -> tuple[str, ...]:
    """The flows that the user named. Raises ConfigError if none were."""
    wanted = selection(select, table)
    if not wanted:
        raise ConfigError(
            f"`watermark {command}` needs to know which flows", hint="name one with -t; all: --select '*'"
        )
    return wanted
