"""`tidegauge ledger migrate`: bring the ledger's tables up to what this version needs."""

from __future__ import annotations

import typer

from tidegauge.cli.options import DebugOption, JsonOption, ProjectOption
from tidegauge.cli.output import print_json, say
from tidegauge.cli.project import open_project

app = typer.Typer(help="The store of watermarks itself.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def group() -> None:
    """Keeps `ledger` a group while it has a single command."""


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
