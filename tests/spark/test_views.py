"""Views in Spark's catalogue: made, left alone, replaced, and made again whatever somebody did to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.support.project import Ran, here, refused
from tidegauge.flows.view import View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

YAML = """
pipeline: p
flows:
  silver: {inputs: {orders: {path: bronze}}, output: {path: silver, key: id}}
  v_orders:
    kind: view
    inputs: {orders: {path: silver}}
    transform: orders.sql
    output: {table: views_gold.v_orders}
  v_big:
    kind: view
    inputs: {orders: views_gold.v_orders}
    transform: big.sql
    output: {table: views_gold.v_big}
    tags: top
"""
ORDERS = "WITH o AS (SELECT * FROM orders) -- a comment;\nSELECT *, 'it''s' AS said FROM o;"
BIG = "SELECT id FROM orders WHERE amount > 15"


class Killed(BaseException):
    """Nobody catches it, as nobody catches SIGKILL."""


class Gold:
    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder

    def add(self, **columns: list[Any]) -> None:
        from deltalake import write_deltalake

        write_deltalake(
            str(self.folder / "bronze"),
            pa.table(columns),
            mode="append",
            schema_mode="merge",
            configuration={"delta.enableChangeDataFeed": "true"},
        )

    def write(self, orders: str = ORDERS, big: str = BIG, yaml: str = YAML) -> None:
        (self.folder / "tidegauge.yml").write_text(yaml)
        (self.folder / "orders.sql").write_text(orders)
        (self.folder / "big.sql").write_text(big)

    def tidegauge(self, *words: str) -> Ran:
        return here(*words, "--project", self.folder)

    def run(self, *words: str) -> dict[str, str]:
        ran = self.tidegauge("run", "--json", *words)
        assert ran.code == 0, ran.said
        return {flow["flow"]: flow["state"] for flow in ran.json["flows"]}

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in self.spark.sql(query).collect())


@pytest.fixture
def gold(spark: SparkSession, tmp_path: Path) -> Iterator[Gold]:
    made = Gold(spark, tmp_path)
    made.add(id=[1, 2], amount=[10, 20])
    made.write()
    yield made
    spark.sql("DROP SCHEMA IF EXISTS views_gold CASCADE")


def test_views_are_made_after_what_they_read_and_only_when_they_have_to_be(gold: Gold) -> None:
    planned = gold.tidegauge("plan", "--json")
    assert planned.code == 0, planned.said
    assert {flow["flow"]: flow["state"] for flow in planned.json["flows"]} == dict.fromkeys(
        ("silver", "v_orders", "v_big"), "PLANNED"
    )
    assert planned.flow("v_big")["upstreams"] == ["v_orders"]
    assert gold.run() == dict.fromkeys(("silver", "v_orders", "v_big"), "SUCCESS")
    assert gold.rows("SELECT * FROM views_gold.v_orders") == [(1, 10, "it's"), (2, 20, "it's")]
    assert gold.rows("SELECT * FROM views_gold.v_big") == [(2,)]
    assert gold.run() == dict.fromkeys(("silver", "v_orders", "v_big"), "SKIPPED")
    assert {flow["state"] for flow in gold.tidegauge("plan", "--json").json["flows"]} == {"SKIPPED"}

    # New rows and new columns are seen through a view as it is.
    gold.add(id=[3], amount=[30], who=["Ada"])
    assert gold.run() == {"silver": "SUCCESS", "v_orders": "SKIPPED", "v_big": "SKIPPED"}
    assert gold.rows("SELECT * FROM views_gold.v_big") == [(2,), (3,)]
    assert gold.rows("SELECT who FROM views_gold.v_orders WHERE id = 3") == [("Ada",)]

    # Its text and the names of its inputs are what it is made of.
    gold.write(big=BIG.replace("15", "25"))
    assert gold.run() == {"silver": "SKIPPED", "v_orders": "SKIPPED", "v_big": "SUCCESS"}
    assert gold.rows("SELECT * FROM views_gold.v_big") == [(3,)]
    gold.write(yaml=YAML.replace("{orders: views_gold.v_orders}", "{orders: {path: silver}}"))
    assert gold.run("--select", "tag:top") == {"v_big": "SUCCESS"}
    assert gold.rows("SELECT * FROM views_gold.v_big") == [(2,), (3,)]


def test_a_view_that_somebody_changed_or_dropped_is_made_again(gold: Gold) -> None:
    gold.run()
    for statement in (
        "DROP VIEW views_gold.v_big",
        "ALTER VIEW views_gold.v_big AS SELECT 7 AS id",
        "CREATE OR REPLACE VIEW views_gold.v_big AS SELECT 7 AS id",
        "ALTER VIEW views_gold.v_big SET TBLPROPERTIES ('tidegauge.fingerprint' = 'x')",
    ):
        gold.spark.sql(statement)
        assert gold.run("--select", "v_big") == {"v_big": "SUCCESS"}, statement
        assert gold.rows("SELECT * FROM views_gold.v_big") == [(2,)], statement
    for name in ("v_orders", "v_big"):
        gold.spark.sql(f"DROP VIEW views_gold.{name}")
    planned = gold.tidegauge("plan", "--json")
    assert {flow["flow"]: flow["state"] for flow in planned.json["flows"]} == {
        "silver": "SKIPPED",
        "v_orders": "PLANNED",
        "v_big": "PLANNED",
    }
    gold.spark.sql("CREATE TABLE views_gold.v_big (id INT) USING delta")
    ran = gold.tidegauge("run", "--select", "v_big")
    assert "tidegauge.yml" in refused(ran, "views_gold.v_big is a table", "another name")
    assert gold.rows("SELECT * FROM views_gold.v_big") == []


def test_a_run_that_dies_before_or_after_the_statement_leaves_no_half_view(
    gold: Gold, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = View._make

    def die_before(*_: Any) -> None:
        raise Killed

    def die_after(view: View, session: Any, text: str) -> None:
        make(view, session, text)
        raise Killed

    gold.run("--select", "silver")
    for die, after in ((die_before, "SUCCESS"), (die_after, "SKIPPED")):
        monkeypatch.setattr(View, "_make", die)
        with pytest.raises(Killed):
            gold.tidegauge("run", "--select", "v_orders")
        monkeypatch.setattr(View, "_make", make)
        assert gold.run("--select", "v_orders") == {"v_orders": after}
        assert len(gold.rows("SELECT * FROM views_gold.v_orders")) == 2
        gold.spark.sql("DROP VIEW views_gold.v_orders")


def test_what_a_view_cannot_read_is_told_with_its_place(gold: Gold) -> None:
    gold.run("--select", "silver")
    gold.write(orders="SELECT id,\n  nobody FROM orders")
    for command in ("plan", "run"):
        ran = gold.tidegauge(command, "--select", "v_orders")
        assert "orders.sql:2:3: " in refused(ran, "nobody"), ran.said
    # A table that is there, and in no graph.
    gold.write(orders=f"SELECT * FROM delta.`{gold.folder}/bronze`")
    for command in ("plan", "run"):
        ran = gold.tidegauge(command, "--select", "v_orders")
        assert "orders.sql:1:15: " in refused(ran, "which is no input"), ran.said
    gold.write(yaml=YAML.replace("orders: views_gold.v_orders", "orders: views_gold.nobody"))
    for command in ("plan", "run"):
        ran = gold.tidegauge(command, "--select", "v_big")
        refused(ran, "its input orders is not there: views_gold.nobody")
    # A failure holds back the views above it, and nothing else.
    gold.write(orders="SELECT nobody FROM orders")
    ran = gold.tidegauge("run", "--json")
    assert ran.code == 1
    states = {flow["flow"]: flow["state"] for flow in ran.json["flows"]}
    assert states == {"silver": "SKIPPED", "v_orders": "FAILED", "v_big": "SKIPPED"}


def test_commands_about_data_say_that_a_view_has_none(gold: Gold) -> None:
    gold.run()
    for words in (["health"], ["watermark", "reset", "--reason", "x"], ["optimize"], ["retry"]):
        refused(gold.tidegauge(*words, "--select", "v_big"), "no data", code=2)
    refused(gold.tidegauge("verify", "--select", "v_big"), "is a view, and has no data", code=2)
    verified = gold.tidegauge("verify", "--json")
    assert verified.code == 0, verified.said
    assert {one["table"]: one["equal"] for one in verified.json["tables"]} == {
        "silver": True,
        "v_orders": None,
        "v_big": None,
    }
    status = gold.tidegauge("status", "--select", "v_big")
    assert status.code == 0
    assert status.out.startswith("v_big is a view: it has no data and no state of its own\n")
