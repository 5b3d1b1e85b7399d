"""Shows what a change of watermarks by hand would do to each flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegauge.cli.output import print_table, say

if TYPE_CHECKING:
    from tidegauge.flows.override.preview import OverridePreview


def show_previews(previews: Sequence[OverridePreview]) -> None:
    from tidegauge.model.position import to_text

    print_table(
        ["flow", "from", "to", "rows skipped", "rows read again"],
        [
            [
                preview.name,
                to_text(preview.before),
                to_text(preview.after),
                count(preview.skipped),
                count(preview.again),
            ]
            for preview in previews
        ],
        numbers=("rows skipped", "rows read again"),
    )
    for preview in previews:
        for line in _lines(preview):
            say(f"   {preview.name}: {line}")


def _lines(preview: OverridePreview) -> list[str]:
    lines = [*preview.notes, *(f"take care: {danger}" for danger in preview.dangers)]
    if preview.unknown:
        lines.append(preview.unknown)
    if preview.supersedes:
        lines.append(f"supersedes {preview.supersedes}")
    if preview.holder:
        lines.append(f"held by {preview.holder}, who loses it: what it has not committed will not count")
    if preview.downstream:
        lines.append(f"read by {', '.join(preview.downstream)}, which see the change at their next run")
    return lines


def count(rows: int | None) -> str:
    return "unknown" if rows is None else f"{rows:,}"


def count_flows(names: Sequence[OverridePreview]) -> str:
    return names[0].name if len(names) == 1 else f"{len(names)} flows"
