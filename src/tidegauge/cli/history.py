"""`tidegauge history`: what happened, newest first."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from tidegauge.cli.options import DebugOption, JsonOption, PipelineOption, ProjectOption
from tidegauge.cli.output import print_json, print_table, say
from tidegauge.cli.project import open_project
from tidegauge.model.spec import Stage

if TYPE_CHECKING:
    from tidegauge.model.run import HistoryEvent
    from tidegauge.model.spec import Project


def command(
    project: ProjectOption = None,
    flow: Annotated[str | None, typer.Option("--select", "-t", "--table", help="Only this flow.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only what went wrong.")] = False,
    event: Annotated[
        list[str] | None, typer.Option(metavar="EVENT", help="Only this kind: advanced, failed, reset, …")
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="AGE", help="Only what is younger: 12h, 7d.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many events at the most.")] = 20,
    pipeline: PipelineOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Show what happened: who did what, when, from where to where."""
    from tidegauge.model.position import to_json, to_text
    from tidegauge.operations.incidents import describe_reason
    from tidegauge.operations.status import iso

    loaded = open_project(project)
    if pipeline is not None:
        loaded = replace(loaded, pipeline=pipeline)
    events = _find_events(loaded, flow, event, since, failed=failed, limit=limit, asked=pipeline is not None)
    if json:
        print_json(
            {
                "schema": "tidegauge/history/1",
                "events": [
                    {
                        "at": iso(one.at),
                        "pipeline": one.pipeline,
                        "flow": one.flow,
                        "run_id": one.run_id,
                        "event": one.event,
                        "actor": one.actor,
                        "reason": one.reason,
                        "from": to_json(one.before),
                        "to": to_json(one.after),
                        "error": one.error,
                    }
                    for one in events
                ],
            }
        )
    elif not events:
        say(
            "nothing has happened yet"
            if event is None and since is None
            else "nothing of that kind has happened"
        )
    else:
        print_table(
            ["at (UTC)", "flow", "event", "from", "to", "by", "why"],
            [
                [
                    f"{one.at:%Y-%m-%d %H:%M:%S}",
                    one.flow,
                    one.event,
                    to_text(one.before) if one.before else None,
                    to_text(one.after) if one.after else None,
                    one.actor,
                    one.error or describe_reason(one.event, one.reason),
                ]
                for one in events
            ],
        )


def _find_events(
    project: Project,
    flow: str | None,
    kinds: list[str] | None,
    since: str | None,
    *,
    failed: bool,
    limit: int,
    asked: bool,
) -> list[HistoryEvent]:
    """The newest `limit` events, newest first. `asked`: the user named the pipeline, so it has to exist."""
    from datetime import datetime

    from tidegauge.config.durations import parse_duration
    from tidegauge.ledger.open import open_ledger
    from tidegauge.operations.tracker_pipelines import check_pipeline

    with open_ledger(project.ledger, create=False) as ledger:
        if asked:
            check_pipeline(ledger, project.pipeline)
        # The name of a table with two stages means both flows.
        names = [None] if flow is None else [flow, *(f"{flow}/{stage}" for stage in Stage)]
        # The limit must not count events that `--since` leaves out below.
        most = limit if since is None else sys.maxsize
        found = [
            ledger.history(project.pipeline, flow=name, failed=failed, events=kinds, limit=most)
            for name in names
        ]
        oldest = datetime.min if since is None else ledger.now() - parse_duration(since)
    kept = (one for part in found for one in part if one.at >= oldest)
    # The sort is stable: events of one flow at the same moment keep the ledger's order.
    return sorted(kept, key=lambda one: one.at, reverse=True)[:limit]
