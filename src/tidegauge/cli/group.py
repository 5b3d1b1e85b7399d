"""Groups of commands whose `--help` shows the whole summary of each command."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

_WHOLE = 1000
"""A limit in characters that no summary reaches."""


class CommandGroup(TyperGroup):
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        shown = [
            (name, one.get_short_help_str(limit=_WHOLE))
            for name, one in commands
            if one is not None and not one.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(shown)


def make_group(about: str) -> typer.Typer:
    """Make a group below the top level, to which commands can be added."""
    return typer.Typer(help=about, cls=CommandGroup, no_args_is_help=True, rich_markup_mode=None)
