"""`tidegauge export workflow`: prints the project's flows as a job of another scheduler."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from tidegauge.cli.group import make_group
from tidegauge.cli.options import DebugOption, ProjectOption, SelectOption
from tidegauge.cli.output import say
from tidegauge.cli.project import open_project

app = make_group("The project in the words of other tools.")


class ExportTarget(StrEnum):
    DATABRICKS = "databricks"
    AIRFLOW = "airflow"
    DAGSTER = "dagster"


@app.callback()
def export() -> None:
    """The project in the words of other tools."""


@app.command("workflow")
def workflow(
    target: Annotated[ExportTarget, typer.Option(help="The scheduler to export to.")],
    schedule: Annotated[
        str | None, typer.Option(metavar="CRON", help="When it starts: '30 5 * * *'. Else as the file says.")
    ] = None,
    timezone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="The time zone of the schedule.")
    ] = None,
    email: Annotated[
        list[str] | None, typer.Option(metavar="ADDRESS", help="Who is told when it fails. May be repeated.")
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="PATH", help="The project's folder where the tasks run.")
    ] = None,
    by_flow: Annotated[
        bool, typer.Option("--by-flow", help="A task for each flow, whatever tasks the file has.")
    ] = False,
    project: ProjectOption = None,
    select: SelectOption = None,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Print the flows as a Databricks job, an Airflow DAG or Dagster definitions: a task for each group."""
    from tidegauge.config.workflow import override_workflow
    from tidegauge.export.airflow import to_airflow
    from tidegauge.export.dagster import to_dagster
    from tidegauge.export.databricks import to_databricks
    from tidegauge.operations.workflow import plan_workflow

    opened = open_project(project)
    planned = plan_workflow(opened, tuple(select or ()), by_flow=by_flow)
    made = override_workflow(planned.workflow, schedule=schedule, timezone=timezone, email=email)
    write = {
        ExportTarget.DATABRICKS: to_databricks,
        ExportTarget.AIRFLOW: to_airflow,
        ExportTarget.DAGSTER: to_dagster,
    }[target]
    say(write(made, at or made.at or str(opened.root)).rstrip("\n"))
    for note in planned.notes:
        sys.stderr.write(f"note: {note}\n")
