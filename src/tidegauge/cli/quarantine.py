"""`tidegauge quarantine`: lists, replays or discards the rows that expectations set aside."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from tidegauge.cli.confirm import ReasonOption, YesOption, check_reason, confirm_with_reason
from tidegauge.cli.group import make_group
from tidegauge.cli.log import LogFormat, LogFormatOption, watch_here
from tidegauge.cli.options import DebugOption, JsonOption, ProjectOption, SelectOption
from tidegauge.cli.output import print_json, print_table, report_error, say
from tidegauge.cli.project import open_project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.flows.quarantine.summary import QuarantineSummary
    from tidegauge.operations.quarantine import QuarantineResult

app = make_group("Rows that expectations set aside.")


@app.command("list")
def list_(
    rows: Annotated[int, typer.Option(min=0, help="Show so many rows of each flow.")] = 0,
    project: ProjectOption = None,
    select: SelectOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List how many rows each flow has set aside, and why."""
    from tidegauge.operations.quarantine import find, show

    shown = show(find(open_project(project), tuple(select or ()), debug=debug), examples=rows)
    if json:
        print_json({"schema": "tidegauge/quarantine/1", "flows": [one.to_json() for one in shown]})
        return
    _show(shown)
    for one in shown:
        for text in one.examples:
            say(f"{one.flow}: {text}")


@app.command("replay")
def replay(
    reason: ReasonOption = None,
    yes: YesOption = False,
    project: ProjectOption = None,
    select: SelectOption = None,
    log_format: LogFormatOption = LogFormat.TEXT,  # noqa: ARG001 - read where lines are written
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Check the rows again by what is expected today; those that pass reach the target.

    The flow is set back and evaluated anew, so that its target is what its inputs make of it. To an `append`
    target the rows are added as they were.
    """
    from tidegauge.operations import quarantine

    check_reason("quarantine replay", reason)
    opened = open_project(project)
    found = quarantine.find(opened, tuple(select or ()), debug=debug)
    shown = quarantine.show(found)
    if not json:
        _show(shown)
    why = confirm_with_reason(f"look at the rows of {_name(shown)} again?", reason, yes=yes) if shown else ""
    with watch_here() as tell:
        done = quarantine.replay(opened, found, reason=why, tell=tell, stop=threading.Event())
    _close(done, "replay", json=json, debug=debug)


@app.command("discard")
def discard(
    reason: ReasonOption = None,
    yes: YesOption = False,
    project: ProjectOption = None,
    select: SelectOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Delete the rows that were set aside; the history keeps why."""
    from tidegauge.operations import quarantine

    check_reason("quarantine discard", reason)
    opened = open_project(project)
    found = quarantine.find(opened, tuple(select or ()), debug=debug)
    shown = quarantine.show(found)
    if not json:
        _show(shown)
    why = (
        confirm_with_reason(f"delete the rows that {_name(shown)} set aside?", reason, yes=yes)
        if shown
        else ""
    )
    done = quarantine.discard(opened, found, reason=why)
    _close(done, "discard", json=json, debug=debug)


def _name(shown: Sequence[QuarantineSummary]) -> str:
    return shown[0].flow if len(shown) == 1 else f"{len(shown)} flows"


def _show(shown: Sequence[QuarantineSummary]) -> None:
    print_table(
        ["flow", "rows", "reasons", "first", "last", "table"],
        [
            [
                one.flow,
                one.rows,
                ", ".join(f"{name}: {many:,}" for name, many in one.reasons.items()),
                one.first,
                one.last,
                one.table,
            ]
            for one in shown
        ],
        numbers=("rows",),
    )
    if not shown:
        say("no row is set aside")


def _close(done: Sequence[QuarantineResult], what: str, *, json: bool, debug: bool) -> NoReturn:
    if json:
        flows = [one.to_json() for one in done]
        print_json({"schema": f"tidegauge/quarantine-{what}/1", "flows": flows})
    failed = [one.error for one in done if one.error is not None]
    for one in done:
        if one.error is None and not json:
            gone = one.before.rows - one.left
            verb = "discarded" if what == "discard" else "no longer set aside"
            say(f"{one.before.flow}: {gone:,} rows {verb}, {one.left:,} left")
    for error in failed:
        if debug or not json:
            report_error(error, json=False, debug=debug)
    raise typer.Exit(1 if failed else 0)
