"""`tidegauge vacuum`: removes old files of Delta tables, but never one that a flow still has to read."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegauge.cli.confirm import DryRunOption, YesOption, confirm
from tidegauge.cli.delta_tables import TableProgress, TablesOption, show_and_exit
from tidegauge.cli.options import DebugOption, JsonOption, ProjectOption, SelectOption
from tidegauge.cli.project import open_project


def command(
    retain: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="Keep files this long: 168h, 30d. Else as long as each table says."),
    ] = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TablesOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Remove files of Delta outputs that no version still kept needs, nor any flow that reads them.

    A table of which a flow has not read every version yet is refused, with the flow's name and its watermark.
    """
    from tidegauge.config.durations import parse_duration
    from tidegauge.flows.maintenance.base import MaintenanceResult
    from tidegauge.flows.maintenance.vacuum import check, vacuum
    from tidegauge.operations.delta_tables import SelectedMaintenance

    opened, kept = open_project(project), None if retain is None else parse_duration(retain)
    maintenance = SelectedMaintenance(opened, tuple(select or ()), tuple(table or ()), debug=debug)
    checked = maintenance.each(lambda one: MaintenanceResult(one, retain=check(maintenance, one, kept)))
    free = [one for one in checked if one.error is None and not one.absent]
    if not dry_run:
        _confirm([one.target.name for one in free], yes=yes)
    done = maintenance.each(
        lambda one: vacuum(maintenance, one, kept, dry_run=dry_run),
        TableProgress("looking what would go" if dry_run else "vacuuming", quiet=json),
        [one.target for one in free],
    )
    found = [*(one for one in checked if one not in free), *done]
    maintenance.note(found, "vacuumed", f"files older than {retain or 'the retention of the table'}")
    columns = ["table", "kept for", "would go" if dry_run else "removed", ""]
    show_and_exit(found, columns, command="vacuum", done=not dry_run, json=json, debug=debug)


def _confirm(tables: list[str], *, yes: bool) -> None:
    if tables:
        what = tables[0] if len(tables) == 1 else f"{len(tables)} tables"
        confirm(f"remove old files of {what}? Older versions can then not be read any more", yes=yes)
