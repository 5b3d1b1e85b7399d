"""A schema of bronze tables: `python lake.py make [TABLES]`, `change` and, after the runs, `prove`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake

TABLES = 120
ROWS = 1_000
_FEED = {"delta.enableChangeDataFeed": "true"}


def make(lake: Path, tables: int = TABLES) -> None:
    for number in range(tables):
        _add(lake / "bronze" / f"t{number:03d}", 0, ROWS, "first")


def change(lake: Path) -> list[str]:
    """One table in ten gets new rows, new words for old ones, and loses some."""
    changed = sorted((lake / "bronze").iterdir())[::10]
    for path in changed:
        _add(path, ROWS, ROWS + 100, "new")
        DeltaTable(path).update(predicate="id % 100 = 1", new_values={"word": "'changed'"})
        DeltaTable(path).delete("id % 100 = 2")
    return [f"silver_{path.name}" for path in changed]


def prove(lake: Path) -> int:
    """How many silver tables there are; each of them is its bronze table."""
    for bronze in sorted((lake / "bronze").iterdir()):
        assert _rows(bronze) == _rows(lake / "silver" / bronze.name), bronze.name
    return len(list((lake / "silver").iterdir()))


def _add(path: Path, first: int, last: int, word: str) -> None:
    rows = pa.table({"id": pa.array(range(first, last), pa.int64()), "word": [word] * (last - first)})
    write_deltalake(path, rows, mode="append", configuration=_FEED)


def _rows(path: Path) -> list[tuple[Any, ...]]:
    found = QueryBuilder().register("t", DeltaTable(path)).execute("SELECT id, word FROM t").read_all()
    return sorted(zip(*(column.to_pylist() for column in pa.table(found).columns), strict=True))


if __name__ == "__main__":
    where = Path.cwd() / "lake"
    match sys.argv[1:]:
        case ["make", *tables]:
            make(where, *map(int, tables))
        case ["change"]:
            print("changed:", ", ".join(change(where)))
        case ["prove"]:
            print("silver is bronze:", prove(where), "tables")
