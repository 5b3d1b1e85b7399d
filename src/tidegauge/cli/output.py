"""Prints tables and errors for people, or one JSON document. Everything printed is masked."""

from __future__ import annotations

import contextlib
import csv
import io
import json as jsonlib
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TextIO

from tidegauge.cli.log import log_line
from tidegauge.errors import TidegaugeError
from tidegauge.model.secret import mask
from tidegauge.observe.tables import Table

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
_reserved: list[TextIO] = []
"""The stdout of a command with `--json`, while whatever else is printed goes to stderr."""


@contextlib.contextmanager
def reserve_stdout() -> Iterator[None]:
    """In this block stdout is for `print_json` alone. What transforms and libraries print goes to stderr."""
    _reserved.append(sys.stdout)
    try:
        # For the whole command and not for each transform: `sys.stdout` is one for all threads.
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _reserved.pop()


@contextlib.contextmanager
def _printing(stdout: TextIO) -> Iterator[TextIO]:
    """In this block the command's answer is written. Raises TidegaugeError where that is not possible."""
    try:
        yield stdout
        stdout.flush()
    except BrokenPipeError:
        raise  # whoever read the answer has enough of it
    except OSError as error:
        raise TidegaugeError(
            f"stdout cannot be written: {error.strerror}",
            hint="what the command did is done; `tidegauge history` shows it",
        ) from error


def print_json(document: dict[str, Any]) -> None:
    with _printing(_reserved[-1] if _reserved else sys.stdout) as stdout:
        stdout.write(mask(jsonlib.dumps(document, ensure_ascii=False, indent=2)) + "\n")


def say(text: str) -> None:
    with _printing(sys.stdout) as stdout:
        stdout.write(mask(text) + "\n")


def print_csv(columns: Sequence[str], bodies: Sequence[dict[str, Any]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(bodies)
    with _printing(sys.stdout) as stdout:
        stdout.write(mask(text.getvalue()))


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, numbers: Sequence[str] = ()
) -> None:
    show_table(Table(tuple(columns), tuple(map(tuple, rows)), tuple(numbers)))


def show_table(table: Table) -> None:
    """Print a table. If it is wider than the terminal, long cells fold. Numbers are aligned right."""
    terminal = _on_terminal()
    if terminal and not fits(table):
        _print_folded(table)
    else:
        say(table.to_text(_COLOURS if terminal else {}))
    for note in table.notes:
        say(note)


def fits(table: Table) -> bool:
    """Whether the table fits without folding; always true if stdout is no terminal."""
    widths = table.widths
    return not _on_terminal() or sum(widths) + 3 * len(widths) <= shutil.get_terminal_size().columns


def _on_terminal() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _print_folded(table: Table) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as FoldedTable
    from rich.text import Text

    folded = FoldedTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, width in zip(table.columns, table.widths, strict=True):
        # A number folded into two lines would look like two numbers; folding a short column saves nothing.
        number = name in table.numbers
        justify: Literal["left", "right"] = "right" if number else "left"
        folded.add_column(name, justify=justify, overflow="fold", no_wrap=number or width <= _SHORT)
    for row in table.cells:
        folded.add_row(*(Text.from_ansi(f"\x1b[{_COLOURS.get(cell, '0')}m{cell}") for cell in row))
    with _printing(sys.stdout):
        Console(highlight=False).print(folded)


def report_error(error: TidegaugeError, *, json: bool, debug: bool) -> int:
    """Show an error as text, with `json` also as JSON on stdout; return its exit code."""
    if json:
        body = {
            "type": error.type,
            "message": error.sentence,
            "hint": error.hint,
            "retryable": error.retryable,
        }
        with contextlib.suppress(TidegaugeError):  # the error may be that nothing can be printed
            print_json({"schema": "tidegauge/error/1", "error": body})
    lines = [f"error: {error.sentence}"]
    if error.hint:
        lines.append(f" hint: {error.hint}")
    if debug and error.detail:
        lines.append(error.detail)
    sys.stderr.write(log_line("\n".join(lines), event="error", level="error") + "\n")
    return error.exit_code
