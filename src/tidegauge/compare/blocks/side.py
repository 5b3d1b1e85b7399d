"""One side of a comparison: a table that a database hashes itself, as a whole, in blocks, or row by row.

A block is the rows whose key's hash has the same remainder, so that neither order nor collation matters. Its
hash is the sum of its rows' hashes, which is the same in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from tidegauge.compare.blocks.words import HashSql
from tidegauge.errors import OutputError


@dataclass(frozen=True)
class Block:
    rows: int
    keys: int
    """As many as the rows; with `Side.repeats`, as many as the different hashes."""
    total: int
    """The sum of the rows' hashes; with `Side.repeats`, of the different ones."""

    def is_like(self, other: Block) -> bool:
        return (self.keys, self.total) == (other.keys, other.total)


NOTHING = Block(0, 0, 0)


@dataclass(frozen=True)
class Side:
    ask: Callable[[str], list[tuple[Any, ...]]]
    """Runs one SELECT, which sees one moment of the table."""
    words: HashSql
    table: str
    """The table as FROM names it, with what makes the server read it from end to end (`HashSql.whole`)."""
    where: str
    row: str
    """SQL of the hash of a row."""
    key: str
    """SQL of the hash of its key."""
    guard: str = ""
    """SQL that is true for a row that cannot be read exactly."""
    repeats: bool = False
    """Whether a key may be there in several versions, which count once."""

    def is_reliable(self) -> bool:
        return not self.words.check or int(self.ask(self.words.check)[0][0]) == 1

    def whole(self) -> Block:
        """The table as one block. Raises OutputError where the guard finds a row."""
        [found] = self.ask(f"SELECT {self._sums()} FROM ({self._select(self.row)}) AS r")
        return self._block(found)

    def blocks(self, count: int, apart: Collection[int]) -> dict[int, Block]:
        """The blocks by number, without empty ones. `apart`: hashes of keys that do not count."""
        inner = self._select(self.row, f"{self.key} % {count} AS b", apart=apart)
        found = self.ask(f"SELECT b, {self._sums()} FROM ({inner}) AS r GROUP BY b")
        return {int(number): self._block(sums) for number, *sums in found}

    def hashes(self, count: int, blocks: Collection[int], apart: Collection[int]) -> list[tuple[int, int]]:
        """The hashes of key and row of each row in these blocks."""
        inner = self._select(self.row, f"{self.key} AS k", apart=apart)
        numbers = ", ".join(map(str, sorted(blocks)))
        found = self.ask(f"SELECT k, h FROM ({inner}) AS r WHERE k % {count} IN ({numbers})")
        return [(int(key), int(row)) for key, row in found]

    def only(self, keys: Collection[int]) -> str:
        """SQL that is true for rows with these hashes of keys."""
        return f"{self.key} IN ({', '.join(map(str, sorted(keys)))})"

    def _select(self, row: str, *more: str, apart: Collection[int] = ()) -> str:
        guard = [f"CASE WHEN {self.guard} THEN 1 ELSE 0 END AS g"] if self.guard else []
        columns = ", ".join([f"{row} AS h", *more, *guard])
        where = f"({self.where})" + (f" AND NOT ({self.only(apart)})" if apart else "")
        return f"SELECT {columns} FROM {self.table} WHERE {where}"

    def _sums(self) -> str:
        # The hash is named as seldom as possible: a server may compute it again for each mention.
        total = self.words.total("h") if not self.repeats else self.words.total("DISTINCT h")
        keys = "COUNT(DISTINCT h)" if self.repeats else "COUNT(*)"
        return f"COUNT(*), {keys}, {total}, {'SUM(g)' if self.guard else '0'}"

    def _block(self, sums: Any) -> Block:
        rows, keys, total, guarded = (int(one or 0) for one in sums)
        if guarded:
            raise OutputError(f"{guarded:,} of its rows hold a value that cannot be held exactly")
        return Block(rows, keys, total)
