"""Shows what a change of watermarks by hand would do to each flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegauge.cli.output import print_table, say

if TYPE_CHECKING:
    from tidegauge.flows.override.preview import OverridePreview


def show_moves(moves: Sequence[OverridePreview]) -> None:
    from tidegauge.model.position import to_text

    print_table(
        ["flow", "from", "to", "rows skipped", "rows read again"],
        [
            [move.name, to_text(move.before), to_text(move.after), count(move.skipped), count(move.again)]
            for move in moves
        ],
        numbers=("rows skipped", "rows read again"),
    )
    for move in moves:
        for line in _lines(move):
            say(f"   {move.name}: {line}")


def _lines(move: OverridePreview) -> list[str]:
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


def count(rows: int | None) -> str:
    return "unknown" if rows is None else f"{rows:,}"


def count_flows(names: Sequence[OverridePreview]) -> str:
    return names[0].name if len(names) == 1 else f"{len(names)} flows"
