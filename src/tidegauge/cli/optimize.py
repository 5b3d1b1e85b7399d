"""`tidegauge optimize`: compacts and Z-orders Delta tables, then vacuums what no reader needs."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegauge.cli.delta_tables import TableProgress, TablesOption, show_and_exit
from tidegauge.cli.options import DebugOption, JsonOption, ProjectOption, SelectOption
from tidegauge.cli.project import open_project


def command(
    zorder: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS", help="Sort by these columns, with commas between; else as each output says."
        ),
    ] = None,
    vacuum: Annotated[
        bool, typer.Option("--vacuum/--no-vacuum", help="Remove afterwards what no reader needs.")
    ] = True,
    force: Annotated[bool, typer.Option("--force", help="Also tables for which it does not pay.")] = False,
    project: ProjectOption = None,
    select: SelectOption = None,
    table: TablesOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Make few large files of many small ones in Delta outputs, then vacuum what no reader needs.

    A table that has no small files, or has not changed since it was last optimized, is left as it is.
    """
    from tidegauge.flows.maintenance.optimize import optimize
    from tidegauge.operations.delta_tables import SelectedMaintenance

    columns = tuple(name.strip() for name in (zorder or "").split(",") if name.strip())
    maintenance = SelectedMaintenance(
        open_project(project), tuple(select or ()), tuple(table or ()), debug=debug
    )
    found = maintenance.each(
        lambda one: optimize(maintenance, one, zorder=columns, clean=vacuum, force=force),
        TableProgress("optimizing", quiet=json),
    )
    compacted = [one for one in found if one.left_alone is None]
    maintenance.note(compacted, "optimized", f"Z-order by {', '.join(columns)}" if columns else "compaction")
    sizes = ["files", "files now", "size", "size now", "seconds"]
    shown = ["table", *sizes, *(["kept for", "removed"] if vacuum else []), ""]
    show_and_exit(found, shown, command="optimize", done=True, json=json, debug=debug)
