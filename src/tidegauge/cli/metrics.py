"""`tidegauge metrics`: prints or serves the flows' metrics for Prometheus."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tidegauge.cli.log import log_line
from tidegauge.cli.options import DebugOption, ProjectOption
from tidegauge.cli.output import say
from tidegauge.cli.project import open_project
from tidegauge.errors import ConfigError


def command(
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Answer Prometheus on 127.0.0.1 until stopped, asking the ledger anew."),
    ] = False,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Of --serve; else `metrics: {port: …}`, or 9108.")
    ] = None,
    project: ProjectOption = None,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Print the flows' numbers in Prometheus' text format, by what the ledger says; or serve them."""
    from tidegauge.model.telemetry import MetricsSettings
    from tidegauge.observe.metrics import render_metrics, serve_metrics
    from tidegauge.operations.metrics import collect_metrics, collect_or_down

    if port is not None and not serve:
        raise ConfigError("--port belongs to --serve", hint="add --serve, or leave it out")
    opened = open_project(project)
    if not serve:
        say(render_metrics(collect_metrics(opened)).rstrip("\n"))
        return
    from tidegauge.cli.progress import Stop

    number = port or (opened.telemetry.metrics or MetricsSettings()).port
    stop = Stop(says="stopping")
    with stop:
        end = serve_metrics(lambda: collect_or_down(opened), number)
        said = f"serving http://127.0.0.1:{number}/metrics"
        sys.stderr.write(log_line(said, event="serving", level="info") + "\n")
        sys.stderr.flush()
        stop.asked.wait()
        end()
    raise typer.Exit(stop.exit_code)
