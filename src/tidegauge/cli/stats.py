"""`tidegauge stats`: counts runs, failures, rows and seconds, for each flow or each day."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegauge.cli.options import DebugOption, JsonOption, ProjectOption, SelectOption, TableOption, selection
from tidegauge.cli.output import print_csv, print_json, print_table, say
from tidegauge.cli.project import open_project
from tidegauge.errors import ConfigError
from tidegauge.observe.tables import show_duration

if TYPE_CHECKING:
    from datetime import timedelta

    from tidegauge.operations.stats import DayStats, FlowStats


def command(
    daily: Annotated[bool, typer.Option("--daily", help="A line for each day instead of each flow.")] = False,
    since: Annotated[
        str | None, typer.Option(metavar="AGE", help="How far back: 7d, 12h. Else 7d; with --daily 30d.")
    ] = None,
    days: Annotated[int | None, typer.Option(min=1, help="The same in days.")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Comma-separated values with a head line.")] = False,
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Add up the runs that the ledger keeps: how many, failures, rows, seconds and lag."""
    from tidegauge.operations.stats import collect_daily_stats, collect_flow_stats

    if json and csv:
        raise ConfigError("--json and --csv exclude each other", hint="give one of them")
    span, wanted, opened = _span(since, days, daily=daily), selection(select, table), open_project(project)
    found: Sequence[FlowStats | DayStats] = (
        collect_daily_stats(opened, wanted, span) if daily else collect_flow_stats(opened, wanted, span)
    )
    bodies = [one.to_json() for one in found]
    if json:
        print_json({"schema": "tidegauge/stats/1", "days" if daily else "flows": bodies})
    elif not bodies:
        say("no run has ended in this time")
    elif csv:
        print_csv(list(bodies[0]), bodies)
    elif daily:
        print_table(list(bodies[0]), [list(body.values()) for body in bodies], numbers=list(bodies[0])[1:])
    else:
        _print_flows(bodies)


def _span(since: str | None, days: int | None, *, daily: bool) -> timedelta:
    from datetime import timedelta

    from tidegauge.config.durations import parse_duration

    if since is not None and days is not None:
        raise ConfigError("--since and --days exclude each other", hint="give one of them")
    if days is not None:
        return timedelta(days=min(days, 36500))
    return parse_duration(since or ("30d" if daily else "7d"))


def _print_flows(bodies: Sequence[dict[str, Any]]) -> None:
    def shown(seconds: float | None) -> str | None:
        return None if seconds is None else show_duration(seconds)

    columns = ["flow", "runs", "failures", "error rate", "rows", "median", "last", "lag", "last run (UTC)"]
    print_table(
        columns,
        [
            [
                body["flow"],
                body["runs"],
                body["failures"],
                f"{body['error_rate']:.1%}",
                body["rows"],
                shown(body["median_seconds"]),
                shown(body["last_seconds"]),
                shown(body["lag_seconds"]),
                body["last_run"][:19].replace("T", " "),
            ]
            for body in bodies
        ],
        numbers=columns[1:-1],
    )
