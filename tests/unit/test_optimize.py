"""Whether it pays to compact a table, and what it shall be sorted by."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.workflows import FLOWS, load
from tidegauge.delta_log.commit import Commit
from tidegauge.errors import ConfigError
from tidegauge.flows.maintenance import TableSize
from tidegauge.flows.optimize import find_reason

MANY = TableSize(10, 10_000, 10)
WRITE = Commit(1, ({"commitInfo": {"operation": "MERGE"}}, {"add": {"path": "a", "dataChange": True}}))
VACUUM = Commit(2, ({"commitInfo": {"operation": "VACUUM END"}},))
WINDOW = Commit(3, ({"commitInfo": {"operation": "TIDEGAUGE BATCH"}}, {"txn": {"appId": "a", "version": 1}}))


def optimized(columns: str = "[]", predicate: str = "[]") -> Commit:
    said = {"operation": "OPTIMIZE", "operationParameters": {"predicate": predicate, "zOrderBy": columns}}
    return Commit(4, ({"commitInfo": said}, {"add": {"path": "b", "dataChange": False}}))


@pytest.mark.parametrize(
    ("size", "commits", "zorder", "reason"),
    [
        (MANY, [WRITE], [], None),
        (MANY, [], [], None),
        (MANY, [WRITE, optimized()], [], None),
        (MANY, [VACUUM, WRITE, optimized()], [], None),
        (MANY, [optimized(), WRITE], [], "nothing has changed since it was last optimized"),
        (MANY, [VACUUM, VACUUM, optimized(), WRITE], [], "nothing has changed since it was last optimized"),
        (MANY, [WINDOW, optimized(), WRITE], [], "nothing has changed since it was last optimized"),
        (MANY, [optimized(predicate='["(day > 1)"]'), WRITE, optimized()], [], None),
        (MANY, [optimized()], ["id"], None),
        (MANY, [optimized('["ID"]')], ["id"], "nothing has changed since it was last optimized"),
        (MANY, [optimized('["id"]')], ["day"], None),
        (TableSize(1, 10, 1), [WRITE], [], "it has no small files"),
        (TableSize(0, 0, 0), [], ["id"], "it has no small files"),
        (TableSize(30, 10_000, 1), [WRITE], [], "each of its partitions is one file"),
        (TableSize(10, 2 * 1024**3, 10), [WRITE], [], "its files are large already"),
        (TableSize(10, 2 * 1024**3, 10), [WRITE], ["id"], None),
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
