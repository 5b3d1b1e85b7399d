"""`tidegauge`: the list of commands, and what happens to the errors that they raise."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Annotated

import typer

from tidegauge import __version__
from tidegauge.cli import (
    alerts,
    backfill,
    demo,
    doctor,
    explain,
    export,
    files,
    forget,
    health,
    history,
    init,
    ledger,
    metrics,
    optimize,
    plan,
    quarantine,
    repair,
    report,
    retry,
    run,
    schedule,
    serve,
    spark,
    sql,
    stats,
    status,
    sync,
    vacuum,
    verify,
    watermark,
)
from tidegauge.cli.garbage import fewer_collections
from tidegauge.cli.group import CommandGroup
from tidegauge.cli.output import report_error, reserve_stdout, say
from tidegauge.errors import TidegaugeError, unexpected_error

app = typer.Typer(
    name="tidegauge",
    cls=CommandGroup,
    help="Moves only what changed, and can prove how far it got.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"tidegauge {__version__}")
        raise typer.Exit


@app.callback()
def begin(
    _: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Moves only what changed, and can prove how far it got."""


app.command("init")(init.command)
app.command("doctor")(doctor.command)
app.command("plan")(plan.command)
app.command("explain")(explain.command)
app.command("run")(run.command)
app.command("sync")(sync.command)
app.command("backfill")(backfill.command)
app.command("retry")(retry.command)
app.command("status")(status.command)
app.command("stats")(stats.command)
app.command("history")(history.command)
app.command("sql")(sql.command)
app.command("forget")(forget.command)
app.command("verify")(verify.command)
app.command("repair")(repair.command)
app.command("health")(health.command)
app.command("metrics")(metrics.command)
app.command("serve")(serve.command)
app.command("report")(report.command)
app.command("optimize")(optimize.command)
app.command("vacuum")(vacuum.command)
app.command("demo")(demo.command)
app.add_typer(watermark.app, name="watermark")
app.add_typer(files.app, name="files")
app.add_typer(files.app, name="s3clean", hidden=True)  # an older name that users may know
app.add_typer(ledger.app, name="ledger")
app.add_typer(quarantine.app, name="quarantine")
app.add_typer(export.app, name="export")
app.add_typer(schedule.app, name="schedule")
app.add_typer(alerts.app, name="alerts")
app.add_typer(spark.app, name="spark")


def main() -> None:
    json, debug = "--json" in sys.argv, "--debug" in sys.argv
    try:
        with fewer_collections(), reserve_stdout() if json and "--help" not in sys.argv else nullcontext():
            app()
    except TidegaugeError as error:
        sys.exit(report_error(error, json=json, debug=debug))
    except Exception as fault:
        sys.exit(report_error(unexpected_error(fault), json=json, debug=debug))
    except SystemExit as end:
        # After a success return: schedulers that call this in their process take SystemExit for a failure.
        if end.code not in (None, 0):
            raise


if __name__ == "__main__":
    main()
