"""`tidegauge ledger migrate | prune | export | import | rebuild`: commands for the ledger itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegauge.cli.confirm import DryRunOption, ReasonOption, YesOption, check_reason, confirm_with_reason
from tidegauge.cli.group import make_group
from tidegauge.cli.options import (
    DebugOption,
    JsonOption,
    ProjectOption,
    SelectOption,
    TableOption,
    local,
    selection,
)
from tidegauge.cli.output import print_json, print_table, report_error, say
from tidegauge.cli.project import open_project
from tidegauge.cli.write_file import write_file
from tidegauge.errors import ConfigError

if TYPE_CHECKING:
    from tidegauge.ledger.backup import FlowBackup
    from tidegauge.operations.rebuild import RebuildPreview

app = make_group("The store of watermarks itself.")


@app.command("migrate")
def migrate(project: ProjectOption = None, json: JsonOption = False, debug: DebugOption = False) -> None:  # noqa: ARG001
    """Create or upgrade the ledger's tables."""
    from tidegauge.ledger.migrate import migrate as bring_up_to_date

    done = bring_up_to_date(open_project(project).ledger)
    if json:
        print_json({"schema": "tidegauge/ledger-migrate/1", "from": done.before, "to": done.after})
    elif done.before == done.after:
        say(f"the ledger is at version {done.after} already")
    else:
        say(f"the ledger is at version {done.after} now, was {done.before or 'empty'}")


@app.command("prune")
def prune(
    older_than: Annotated[str, typer.Option("--older-than", metavar="AGE", help="Such as 90d or 12h.")],
    project: ProjectOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001
) -> None:
    """Remove old history, runs and ended plans of this pipeline; never what recovery needs."""
    from tidegauge.config.durations import parse_duration
    from tidegauge.ledger.open import open_ledger

    opened, age = open_project(project), parse_duration(older_than)
    with open_ledger(opened.ledger, create=True) as ledger:
        removed = ledger.prune(before=ledger.now() - age, pipeline=opened.pipeline)
    if json:
        print_json({"schema": "tidegauge/ledger-prune/1", "removed": removed})
        return
    counts = ", ".join(f"{count:,} of {name}" for name, count in removed.items())
    say(f"removed what is older than {older_than}: {counts}")


@app.command("export")
def export(
    file: Annotated[Path, typer.Argument(help="Where to.")],
    every: Annotated[
        bool, typer.Option("--all-pipelines", help="Not just this project's: all that the ledger knows.")
    ] = False,
    project: ProjectOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Write watermarks, plans, runs and history to a file that `import` takes, on any store."""
    from tidegauge.operations.backup import export_ledger, find_running

    text, found = export_ledger(open_project(project), every=every)
    write_file(local(file), text)
    running = find_running(found)
    if json:
        counts = _count(found)
        print_json({"schema": "tidegauge/ledger-exported/1", "file": str(file), **counts, "running": running})
        return
    say(f"wrote {_describe(found)} to {file}")
    if running:
        say(f"note: {', '.join(running)} is running: what happens from now on is not in the file")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A file that `export` wrote.")],
    reason: ReasonOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    project: ProjectOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Take over an exported ledger, into a store that does not know its flows."""
    from tidegauge.operations.backup import import_ledger, read_backup

    if not dry_run:
        check_reason("ledger import", reason)
    opened = open_project(project)
    try:
        text = local(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{file} cannot be read: {error}", hint="name a file that `export` wrote"
        ) from error
    found = read_backup(str(file), text)
    if not json:
        say(f"{file} has {_describe(found)}")
    if not dry_run:
        reason = confirm_with_reason("take them over?", reason, yes=yes)
        import_ledger(opened, found, reason=reason)
    if json:
        print_json({"schema": "tidegauge/ledger-import/1", "done": not dry_run, **_count(found)})
    else:
        say("nothing was changed" if dry_run else "done; the next run compares them with the outputs")


def _count(found: Sequence[FlowBackup]) -> dict[str, int]:
    return {
        "flows": len(found),
        "runs": sum(len(one.runs) for one in found),
        "events": sum(len(one.events) for one in found),
    }


def _describe(found: Sequence[FlowBackup]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in _count(found).items())


@app.command("rebuild")
def rebuild(
    reason: ReasonOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TableOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Bring watermarks back from the outputs, for a ledger that is lost or an older copy."""
    from tidegauge.operations.rebuild import preview_rebuild, run_rebuild

    if not dry_run:
        check_reason("ledger rebuild", reason)
    opened = open_project(project)
    found = preview_rebuild(opened, selection(select, table), debug=debug)
    behind = [one for one in found if one.is_behind]
    if not json:
        _show_found(found)
    if behind and not dry_run:
        what = behind[0].flow if len(behind) == 1 else f"{len(behind)} flows"
        reason = confirm_with_reason(
            f"bring the watermark of {what} to where the output is?", reason, yes=yes
        )
        found = run_rebuild(opened, found, reason=reason)
    if json:
        flows = [one.to_json() for one in found]
        print_json({"schema": "tidegauge/ledger-rebuild/1", "done": not dry_run, "flows": flows})
    for one in found:
        _show_done(one, json=json, debug=debug)
    if dry_run and not json:
        say("nothing was changed")
    raise typer.Exit(1 if any(one.error for one in found) else 0)


def _show_done(one: RebuildPreview, *, json: bool, debug: bool) -> None:
    if one.error is not None:
        report_error(one.error, json=False, debug=debug)
    elif one.done and not json:
        say(f"{one.flow}: done; its next run goes on after batch {one.seq} of epoch {one.epoch}")


def _show_found(found: Sequence[RebuildPreview]) -> None:
    from tidegauge.model.position import to_text

    rows: list[list[object]] = []
    for one in found:
        for name, mark in one.marks.items():
            has = to_text(one.ledger_positions[name]) if name in one.ledger_positions else None
            rows.append([one.flow, name, to_text(mark.position), one.epoch, one.seq, has, one.state])
        if not one.marks:
            rows.append([one.flow, None, None, None, None, None, one.state])
    if not rows:
        say("this project has no flows")
        return
    columns = ["flow", "input", "position", "epoch", "batch", "ledger has", ""]
    print_table(columns, rows, numbers=("epoch", "batch"))
    for one in found:
        for note in one.notes:
            say(f"   {one.flow}: {note}")
