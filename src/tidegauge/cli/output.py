"""Tables and errors for people, one JSON document for machines. Everything printed is masked."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidegauge.errors import TidegaugeError
from tidegauge.model.secret import mask

if TYPE_CHECKING:
    from rich.console import Console

_PLAIN_WIDTH = 160
"""How wide a table may be when nobody's terminal sets the limit."""


def print_json(document: dict[str, Any]) -> None:
    sys.stdout.write(mask(jsonlib.dumps(document, ensure_ascii=False, indent=2)) + "\n")


def say(text: str) -> None:
    sys.stdout.write(mask(text) + "\n")


def console(*, err: bool = False) -> Console:
    from rich.console import Console

    stream = sys.stderr if err else sys.stdout
    return Console(stderr=err, highlight=False, width=None if stream.isatty() else _PLAIN_WIDTH)


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, numbers: Sequence[str] = ()
) -> None:
    """A table that fits the terminal: long cells fold, numbers stand right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right" if name in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(mask(_cell(value)), style=_style(value)) for value in row))
    console().print(table)


def report_error(error: TidegaugeError, *, json: bool, debug: bool) -> int:
    """Show an error the way the user asked for, and say which exit code it means."""
    if json:
        print_json(
            {
                "schema": "tidegauge/error/1",
                "error": {
                    "type": error.type,
                    "message": str(error),
                    "hint": error.hint,
                    "retryable": error.retryable,
                },
            }
        )
    lines = [f"error: {error}"]
    if error.hint:
        lines.append(f" hint: {error.hint}")
    if debug and error.detail:
        lines.append(error.detail)
    sys.stderr.write(mask("\n".join(lines)) + "\n")
    return error.exit_code


def ago(moment: datetime | None, now: datetime) -> str:
    if moment is None:
        return "—"
    return f"{duration((now - moment).total_seconds())} ago"


def duration(seconds: float) -> str:
    """`2.4 s`, `3 min`, `5 h`, `12 d`: one number is enough to judge by."""
    if seconds < 60:
        return f"{max(seconds, 0):.1f} s"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return ""


def _cell(value: object) -> str:
    if value is None:
        return "—"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _style(value: object) -> str:
    return {
        "SUCCESS": "green",
        "FAILED": "bold red",
        "RUNNING": "yellow",
        "PLANNED": "yellow",
        "✓": "green",
        "✗": "bold red",
    }.get(str(value), "")
