"""`tidegauge repair`: moves only the rows that differ between source and target."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from tidegauge.cli.confirm import DryRunOption, ReasonOption, YesOption, check_reason, confirm_with_reason
from tidegauge.cli.options import (
    DebugOption,
    JsonOption,
    ProjectOption,
    SelectOption,
    TableOption,
    selection,
)
from tidegauge.cli.output import print_json, print_table, say
from tidegauge.cli.progress import run_watched, show_and_exit
from tidegauge.cli.project import open_project
from tidegauge.errors import ConfigError

if TYPE_CHECKING:
    from tidegauge.operations.repair import RepairPreview


def command(
    deletes: Annotated[
        bool, typer.Option("--deletes", help="Also take away the rows that only the target has.")
    ] = False,
    reason: ReasonOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Compare source and target as verify does, and move just the rows that are missing or different.

    They are read again from the source by their keys and merged in the usual commit; the watermark stays
    where it is. Rows past the watermark are the next run's.
    """
    from tidegauge.observe.progress import watch
    from tidegauge.operations.repair import preview_repair, run_repair

    chosen = selection(select, table)
    if not chosen:
        raise ConfigError("`repair` needs to know which tables", hint="name one with -t; all: --select '*'")
    if not dry_run:
        check_reason("repair", reason)
    loaded = open_project(project)
    with watch(sys.stderr) as tell:
        found = preview_repair(loaded, chosen, deletes=deletes, tell=tell)
    if not json:
        _show(found)
    if dry_run or not any(one.moved or one.deleted or one.unfinished for one in found):
        _end(found, json=json, dry_run=dry_run)
    why = confirm_with_reason(_ask(found), reason, yes=yes)
    report, signalled = run_watched(
        loaded,
        lambda tell, stop: run_repair(loaded, found, reason=why, tell=tell, stop=stop, debug=debug),
        json=json,
        debug=debug,
    )
    show_and_exit(
        loaded,
        report,
        "repair",
        selection=chosen,
        signalled=signalled,
        json=json,
        debug=debug,
        more={"done": True, "repairs": [one.to_json() for one in found]},
    )


def _ask(found: Sequence[RepairPreview]) -> str:
    moved, deleted = sum(one.moved for one in found), sum(one.deleted for one in found)
    gone = f" and delete {deleted:,}" if deleted else ""
    return f"move {moved:,} row{'' if moved == 1 else 's'} again{gone}?"


def _show(found: Sequence[RepairPreview]) -> None:
    print_table(
        ["flow", "missing", "different", "extra", "rows to move", "rows to delete"],
        [
            [one.name, d.missing, d.different, d.extra, one.moved, one.deleted]
            for one in found
            if (d := one.unlike.difference)
        ],
        numbers=("missing", "different", "extra", "rows to move", "rows to delete"),
    )
    for one in found:
        for kind, key in one.unlike.difference.examples:
            say(f"   {one.name}: {kind}: {key}")
        first = [f"{one.unfinished} is ended first"] if one.unfinished else []
        for line in (*first, *one.notes):
            say(f"   {one.name}: {line}")


def _end(found: Sequence[RepairPreview], *, json: bool, dry_run: bool) -> NoReturn:
    lost = not dry_run and any(one.unlike.difference.lost for one in found)
    if json:
        some = any(one.moved or one.deleted for one in found)
        print_json(
            {
                "schema": "tidegauge/repair/1",
                "run_id": None,
                "state": "PLANNED" if some else "SKIPPED",
                "flows": [],
                "done": False,
                "repairs": [one.to_json() for one in found],
            }
        )
    else:
        nothing = "no row to move, and a column is not repaired row by row" if lost else "nothing to repair"
        say("nothing was changed" if dry_run else nothing)
    raise typer.Exit(int(lost))
