"""Which keys may differ between two sides whose hashes differ: block by block, then key by key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from tidegauge.compare.blocks.side import NOTHING, Side

MOST = 20_000
"""Keys that are named in one statement, at most."""
_BLOCK_ROWS = 500
_MIN_BLOCKS, _MAX_BLOCKS = 64, 16_384
_LISTED = 50_000
"""So many row hashes are always worth fetching from both sides together."""
_SHARE = 10
"""Beyond that, hashes are fetched of at most one row in ten."""

One = TypeVar("One")
Other = TypeVar("Other")


@dataclass(frozen=True)
class Suspects:
    """The keys whose rows differ between two sides, as far as hashes tell."""

    keys: frozenset[int]
    """The hashes of these keys."""
    source_rows: int
    """Rows of the source, without those of these keys; `target_rows` likewise."""
    target_rows: int


def find_suspects(source: Side, target: Side, *, rows: int, apart: Collection[int]) -> Suspects | None:
    """The keys that may differ; None where too much differs for a search by blocks. `rows`: about how many
    rows there are. `apart`: hashes of the target's keys that do not count."""
    count = min(max(rows // _BLOCK_ROWS, _MIN_BLOCKS), _MAX_BLOCKS)
    here, there = both(lambda: source.blocks(count, ()), lambda: target.blocks(count, apart))
    unlike = [
        number
        for number in here.keys() | there.keys()
        if not here.get(number, NOTHING).is_like(there.get(number, NOTHING))
    ]
    source_rows = sum(block.rows for block in here.values())
    target_rows = sum(block.rows for block in there.values())
    if not unlike:
        return Suspects(frozenset(), source_rows, target_rows)
    listed = sum(here.get(number, NOTHING).rows + there.get(number, NOTHING).rows for number in unlike)
    if listed > max(_LISTED, (source_rows + target_rows) // _SHARE):
        return None
    ours, theirs = both(lambda: source.hashes(count, unlike, ()), lambda: target.hashes(count, unlike, apart))
    if target.repeats:
        ours, versions, theirs = list(set(ours)), theirs, list(set(theirs))
    else:
        versions = theirs
    apart_here, apart_there = Counter(ours), Counter(theirs)
    keys = frozenset(key for key, _ in ((apart_here - apart_there) + (apart_there - apart_here)))
    if len(keys) > MOST:
        return None
    return Suspects(
        keys,
        source_rows - sum(key in keys for key, _ in ours),
        target_rows - sum(key in keys for key, _ in versions),
    )


def both(one: Callable[[], One], other: Callable[[], Other]) -> tuple[One, Other]:
    """Run both calls at the same time."""
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(one)
        second = other()
        return first.result(), second
