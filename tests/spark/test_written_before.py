"""Delta tables and the ledger beside them, as an earlier version left them, go on where they stood.

What the targets have to hold is worked out from the inputs' own change feeds, read by Spark alone.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.written_before import SETS, Old, Rows, assert_says_the_same, history_of, unpack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("version", SETS)
def test_flows_between_delta_tables_of_an_earlier_version_go_on_where_they_stood(
    version: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Old(unpack(version, "layers", tmp_path, monkeypatch))

    def rows(query: str) -> Rows:
        """`@name` is the table of that name."""
        named = [f"delta.`{old.folder}/{word[1:]}`" if word[0] == "@" else word for word in query.split(" ")]
        return Counter(tuple(row) for row in spark.sql(" ".join(named)).collect())

    def came(table: str, columns: str) -> list[tuple[Any, ...]]:
        """Every row that was put into a table, as often as it was, in the order of the commits."""
        reader = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
        feed = reader.load(f"{old.folder}/bronze/{table}")
        put = feed.where("_change_type IN ('insert', 'update_postimage')").orderBy("_commit_version")
        return [tuple(row) for row in put.selectExpr(*columns.split(", ")).collect()]

    assert_says_the_same(old.said("status"), old.do("status").json, passing=["lag_seconds"])
    assert_says_the_same(old.said("watermarks"), old.do("watermark", "list").json)
    assert_says_the_same(old.said("history"), old.do("history", "--limit", "1000").json)

    flows = old.do("run").json["flows"]
    assert {flow["state"] for flow in flows} == {"SUCCESS"}
    windows = [
        (flow["flow"], flow["resumed"], flow["windows"][0]["after"], flow["windows"][0]["upto"])
        for flow in flows
    ]
    assert windows == [
        ("changes", True, 1, 4),
        ("changes", False, 4, 6),
        ("customers", False, 3, 6),
        ("orders", False, 4, 6),
    ]
    assert rows("SELECT id, twice, word FROM @silver/orders") == rows(
        "SELECT id, amount * 2, word FROM @bronze/orders WHERE amount > 0"
    )
    assert rows("SELECT id, amount, word FROM @silver/changes") == Counter(came("orders", "id, amount, word"))
    history = history_of(came("customers", "id, name, at"), when=2)
    assert rows("SELECT id, name, at, valid_from, valid_to, is_current FROM @silver/customers") == history
    assert {flow["state"] for flow in old.do("run").json["flows"]} == {"SKIPPED"}
