"""Whether it pays to compact a table, and what it shall be sorted by."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.workflows import FLOWS, load
from tidegauge.delta_log.commit import Commit
from tidegauge.errors import ConfigError, SourceError, TableMissing
from tidegauge.flows.maintenance.base import MaintainedTable, TableSize
from tidegauge.flows.maintenance.optimize import find_reason, look_at
from tidegauge.flows.maintenance.vacuum import find_vacuum_reason
from tidegauge.model.delta_flow import TableRef

NOW = datetime(2026, 1, 20, tzinfo=UTC)
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


def table_of(folder: Path, *operations: tuple[int, str]) -> MaintainedTable:
    """A log with a commit for each: hours ago, and what it did."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    for version, (hours, operation) in enumerate(operations):
        at = int((NOW - timedelta(hours=hours)).timestamp() * 1000)
        actions: list[dict[str, object]] = [{"commitInfo": {"timestamp": at, "operation": operation}}]
        if version == 0:
            actions += [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}]
            actions += [{"metaData": {"id": "t", "schemaString": "{}", "partitionColumns": ["day"]}}]
        part = {"path": f"{version}.parquet", "partitionValues": {"day": str(version // 2)}, "size": 7}
        actions += [{"add": {**part, "dataChange": True}}] if operation == "WRITE" else []
        (log / f"{version:020}.json").write_text("\n".join(json.dumps(one) for one in actions))
    return MaintainedTable(TableRef(path=str(folder)), str(folder))


@pytest.mark.parametrize(
    ("operations", "reason"),
    [
        ([(100, "WRITE"), (1, "WRITE")], "nothing in it is older than 7 days"),
        ([(200, "WRITE"), (1, "WRITE")], None),
        ([(200, "WRITE"), (3, "VACUUM END"), (1, "WRITE")], "it was vacuumed less than 1 day ago"),
        ([(200, "WRITE"), (25, "VACUUM END"), (1, "WRITE")], None),
    ],
)
def test_a_flow_vacuums_only_where_that_may_find_something(
    tmp_path: Path, operations: list[tuple[int, str]], reason: str | None
) -> None:
    assert find_vacuum_reason(table_of(tmp_path / "t", *operations), NOW) == reason


def test_a_table_is_measured_by_its_log(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", (5, "WRITE"), (4, "WRITE"), (3, "WRITE"), (2, "VACUUM END"))
    assert look_at(table) == (TableSize(3, 21, 2), None)
    assert str(TableSize(3, 21_000, 2)) == "3 files, 21.0 kB"
    with pytest.raises(TableMissing):
        look_at(MaintainedTable(TableRef(path="/nowhere"), "/nowhere"))
    (tmp_path / "t" / "_delta_log" / f"{2:020}.json").write_text("{")
    with pytest.raises(SourceError, match="cannot be read"):
        look_at(table)


@pytest.mark.parametrize("feature", ["catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview"])
def test_b18_a_table_that_a_catalogue_commits_to_is_not_judged_by_its_log(
    tmp_path: Path, feature: str
) -> None:
    table = table_of(tmp_path / "t", (200, "WRITE"), (190, "WRITE"))
    named = {"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": [feature]}
    (tmp_path / "t" / "_delta_log" / f"{2:020}.json").write_text(json.dumps({"protocol": named}))
    for judge in (look_at, lambda one: find_vacuum_reason(one, NOW)):
        with pytest.raises(SourceError) as caught:
            judge(table)
        assert feature in caught.value.message
        assert "nothing was removed" in (caught.value.hint or "")
