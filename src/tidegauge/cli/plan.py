"""`tidegauge plan`: what a run would read and write, and why. Writes nothing."""

from __future__ import annotations

import typer

from tidegauge.cli.options import DebugOption, JsonOption, ProjectOption, SelectOption, TableOption, selection
from tidegauge.cli.output import print_json, print_table, report_error, say
from tidegauge.cli.project import open_project


def command(
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show what a run would read and write, and why; write nothing."""
    from tidegauge.engine.preview import preview

    shown = preview(open_project(project), selection(select, table))
    if json:
        print_json({"schema": "tidegauge/plan/1", "flows": [flow.to_json() for flow in shown]})
    else:
        print_table(
            ["flow", "state", "rows", "batches", "after", "up to", "output"],
            [
                [flow.flow, flow.state, flow.rows, flow.batches, flow.after, flow.upto, flow.output]
                for flow in shown
            ],
            numbers=("rows", "batches"),
        )
        for flow in shown:
            for note in flow.notes:
                say(f"{flow.flow}: {note}")
    failed = [flow.error for flow in shown if flow.error is not None]
    for error in failed:
        if not json or debug:
            report_error(error, json=False, debug=debug)
    raise typer.Exit(1 if failed else 0)
