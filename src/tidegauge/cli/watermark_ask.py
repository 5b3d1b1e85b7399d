"""Show what a change of watermarks would do, ask, and do it: the part that all such commands share."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegauge.cli.output import print_json, print_table, report_error, say
from tidegauge.errors import ConfigError

if TYPE_CHECKING:
    from tidegauge.engine.override import Done, Move, Wish
    from tidegauge.model.spec import Project

ReasonOption = Annotated[str | None, typer.Option(help="Why; the history keeps it.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would happen.")]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Also into the future, or behind where the watermark is.")
]


def override(
    project: Project,
    selection: Sequence[str],
    wish: Wish,
    *,
    command: str,
    reason: str | None,
    yes: bool,
    dry_run: bool,
    force: bool,
    json: bool,
    debug: bool,
) -> None:
    """Preview, ask, do. Raises ConfigError for what lacks a reason, force or a yes."""
    from tidegauge.engine.foresee import preview
    from tidegauge.engine.override import carry_out

    if not dry_run and not (reason and reason.strip()):
        raise ConfigError(
            f"`watermark {command}` needs a reason", hint='add --reason "…", or --dry-run to look first'
        )
    moves = preview(project, selection, wish)
    if not moves:
        if json:
            _print(command, moves, done=False)
        else:
            say("every flow stands there already; nothing to change")
        return
    if not json:
        show(moves)
    if dry_run:
        if json:
            _print(command, moves, done=False)
        else:
            say("nothing was changed")
        return
    risky = next((move for move in moves if move.dangers), None)
    if risky is not None and not force:
        raise ConfigError(
            f"{risky.name}: {risky.dangers[0]}",
            hint="if that is what you want, add --force; nothing was changed",
        )
    if not yes and not _agreed(f"change the watermark of {_flows(moves)}?"):
        raise ConfigError("not confirmed, so nothing was changed", hint="answer y, or add --yes in a script")
    assert reason is not None
    ended = carry_out(project, moves, reason=reason)
    if json:
        _print(command, ended, done=True)
    for one in ended:
        if one.error is not None:
            report_error(one.error, json=False, debug=debug)
        elif not json:
            say(f"{one.move.name}: done; its next run is the first of epoch {one.epoch}")
    raise typer.Exit(1 if any(one.error for one in ended) else 0)


def show(moves: Sequence[Move]) -> None:
    from tidegauge.model.position import to_text

    print_table(
        ["flow", "from", "to", "rows skipped", "rows read again"],
        [
            [move.name, to_text(move.before), to_text(move.after), _count(move.skipped), _count(move.again)]
            for move in moves
        ],
        numbers=("rows skipped", "rows read again"),
    )
    for move in moves:
        for line in _lines(move):
            say(f"   {move.name}: {line}")


def _lines(move: Move) -> list[str]:
    lines = [*move.notes, *(f"take care: {danger}" for danger in move.dangers)]
    if move.unknown:
        lines.append(move.unknown)
    if move.supersedes:
        lines.append(f"supersedes {move.supersedes}")
    if move.holder:
        lines.append(f"held by {move.holder}, who loses it: what it has not committed will not count")
    if move.downstream:
        lines.append(f"read by {', '.join(move.downstream)}, which see the change at their next run")
    return lines


def _print(command: str, found: Sequence[Move] | Sequence[Done], *, done: bool) -> None:
    flows: list[dict[str, Any]] = [one.to_json() for one in found]
    print_json({"schema": f"tidegauge/watermark-{command}/1", "done": done, "flows": flows})


def _count(rows: int | None) -> str:
    return "unknown" if rows is None else f"{rows:,}"


def _flows(moves: Sequence[Move]) -> str:
    return moves[0].name if len(moves) == 1 else f"{len(moves)} flows"


def _agreed(question: str) -> bool:
    return sys.stdin.isatty() and typer.confirm(question, err=True)
