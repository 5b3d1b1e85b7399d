"""Lineage of flows between Delta tables, down to the columns, and what they set aside as a number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client.parser import text_string_to_metric_families

from tests.integration.test_layers import FEED, Lakehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOWS = """\
  spending:
    inputs:
      orders: {path: orders}
      customers: {path: customers, snapshot: true}
    transform: spending.sql
    expect: {"total >= 0": {action: quarantine}}
    output: {path: spending, mode: merge, key: id}
lineage: {file: events.jsonl}
"""
SQL = """\
SELECT o.id, c.name, o.amount * 2 AS total
FROM orders o JOIN customers c ON c.id = o.customer_id
"""


def fields(event: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    facet = event["outputs"][0]["facets"]["columnLineage"]["fields"]
    return {
        column: [(Path(one["name"]).name, one["field"]) for one in made["inputFields"]]
        for column, made in facet.items()
    }


def test_a_sql_flow_tells_where_each_of_its_columns_comes_from(spark: SparkSession, tmp_path: Path) -> None:
    house = Lakehouse(spark, tmp_path)
    house.sql(f"CREATE TABLE @orders (id INT, customer_id INT, amount INT) {FEED}")
    house.sql(f"CREATE TABLE @customers (id INT, name STRING) {FEED}")
    house.sql("INSERT INTO @orders VALUES (1, 7, 10), (2, 7, -1)")
    house.sql("INSERT INTO @customers VALUES (7, 'Ada')")
    house.write(FLOWS, spending=SQL)
    ran = house.type("run", "--json")
    assert ran.code == 0, ran.said
    assert ran.json["lineage"] == {"sent": 3, "error": None}
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    last = events[-1]
    assert last["eventType"] == "COMPLETE"
    assert [one["name"] for one in last["inputs"]] == [str(tmp_path / "orders"), str(tmp_path / "customers")]
    assert {one["namespace"] for one in last["inputs"]} == {"file"}
    assert fields(last) == {
        "id": [("orders", "id")],
        "name": [("customers", "name")],
        "total": [("orders", "amount")],
    }
    schema = last["outputs"][0]["facets"]["schema"]["fields"]
    assert {field["name"]: field["type"] for field in schema} == {
        "id": "integer",
        "name": "string",
        "total": "integer",
    }
    assert last["job"]["facets"]["sql"]["query"] == SQL
    windows = last["run"]["facets"]["tidegauge_windows"]["windows"]
    assert [(one["input"], one["cursor"], one["upto"]) for one in windows] == [
        ("orders", "version", 1),
        ("customers", "snapshot", 1),
    ]
    assert last["run"]["facets"]["tidegauge_rows"]["quarantined"] == 1
    families = {one.name: one for one in text_string_to_metric_families(house.type("metrics").out)}
    assert [one.value for one in families["tidegauge_quarantined_rows"].samples] == [1.0]
