"""Tables and errors for people, one JSON document for machines. Everything printed is masked."""

from __future__ import annotations

import csv
import io
import json as jsonlib
import os
import shutil
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tidegauge.cli.log import log_line
from tidegauge.errors import TidegaugeError
from tidegauge.model.secret import mask

_COLOURS = {
    "SUCCESS": "32",
    "FAILED": "1;31",
    "MISSING": "1;31",
    "RUNNING": "33",
    "PLANNED": "33",
    "✓": "32",
    "✗": "1;31",
}
_SHORT = 10


def print_json(document: dict[str, Any]) -> None:
    sys.stdout.write(mask(jsonlib.dumps(document, ensure_ascii=False, indent=2)) + "\n")


def say(text: str) -> None:
    sys.stdout.write(mask(text) + "\n")


def print_csv(columns: Sequence[str], bodies: Sequence[dict[str, Any]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(bodies)
    sys.stdout.write(mask(text.getvalue()))


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, numbers: Sequence[str] = ()
) -> None:
    """A table that fits the terminal: where it does not, long cells fold. Numbers stand right."""
    from rich.cells import cell_len

    cells, widths = _measure(columns, rows)
    terminal = _on_terminal()
    if terminal and not _fit(widths):
        _print_folded(columns, cells, widths, numbers)
        return

    def line(values: Sequence[str], *, styled: bool) -> str:
        padded = []
        for name, value, width in zip(columns, values, widths, strict=True):
            blank = " " * (width - cell_len(value))
            shown = f"\x1b[{_COLOURS[value]}m{value}\x1b[0m" if styled and value in _COLOURS else value
            padded.append(blank + shown if name in numbers else shown + blank)
        return (" " + "   ".join(padded)).rstrip()

    head = [line(columns, styled=False), " " + "─" * (sum(widths) + 3 * (len(widths) - 1))]
    body = [line(row, styled=terminal) for row in cells]
    sys.stdout.write("\n".join([*head, *body]) + "\n")


def fits(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> bool:
    """Whether a table needs no folding here; a file is as wide as it has to be."""
    return not _on_terminal() or _fit(_measure(columns, rows)[1])


def _measure(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> tuple[list[list[str]], list[int]]:
    from rich.cells import cell_len

    cells = [[mask(_cell(value)).replace("\n", " ") for value in row] for row in rows]
    return cells, [max(map(cell_len, column)) for column in zip(columns, *cells, strict=True)]


def _on_terminal() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _fit(widths: Sequence[int]) -> bool:
    return sum(widths) + 3 * len(widths) <= shutil.get_terminal_size().columns


def _print_folded(
    columns: Sequence[str], cells: Sequence[Sequence[str]], widths: Sequence[int], numbers: Sequence[str]
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, width in zip(columns, widths, strict=True):
        # A number in two lines is two numbers; and what is short gains no room by folding.
        whole = name in numbers or width <= _SHORT
        table.add_column(name, justify="right" if name in numbers else "left", overflow="fold", no_wrap=whole)
    for row in cells:
        table.add_row(*(Text.from_ansi(f"\x1b[{_COLOURS.get(cell, '0')}m{cell}") for cell in row))
    Console(highlight=False).print(table)


def report_error(error: TidegaugeError, *, json: bool, debug: bool) -> int:
    """Show an error the way the user asked for, and say which exit code it means."""
    if json:
        print_json(
            {
                "schema": "tidegauge/error/1",
                "error": {
                    "type": error.type,
                    "message": error.sentence,
                    "hint": error.hint,
                    "retryable": error.retryable,
                },
            }
        )
    lines = [f"error: {error.sentence}"]
    if error.hint:
        lines.append(f" hint: {error.hint}")
    if debug and error.detail:
        lines.append(error.detail)
    sys.stderr.write(log_line("\n".join(lines), event="error", level="error") + "\n")
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
