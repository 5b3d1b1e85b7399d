"""The options that mean the same on every command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ProjectOption = Annotated[
    Path | None,
    typer.Option("--project", help="The project file or its folder; else found by walking up from here."),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="One JSON document on stdout, and nothing else there.")
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the whole story behind an error.")]
SelectOption = Annotated[
    list[str] | None,
    typer.Option("--select", help="A flow's name, a pattern, or tag:x. Can be given more than once."),
]
TableOption = Annotated[
    list[str] | None, typer.Option("--table", "-t", help="A table, as the source names it, or a pattern.")
]


def selection(select: list[str] | None, table: list[str] | None) -> tuple[str, ...]:
    return (*(select or ()), *(table or ()))
