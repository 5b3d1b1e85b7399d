"""`tidegauge status`: one line for each flow, from the ledger, with warnings about Delta inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tidegauge.cli.options import (
    DebugOption,
    JsonOption,
    PipelineOption,
    ProjectOption,
    SelectOption,
    TableOption,
    selection,
)
from tidegauge.cli.output import print_json, say, show_table
from tidegauge.cli.project import open_project

if TYPE_CHECKING:
    from datetime import datetime

    from tidegauge.model.spec import Project
    from tidegauge.model.view_flow import WithoutData
    from tidegauge.operations.status import FlowSummary


def command(
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    pipeline: PipelineOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Show each flow's state, watermark (the last row delivered), how far was checked, lag and last run."""
    from tidegauge.operations.status import summarize_flows, summarize_pipeline

    found = open_project(project)
    if pipeline is not None:
        _show(*summarize_pipeline(found, pipeline), {}, json=json)
        return
    wanted = selection(select, table)
    now, shown = summarize_flows(found, wanted)
    if not json:
        others = _list_others(found, wanted)
        for name, kind in others:
            say(f"{name} is {kind}: it has no data and no state of its own")
        if not shown:
            say(
                "nothing else is selected"
                if others and wanted
                else "no flow has run yet; `tidegauge run` does"
            )
            return
    _show(now, shown, _find_warnings(found), json=json)


def _show(
    now: datetime, shown: Sequence[FlowSummary], warnings: Mapping[str, list[str]], *, json: bool
) -> None:
    if json:
        flows = [
            {**one.to_json(), **({"warnings": warnings[one.flow]} if one.flow in warnings else {})}
            for one in shown
        ]
        print_json({"schema": "tidegauge/status/1", "flows": flows})
        return
    from tidegauge.api.tables import status_table

    show_table(status_table(shown, now))
    for one in shown:
        for warning in warnings.get(one.flow, []):
            say(f"{one.flow}: {warning}")


def _list_others(project: Project, wanted: Sequence[str]) -> list[tuple[str, str]]:
    """The name and kind of each selected flow without data: views and optimize flows."""
    from tidegauge.flows.selection.select_words import select_flows

    every: list[WithoutData] = [*project.views, *project.optimizes]
    others = select_flows(every, wanted)[0]
    return [(one.name, one.kind_of_flow) for one in others]


def _find_warnings(project: Project) -> dict[str, list[str]]:
    """Warnings by flow: Delta inputs whose unread versions can soon not be read any more."""
    if not project.delta_flows:
        return {}
    from tidegauge.ledger.open import open_ledger
    from tidegauge.operations.retention import warnings

    with open_ledger(project.ledger, create=False) as ledger:
        return warnings(project, ledger)
