"""What `vacuum` and `optimize` share: the option for tables, the table of results, and the exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from tidegauge.cli.output import print_json, print_table, report_error, say

if TYPE_CHECKING:
    from tidegauge.flows.maintenance.base import MaintenanceResult

TablesOption = Annotated[
    list[str] | None,
    typer.Option("--table", "-t", help="A Delta table by its path or name, also one that no flow writes."),
]


class TableProgress:
    """Writes a line to stderr for each table that is begun."""

    def __init__(self, word: str, *, quiet: bool) -> None:
        self._word = word
        self._quiet = quiet

    def __call__(self, name: str) -> None:
        if not self._quiet:
            sys.stderr.write(f"{name}: {self._word}\n")
            sys.stderr.flush()


def show_and_exit(
    found: Sequence[MaintenanceResult],
    columns: Sequence[str],
    *,
    command: str,
    done: bool,
    json: bool,
    debug: bool,
) -> NoReturn:
    """Show the results, and exit with 1 if one of them has an error."""
    if json:
        tables = [one.to_json() for one in found]
        print_json({"schema": f"tidegauge/{command}/1", "done": done, "tables": tables})
    elif not found:
        say("this project writes no Delta table; name one with --table")
    else:
        print_table(columns, [[_cell(one, name) for name in columns] for one in found], numbers=columns[1:-1])
    for one in found:
        if one.error is not None:
            report_error(one.error, json=False, debug=debug)
    raise typer.Exit(1 if any(one.error for one in found) else 0)


def _cell(one: MaintenanceResult, column: str) -> object:
    from tidegauge.model.retention import shown

    match column:
        case "table":
            return one.target.name
        case "kept for":
            return shown(one.retain) if one.retain is not None else None
        case "removed" | "would go":
            return f"{one.removed:,} and more" if one.more else one.removed
        case "":
            if one.absent:
                return "not there yet"
            if one.error:
                return "refused" if not one.done else "not vacuumed"
            return f"left alone: {one.left_alone}" if one.left_alone else ""
        case _:
            return _describe_sizes(one, column)


def _describe_sizes(one: MaintenanceResult, column: str) -> object:
    """One cell about the table before or after an optimize; None if it was not optimized."""
    from tidegauge.flows.maintenance.base import show_bytes

    if one.before is None or one.after is None or one.seconds is None:
        return None
    cells: dict[str, object] = {
        "files": one.before.files,
        "files now": one.after.files,
        "size": show_bytes(one.before.bytes),
        "size now": show_bytes(one.after.bytes),
        "seconds": f"{one.seconds:.1f}",
    }
    return cells[column]


def describe(found: Sequence[MaintenanceResult]) -> Iterator[str]:
    """Lines that say what was done to each table; tables left alone for one reason share a line."""
    left_alone: dict[str, list[str]] = {}
    for one in found:
        name = one.target.name
        if one.absent or one.left_alone:
            left_alone.setdefault(one.left_alone or "not there yet", []).append(name)
        elif one.error is not None and not one.done:
            yield f"{name}: {one.error.message}"
        else:
            yield f"{name}: {one.before} ─▶ {one.after}"
        if one.removed:
            yield f"{name}: {one.removed:,} {'file' if one.removed == 1 else 'files'} removed"
        if one.error is not None and one.done:
            yield f"{name}: not vacuumed, {one.error.message}"
    for reason, names in left_alone.items():
        yield f"{', '.join(names)}: left alone, {reason}"
