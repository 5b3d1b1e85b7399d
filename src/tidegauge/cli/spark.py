"""`tidegauge spark status | stop`: shows and ends the Spark that `keep_warm` keeps for the next command."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegauge.cli.group import make_group
from tidegauge.cli.options import DebugOption, JsonOption
from tidegauge.cli.output import print_json, say

app = make_group("The Spark that is kept warm.")


@app.command("status")
def status(json: JsonOption = False, debug: DebugOption = False) -> None:  # noqa: ARG001
    """Show each Spark that is kept warm for you: where, since when, who uses it, when it ends."""
    from tidegauge.spark.warm_client import describe_kept, find_kept

    found = find_kept()
    if json:
        print_json({"schema": "tidegauge/spark-status/1", "kept": found})
        return
    for one in found:
        say(describe_kept(one))
    if not found:
        say("no Spark is kept warm; `spark: {keep_warm: 15m}` in the file keeps one")


@app.command("stop")
def stop(
    force: Annotated[
        bool, typer.Option("--force", help="Also one that is in use or does not answer.")
    ] = False,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001
) -> None:
    """End each Spark that is kept warm for you."""
    from tidegauge.spark.warm_client import describe_kept, stop_kept

    told = stop_kept(force=force)
    if json:
        print_json({"schema": "tidegauge/spark-stop/1", "kept": told})
    for one in told if not json else ():
        say(f"ended: {one['folder']}" if one["ended"] else f"not ended: {describe_kept(one)}")
    if not told and not json:
        say("no Spark is kept warm")
    if not all(one["ended"] for one in told):
        if not json:
            say("a command that is cut off goes on with its next run; --force ends it all the same")
        raise typer.Exit(1)
