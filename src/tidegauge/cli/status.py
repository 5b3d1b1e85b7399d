"""`tidegauge status`: one line for each flow, from the ledger; Delta inputs say how long they last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegauge.cli.options import DebugOption, JsonOption, ProjectOption, SelectOption, TableOption, selection
from tidegauge.cli.output import print_json, print_table, say
from tidegauge.cli.project import open_project
from tidegauge.observe.tables import show_ago, show_duration

if TYPE_CHECKING:
    from tidegauge.model.spec import Project
    from tidegauge.model.view_flow import WithoutData


def command(
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Show each flow's state, watermark (the last row delivered), how far was checked, lag and last run."""
    from tidegauge.operations.status import summarize_flows

    found = open_project(project)
    wanted = selection(select, table)
    now, shown = summarize_flows(found, wanted)
    warnings = _warnings(found)
    if json:
        flows = [
            {**one.to_json(), **({"warnings": warnings[one.flow]} if one.flow in warnings else {})}
            for one in shown
        ]
        print_json({"schema": "tidegauge/status/1", "flows": flows})
        return
    others = _list_others(found, wanted)
    for name, kind in others:
        say(f"{name} is {kind}: it has no data and no state of its own")
    if not shown:
        say("nothing else is selected" if others and wanted else "no flow has run yet; `tidegauge run` does")
        return
    print_table(
        ["flow", "state", "watermark", "checked", "lag", "rows", "took", "last run", "waits for"],
        [
            [
                one.flow,
                one.state,
                ", ".join(one.watermarks_text.values()),
                ", ".join(one.checked_text.values()),
                show_duration(one.lag_seconds) if one.lag_seconds is not None else None,
                one.last_run.rows_written if one.last_run else None,
                show_duration(one.seconds) if one.seconds is not None else None,
                show_ago(one.last_run.started_at, now) if one.last_run else None,
                one.waits_for,
            ]
            for one in shown
        ],
        numbers=("rows", "lag", "took"),
    )
    for one in shown:
        for warning in warnings.get(one.flow, []):
            say(f"{one.flow}: {warning}")


def _list_others(project: Project, wanted: Sequence[str]) -> list[tuple[str, str]]:
    """What has a place in the graph and no line in the ledger, with what it is."""
    from tidegauge.flows.select_words import select_flows

    every: list[WithoutData] = [*project.views, *project.optimizes]
    others = select_flows(every, wanted)[0]
    return [(one.name, one.kind_of_flow) for one in others]


def _warnings(project: Project) -> dict[str, list[str]]:
    """Whose unread versions are about to vanish; only flows between Delta tables are asked."""
    if not project.delta_flows:
        return {}
    from tidegauge.ledger.open import open_ledger
    from tidegauge.operations.retention import warnings

    with open_ledger(project.ledger, create=False) as ledger:
        return warnings(project, ledger)
