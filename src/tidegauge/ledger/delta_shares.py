"""Which rows of a Delta ledger share a file, so that changing one flow's writes few others again. No I/O."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Row = dict[str, Any]

TOGETHER = 16
"""So many rows, or fewer, go into one file."""
_SPLIT = 8
"""How many files, at most, take the rows that do not change."""
_MANY = 16
"""From so many small files on, they are merged."""


def find_replaced(
    rows: Mapping[str, Sequence[Row]], changed: set[str], *, flow: Callable[[Row], str]
) -> list[str]:
    """The paths of the files that a change of these flows writes again: those with their rows, and small ones
    if there are many."""
    touched = {path for path, some in rows.items() if any(flow(row) in changed for row in some)}
    small = [path for path, some in rows.items() if path not in touched and len(some) <= TOGETHER // 2]
    return sorted(touched | set(small if len(small) >= _MANY else ()))


def share_out(
    current: Sequence[Row], stay: Sequence[Row], *, flow: Callable[[Row], str]
) -> Iterable[list[Row]]:
    """Divide rows among files. `current` are the rows that change, `stay` the others: many changed rows share
    one file, and the others go into small files, so that the next save writes little again."""
    if len(current) + len(stay) <= TOGETHER or not stay:
        if current or stay:
            yield [*current, *stay]
        return
    if current:
        yield list(current)
    rest = sorted(stay, key=flow)
    size = max(TOGETHER, math.ceil(len(rest) / _SPLIT))
    for start in range(0, len(rest), size):
        yield rest[start : start + size]
