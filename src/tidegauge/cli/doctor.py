"""`tidegauge doctor`: checks that everything a run needs is there."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegauge.cli.options import DebugOption, JsonOption, ProjectOption
from tidegauge.cli.output import print_json, say
from tidegauge.cli.project import open_project


def command(
    project: ProjectOption = None,
    write_probe: Annotated[
        bool,
        typer.Option(
            "--write-probe",
            help="Also put a file where the lake and a ledger of files are, to see that only one writer wins;"
            " it is taken away again.",
        ),
    ] = False,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001
) -> None:
    """Check Java, jars, ledger, connections, privileges, clocks, S3 and tables; say how to mend each.

    Nothing is changed anywhere.
    """
    from tidegauge.operations.doctor import check_project

    findings = []
    for one in check_project(open_project(project), probe=write_probe):
        findings.append(one)
        if not json:
            say(
                f"{'✓' if one.ok else '✗'} {one.about}: {one.says}"
                + (f"\n    fix: {one.fix}" if one.fix else "")
            )
    healthy = all(one.ok for one in findings)
    if json:
        print_json(
            {
                "schema": "tidegauge/doctor/1",
                "healthy": healthy,
                "findings": [one.to_json() for one in findings],
            }
        )
    raise typer.Exit(0 if healthy else 1)
