"""`tidegauge health`: one line for each flow; exit code 1 when something is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegauge.cli.options import (
    DebugOption,
    JsonOption,
    PipelineOption,
    ProjectOption,
    SelectOption,
    TableOption,
    local,
    selection,
)
from tidegauge.cli.output import print_json, print_table, say
from tidegauge.cli.project import open_project
from tidegauge.cli.write_file import write_file
from tidegauge.errors import ConfigError
from tidegauge.observe.tables import show_ago

if TYPE_CHECKING:
    from datetime import datetime

    from tidegauge.model.health import HealthFinding
    from tidegauge.model.spec import Project
    from tidegauge.operations.health import Health


def command(
    data: Annotated[
        bool, typer.Option("--data", help="Look into the rows of Delta outputs too, which starts Spark.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page for a browser, such as health.html.")
    ] = None,
    alert: Annotated[
        bool, typer.Option("--alert", help="Tell the channels of `alerts:` what they do not know yet.")
    ] = False,
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    pipeline: PipelineOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Say what is wrong or soon will be: freshness, counts, quality, performance, status, times missed."""
    from tidegauge.model.health import HealthLevel, worst
    from tidegauge.operations.health_pipeline import examine_pipeline

    opened, chosen = open_project(project), selection(select, table)
    now, found = _examine(opened, chosen, pipeline)
    if data and opened.delta_flows:
        found = _add_data_findings(opened, found, debug=debug)
    whole = [] if chosen or pipeline else examine_pipeline(opened)
    overall = worst([*(one.level for one in found), *(one.level for one in whole)])
    bad = overall is HealthLevel.CRITICAL
    if report is not None:
        _write_page(local(report), opened, now, found, whole)
    told = _send_new_alerts(opened, found, chosen, pipeline) if alert else {}
    if json:
        print_json(
            {
                "schema": "tidegauge/health/1",
                "healthy": not bad,
                "status": overall.value,
                "flows": [one.to_json() for one in found],
                "checks": [{"flow": one.flow, **check.to_json()} for one in found for check in one.findings],
                "pipeline": [one.to_json() for one in whole],
                **told,
            }
        )
    elif not found:
        say("this project has no flows")
    else:
        _show(found, now)
        _show_pipeline(whole)
        say(overall.value)
    raise typer.Exit(int(bad))


def _examine(project: Project, chosen: Sequence[str], pipeline: str | None) -> tuple[datetime, list[Health]]:
    from tidegauge.operations.health import check_health, examine_tracker

    return examine_tracker(project, pipeline) if pipeline else check_health(project, chosen)


def _send_new_alerts(
    project: Project, found: Sequence[Health], chosen: Sequence[str], pipeline: str | None
) -> dict[str, Any]:
    from tidegauge.cli.log import warn
    from tidegauge.operations.alerts import send_alerts
    from tidegauge.operations.telemetry import report_told

    if project.telemetry.alerts is None:
        raise ConfigError(
            "--alert needs somebody to tell", hint="add `alerts: {to: [...]}` to the project file"
        )
    return report_told(
        send_alerts(project, selection=[pipeline] if pipeline else chosen, found=found), warn=warn
    )


def _show(found: Sequence[Health], now: datetime) -> None:
    print_table(
        ["", "flow", "state", "last success", "failures", "what"],
        [
            [
                "✗" if one.problems else "✓",
                one.flow,
                one.told_state,
                show_ago(one.last_success, now),
                one.failures,
                "; ".join((*one.problems, *one.warnings)),
            ]
            for one in found
        ],
        numbers=("failures",),
    )


def _show_pipeline(whole: Sequence[HealthFinding]) -> None:
    from tidegauge.model.health import HealthLevel

    for one in whole:
        if one.level is not HealthLevel.HEALTHY:
            say(f"{'✗' if one.level is HealthLevel.CRITICAL else '!'} {one.check}: {one.says}")


def _add_data_findings(project: Project, found: Sequence[Health], *, debug: bool) -> list[Health]:
    from tidegauge.operations.health_data import check_tables

    names = {flow.name for flow in project.delta_flows}
    wanted = [one.flow for one in found if one.flow in names]
    looked = check_tables(project, wanted, debug=debug) if wanted else {}
    return [one.adding(looked.get(one.flow, ())) for one in found]


def _write_page(
    file: Path, project: Project, now: datetime, found: Sequence[Health], whole: Sequence[HealthFinding]
) -> None:
    from tidegauge.observe.health_page import health_page

    tags = {flow.name: flow.tags for flow in project.delta_flows}
    places = {name: place for place, name in enumerate(tags)}
    # Flows between Delta tables in the order of the project file, as data goes through the layers.
    shown = sorted(found, key=lambda one: places.get(one.flow, -1))
    reports = [one.to_report(next(iter(tags.get(one.flow, ())), "")) for one in shown]
    page = health_page(project.pipeline, now, reports, whole)
    write_file(file, page)
