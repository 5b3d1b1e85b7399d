"""Writes the pages of `docs/` that are generated from the code; `--check` only lists the stale ones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from tidegauge.cli.main import app
from tidegauge.config.reference import reference as configuration
from tidegauge.model import state
from tidegauge.sources.types_page import markdown as types

DOCS = Path(__file__).parents[1] / "docs"


def states() -> str:
    return (
        "# The states of a flow\n\n"
        "What may follow what. A dot means that the event is not allowed in that state: the error\n"
        "`WrongState` names both. This page is printed from the table that the code runs on.\n\n"
        + state.table()
        + "\n"
    )


def command_line() -> str:
    """Make the page with the `--help` of every command."""
    top = get_command(app)
    pages = ["# The command line\n\nThis page is printed from `--help`.\n"]

    def add(command: Any, names: list[str]) -> None:
        context = typer.Context(command, info_name=" ".join(names), terminal_width=100, max_content_width=100)
        pages.append(f"## {' '.join(names)}\n\n```\n{command.get_help(context).rstrip()}\n```\n")
        for name in getattr(command, "commands", {}):
            if not command.commands[name].hidden:
                add(command.commands[name], [*names, name])

    add(top, ["tidegauge"])
    return "\n".join(pages)


PAGES = {
    "cli.md": command_line,
    "configuration.md": configuration,
    "states.md": states,
    "types.md": types,
}


def main(check: bool) -> int:
    stale = [name for name, make in PAGES.items() if _read(DOCS / name) != make()]
    for name in stale:
        if not check:
            (DOCS / name).write_text(PAGES[name]())
        sys.stdout.write(f"{'stale' if check else 'wrote'}: docs/{name}\n")
    return 1 if check and stale else 0


def _read(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
