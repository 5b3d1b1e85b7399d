"""Results as an aligned text table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

HEAD = ("measured", "ours", "reference", "ratio", "goal", "")


def table(results: Sequence[dict[str, Any]]) -> str:
    """Make aligned text; the last column says whether the goal is met."""
    lines = [HEAD, *(cells(one) for one in results)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(HEAD))]
    return "".join(
        "  ".join(
            cell.rjust(width) if place and place < len(HEAD) - 1 else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        + "\n"
        for line in lines
    )


def cells(result: dict[str, Any]) -> tuple[str, str, str, str, str, str]:
    unit, goal = result["unit"], result["goal"]
    return (
        result["name"],
        f"{_number(result['ours'])} {unit}",
        f"{_number(result['reference'])} {unit}",
        f"{result['ratio']:.2f}",
        "—" if goal is None else f"≤ {goal:g}",
        {None: "", True: "✓", False: "✗"}[result["met"]],
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
