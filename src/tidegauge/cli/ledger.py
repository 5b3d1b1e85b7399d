"""`tidegauge ledger migrate | prune`: the store of watermarks itself."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegauge.cli.options import DebugOption, JsonOption, ProjectOption
from tidegauge.cli.output import print_json, say
from tidegauge.cli.project import open_project

app = typer.Typer(help="The store of watermarks itself.", no_args_is_help=True, rich_markup_mode=None)


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
