"""Which keys may differ between two sides that do not hash alike: block by block, then key by key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from tidegauge.compare.blocks.side import NOTHING, Side

MOST = 20_000
"""Keys that are named in one statement."""
_BLOCK_ROWS = 500
_FEWEST, _MOST_BLOCKS = 64, 16_384
_LISTED = 50_000
"""Rows whose hashes are fetched from either side at least, before that is too much of a table."""
_SHARE = 10

One = TypeVar("One")
Other = TypeVar("Other")


@dataclass(frozen=True)
class Suspects:
    """What two sides do not have in common, as far as hashes tell."""

    keys: frozenset[int]
    """Hashes of keys."""
    source_rows: int
    """Of the whole side, but for the rows of these keys; likewise below."""
    target_rows: int


def find_suspects(source: Side, target: Side, *, rows: int, apart: Collection[int]) -> Suspects | None:
    """None: too much differs to be worth asking for it piece by piece. `rows`: about how many there are."""
    count = min(max(rows // _BLOCK_ROWS, _FEWEST), _MOST_BLOCKS)
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
    """Two databases at work at once."""
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(one)
        second = other()
        return first.result(), second
