"""`tidegauge backfill`: read a window again, apart from the live watermark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from tidegauge.cli.confirm import DryRunOption, ReasonOption, YesOption, check_reason, confirm_with_reason
from tidegauge.cli.log import LogFormat, LogFormatOption
from tidegauge.cli.options import (
    DebugOption,
    JsonOption,
    LimitOption,
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
    from tidegauge.flows.table.backfill import BackfillRequest
    from tidegauge.operations.backfill import BackfillPreview


def command(
    from_: Annotated[
        str | None,
        typer.Option("--from", help="The first cursor value that is read again; else from the beginning."),
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="The last one, itself included; else up to the watermark.")
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="A column that came later: fill it for the rows already there.")
    ] = None,
    limit: LimitOption = None,
    reason: ReasonOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also where rows are appended and may come twice.")
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    log_format: LogFormatOption = LogFormat.TEXT,  # noqa: ARG001 - read where lines are written
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Read a window again, or all for a new column; the live watermark stays where it is."""
    from tidegauge.flows.table.backfill import BackfillRequest
    from tidegauge.operations.backfill import preview_backfill, run_backfill

    chosen, request = selection(select, table), BackfillRequest(from_, to, column, limit)
    _check_request(chosen, request)
    if not dry_run:
        check_reason("backfill", reason)
    loaded = open_project(project)
    found = preview_backfill(loaded, chosen, request)
    if not json:
        _show(found)
    if dry_run or not any(one.rows or one.unfinished for one in found):
        _end(found, json=json, says="nothing was changed" if dry_run else "nothing to read again")
    if not force:
        _refuse_dangers(found)
    count = sum(one.rows for one in found)
    why = confirm_with_reason(f"read {count:,} row{'' if count == 1 else 's'} again?", reason, yes=yes)
    report, signalled = run_watched(
        loaded,
        lambda tell, stop: run_backfill(
            loaded, found, request, reason=why, tell=tell, stop=stop, debug=debug
        ),
        json=json,
        debug=debug,
    )
    show_and_exit(
        loaded,
        report,
        "backfill",
        selection=chosen,
        signalled=signalled,
        json=json,
        debug=debug,
        more={"done": True, "backfills": [one.to_json() for one in found]},
    )


def _check_request(chosen: Sequence[str], request: BackfillRequest) -> None:
    if not chosen:
        raise ConfigError("`backfill` needs to know which tables", hint="name one with -t; all: --select '*'")
    if request.first is None and request.last is None and request.column is None:
        raise ConfigError(
            "`backfill` needs a window or a column",
            hint="--from '2025-01-01' --to '2025-01-31', or --column discount",
        )


def _refuse_dangers(found: Sequence[BackfillPreview]) -> None:
    risky = next((one for one in found if one.dangers), None)
    if risky is not None:
        raise ConfigError(risky.dangers[0], hint="if that is what you want, add --force; nothing was changed")


def _show(found: Sequence[BackfillPreview]) -> None:
    from tidegauge.model.position import to_text

    print_table(
        ["flow", "after", "up to", "rows read again", "then"],
        [
            [one.name, to_text(one.after), to_text(one.upto), one.rows, ", ".join(one.then) or None]
            for one in found
        ],
        numbers=("rows read again",),
    )
    for one in found:
        first = [f"{one.unfinished} is ended first"] if one.unfinished else []
        for line in (*first, *one.notes, *(f"take care: {danger}" for danger in one.dangers)):
            say(f"   {one.name}: {line}")


def _end(found: Sequence[BackfillPreview], *, json: bool, says: str) -> NoReturn:
    if json:
        print_json(
            {
                "schema": "tidegauge/backfill/1",
                "run_id": None,
                "state": "PLANNED" if any(one.rows for one in found) else "SKIPPED",
                "flows": [],
                "done": False,
                "backfills": [one.to_json() for one in found],
            }
        )
    else:
        say(says)
    raise typer.Exit(0)
