"""Whether it pays to compact a table, and what it shall be sorted by."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.workflows import FLOWS, load
from tidegauge.errors import ConfigError
from tidegauge.operations.delta_tables import TableSize
from tidegauge.operations.optimize import Commit, find_reason

MANY = TableSize(10, 10_000)
WRITE: Commit = ("MERGE", {})
VACUUM: Commit = ("VACUUM END", {})


def optimized(columns: str = "[]") -> Commit:
    return ("OPTIMIZE", {"predicate": "[]", "zOrderBy": columns})


@pytest.mark.parametrize(
    ("size", "commits", "zorder", "reason"),
    [
        (MANY, [WRITE], [], None),
        (MANY, [], [], None),
        (MANY, [WRITE, optimized()], [], None),
        (MANY, [VACUUM, WRITE, optimized()], [], None),
        (MANY, [optimized(), WRITE], [], "nothing has changed since it was last optimized"),
        (MANY, [VACUUM, VACUUM, optimized(), WRITE], [], "nothing has changed since it was last optimized"),
        (MANY, [optimized()], ["id"], None),
        (MANY, [optimized('["ID"]')], ["id"], "nothing has changed since it was last optimized"),
        (MANY, [optimized('["id"]')], ["day"], None),
        (TableSize(1, 10), [WRITE], [], "it has no small files"),
        (TableSize(0, 0), [], ["id"], "it has no small files"),
        (TableSize(10, 2 * 1024**3), [WRITE], [], "its files are large already"),
        (TableSize(10, 2 * 1024**3), [WRITE], ["id"], None),
    ],
)
def test_a_table_is_compacted_only_where_it_pays(
    size: TableSize, commits: list[Commit], zorder: list[str], reason: str | None
) -> None:
    assert find_reason(size, commits, zorder) == reason


def test_the_columns_to_sort_by_are_declared(tmp_path: Path) -> None:
    text = FLOWS.replace("{path: g/usage, key: id}", "{path: g/usage, key: id, zorder: [day, id]}")
    assert load(tmp_path, text).delta_flows[2].output.zorder == ("day", "id")
    wrong = text.replace("key: id, zorder", "key: id, partition_by: Day, zorder")
    with pytest.raises(ConfigError, match="the table is partitioned by `day`") as caught:
        load(tmp_path, wrong)
    assert caught.value.place is not None
    assert caught.value.place.line == 5
