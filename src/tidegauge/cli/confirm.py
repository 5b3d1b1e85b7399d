"""What every command that changes something by hand asks for: a reason, and a yes."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import typer

from tidegauge.errors import ConfigError

ReasonOption = Annotated[
    str | None, typer.Option(help="Why; the history keeps it. Asked for on a terminal, if left out.")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would happen.")]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Also into the future, or behind where the watermark is.")
]

PreviewedOption = Annotated[
    str | None,
    typer.Option(
        metavar="WORD", help="Refuse if the preview has changed since --dry-run --json gave this `preview`."
    ),
]


def check_reason(command: str, reason: str | None) -> None:
    """Raise ConfigError if no reason was given and nobody can be asked; called before any work is done."""
    if not _is_given(reason) and not sys.stdin.isatty():
        typed = shlex.join(word for word in sys.argv[1:] if word != "--yes")
        raise ConfigError(
            f"`{command}` needs a reason",
            hint=f'type: tidegauge {typed} --reason "why" --yes; or add --dry-run instead, to look first',
        )


def confirm_with_reason(question: str, reason: str | None, *, yes: bool) -> str:
    """Ask for a reason if none was given, then for a yes. Returns the reason, or raises ConfigError."""
    if not _is_given(reason):
        reason = typer.prompt("why? (the history keeps it)", default="", show_default=False, err=True)
    if not _is_given(reason):
        raise ConfigError("no reason was given, so nothing was changed", hint='answer, or add --reason "…"')
    confirm(question, yes=yes)
    assert reason is not None
    return reason


def confirm(question: str, *, yes: bool) -> None:
    """Ask for a yes, unless `yes` is set already. Raises ConfigError without one."""
    if not yes and not (sys.stdin.isatty() and typer.confirm(question, err=True)):
        raise ConfigError("not confirmed, so nothing was changed", hint="answer y, or add --yes in a script")


def _is_given(reason: str | None) -> bool:
    return bool(reason and reason.strip())
