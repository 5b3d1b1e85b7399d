"""`tidegauge status`: one line for each flow, from the ledger alone."""

from __future__ import annotations

from tidegauge.cli.options import DebugOption, JsonOption, ProjectOption, SelectOption, TableOption, selection
from tidegauge.cli.output import ago, duration, print_json, print_table, say
from tidegauge.cli.project import open_project


def command(
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Show each flow's state, watermark, lag and last run."""
    from tidegauge.engine.standing import standings

    now, shown = standings(open_project(project), selection(select, table))
    if json:
        print_json({"schema": "tidegauge/status/1", "flows": [one.to_json() for one in shown]})
        return
    if not shown:
        say("no flow has run yet; `tidegauge run` does")
        return
    print_table(
        ["flow", "state", "watermark", "lag", "rows", "last run", "waits for"],
        [
            [
                one.flow,
                one.state,
                ", ".join(one.watermarks_text.values()),
                duration(one.lag_seconds) if one.lag_seconds is not None else None,
                one.last_run.rows_written if one.last_run else None,
                ago(one.last_run.started_at, now) if one.last_run else None,
                one.waits_for,
            ]
            for one in shown
        ],
        numbers=("rows", "lag"),
    )
