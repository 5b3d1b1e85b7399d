"""`tidegauge schedule start | list | suspend | resume`: runs flows when they are due."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tidegauge.cli.confirm import ReasonOption, check_reason
from tidegauge.cli.group import make_group
from tidegauge.cli.options import DebugOption, JsonOption, ParallelOption, ProjectOption
from tidegauge.cli.output import print_json, print_table, say
from tidegauge.cli.progress import Stop
from tidegauge.cli.project import open_project

if TYPE_CHECKING:
    from tidegauge.operations.schedule_list import Listing
    from tidegauge.operations.suspend import SuspendResult

app = make_group("Flows by the clock.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A flow, a table, or the pipeline.")]


@app.command("start")
def start(
    health_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, metavar="PORT", help="Answer http://127.0.0.1:PORT/health meanwhile."),
    ] = None,
    ticks: Annotated[
        int | None, typer.Option(min=1, metavar="NUMBER", help="End after running for so many times.")
    ] = None,
    parallel: ParallelOption = 2,
    project: ProjectOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run flows when they are due, in the foreground, until SIGTERM or Ctrl-C."""
    from tidegauge.operations.schedule import Scheduler
    from tidegauge.operations.schedule_health import describe_health, serve_health
    from tidegauge.run.options import RunOptions

    opened = open_project(project)
    stop = Stop()
    options = RunOptions(parallel=parallel, remarks=False, debug=debug)
    scheduler = Scheduler(opened, options=options, say=_log, stop=stop.asked, most=ticks)
    with stop, serve_health(scheduler.state, health_port) as port:
        if port is not None:
            _log(f"health: http://127.0.0.1:{port}/health")
        state = scheduler.run()
    if json:
        _, found = describe_health(state)
        print_json({**found, "schema": "tidegauge/schedule-start/1"})
    raise typer.Exit(stop.exit_code)


@app.command("list")
def list_(project: ProjectOption = None, json: JsonOption = False, debug: DebugOption = False) -> None:  # noqa: ARG001
    """Show every schedule with its flows and next times, and what is suspended."""
    from tidegauge.operations.schedule_list import list_schedules

    found = list_schedules(open_project(project))
    if json:
        print_json(found.to_json())
    else:
        _show(found)


@app.command("suspend")
def suspend(
    name: NameArgument,
    reason: ReasonOption = None,
    project: ProjectOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001
) -> None:
    """Let nobody run a flow, both flows of a table, or the pipeline, until it is resumed."""
    from tidegauge.operations.suspend import suspend as carry_out

    check_reason("schedule suspend", reason)
    reason = reason or typer.prompt("why? (the history keeps it)", err=True)
    done = carry_out(open_project(project), name, reason=reason)
    _tell(done, "suspend", json=json)


@app.command("resume")
def resume(
    name: NameArgument,
    reason: ReasonOption = None,
    project: ProjectOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001
) -> None:
    """Let a suspended flow, table or pipeline run again; what has come since waits for its next run."""
    from tidegauge.operations.suspend import resume as carry_out

    done = carry_out(open_project(project), name, reason=reason or "")
    _tell(done, "resume", json=json)


def _tell(done: Sequence[SuspendResult], command: str, *, json: bool) -> None:
    if json:
        flows = [one.to_json() for one in done]
        print_json({"schema": f"tidegauge/schedule-{command}/1", "flows": flows})
        return
    for one in done:
        who = "the pipeline" if one.flow == "*" else one.flow
        if one.suspended is not None:
            by = f"by {one.suspended.actor} at {one.suspended.at:%Y-%m-%d %H:%M:%S} UTC"
            say(f"{who}: suspended {'' if one.changed else 'already '}{by}: {one.suspended.reason}")
        else:
            say(f"{who}: {'runs again' if one.changed else 'was not suspended'}")
        if one.holder and one.suspended is not None:
            say(f"{who}: {one.holder} ends what it has begun")


def _show(found: Listing) -> None:
    if not found.schedules:
        say("this file has no schedule; `schedule: every 5 minutes` at its top is one")
    else:
        print_table(
            ["schedule", "flows", "next (UTC)", "there", "catch up", "last (UTC)", "skipped", "missed"],
            [
                [
                    one.schedule.text,
                    ", ".join(one.names),
                    f"{one.next[0]:%Y-%m-%d %H:%M:%S}",
                    f"{one.local(one.next[0]):%H:%M:%S %Z}",
                    one.schedule.catch_up.value,
                    f"{one.ticks.fired:%Y-%m-%d %H:%M:%S}" if one.ticks and one.ticks.ran else None,
                    one.ticks.skipped if one.ticks else 0,
                    one.ticks.missed if one.ticks else 0,
                ]
                for one in found.schedules
            ],
            numbers=("skipped", "missed"),
        )
    for name, one in found.suspended.items():
        who = "the pipeline" if name == "*" else name
        say(f"{who} is suspended by {one.actor} since {one.at:%Y-%m-%d %H:%M:%S} UTC: {one.reason}")
    if found.schedules and not found.schedulers:
        say("no scheduler is there; `tidegauge schedule start` is one")
    for scheduler in found.schedulers:
        say(f"scheduler: {scheduler}")


def _log(line: str) -> None:
    from datetime import UTC, datetime

    from tidegauge.model.secret import mask

    sys.stderr.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}Z {mask(line)}\n")
    sys.stderr.flush()
