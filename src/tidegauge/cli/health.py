"""`tidegauge health`: one line for each flow; exit code 1 when something is wrong."""

from __future__ import annotations

import typer

from tidegauge.cli.options import DebugOption, JsonOption, ProjectOption, SelectOption, TableOption, selection
from tidegauge.cli.output import ago, print_json, print_table, say
from tidegauge.cli.project import open_project


def command(
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Say what is wrong, and what will be soon: failures, lost versions, outputs that disagree."""
    from tidegauge.operations.health import examine

    now, found = examine(open_project(project), selection(select, table))
    healthy = not any(one.problems for one in found)
    if json:
        flows = [one.to_json() for one in found]
        print_json({"schema": "tidegauge/health/1", "healthy": healthy, "flows": flows})
    elif not found:
        say("this project has no flows")
    else:
        print_table(
            ["", "flow", "state", "last success", "failures", "what"],
            [
                [
                    "✗" if one.problems else "✓",
                    one.flow,
                    one.state,
                    ago(one.last_success, now),
                    one.failures,
                    "; ".join((*one.problems, *one.warnings)),
                ]
                for one in found
            ],
            numbers=("failures",),
        )
    raise typer.Exit(0 if healthy else 1)
