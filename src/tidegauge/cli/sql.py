"""`tidegauge sql`: ask the ledger in SQL."""

from __future__ import annotations

import sys
from datetime import date, datetime
from typing import Annotated, Any

import typer

from tidegauge.cli.options import DebugOption, JsonOption, ProjectOption
from tidegauge.cli.output import print_csv, print_json, print_table
from tidegauge.cli.project import open_project
from tidegauge.errors import ConfigError


def command(
    query: Annotated[
        str | None, typer.Argument(metavar="QUERY", help="A SELECT; `-` reads it from the standard input.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Comma-separated values with a head line.")] = False,
    project: ProjectOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Ask the ledger in SQL, whatever store it is kept in; without a query, list its tables and columns."""
    from tidegauge.operations.sql import ask_ledger, list_columns

    if json and csv:
        raise ConfigError("--json and --csv exclude each other", hint="give one of them")
    statement = sys.stdin.read() if query == "-" else query
    opened = open_project(project)
    answer = list_columns(opened) if statement is None else ask_ledger(opened, statement)
    bodies = [dict(zip(answer.columns, map(_plain, row), strict=True)) for row in answer.rows]
    if json:
        print_json({"schema": "tidegauge/sql/1", "columns": list(answer.columns), "rows": bodies})
    elif csv:
        print_csv(answer.columns, bodies)
    else:
        # Numbers without thousands separators, as they may be ids.
        rows = [[None if value is None else str(value) for value in row] for row in answer.rows]
        print_table(answer.columns, rows)


def _plain(value: Any) -> Any:
    """The value as JSON allows it: moments, dates and decimals become text."""
    if isinstance(value, datetime):
        return f"{value.isoformat(timespec='microseconds')}Z"
    if isinstance(value, date):
        return value.isoformat()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
