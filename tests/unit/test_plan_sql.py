"""`tidegauge plan` checks the SQL of flows against the Delta log of their inputs; no Spark is started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.project import Ran, here, refused

Plan = Callable[..., Ran]

YAML = """
pipeline: p
flows:
  silver:
    inputs: {orders: {path: bronze/orders}, people: {path: bronze/people, snapshot: true}}
    transform: silver.sql
    output: {path: silver, key: id}
  gold:
    inputs: {rows: {path: silver}}
    transform: gold.sql
    output: {path: gold, key: id}
  top: {inputs: {rows: {path: gold}}, output: {path: top, key: id}}
"""
GOOD = "SELECT o.id, amount, name FROM orders o JOIN people p ON p.id = o.who"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Two tables of delta-rs, and two flows over them."""
    from deltalake import write_deltalake

    orders = pa.table({"id": [1], "amount": [2], "who": [3]})
    for name, rows in {"orders": orders, "people": pa.table({"id": [3], "name": ["Ada"]})}.items():
        feed = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(str(tmp_path / "bronze" / name), rows, configuration=feed)
    (tmp_path / "tidegauge.yml").write_text(YAML)

    def planned(silver: str, gold: str = "SELECT id, name FROM rows", *words: str) -> Ran:
        (tmp_path / "silver.sql").write_text(silver)
        (tmp_path / "gold.sql").write_text(gold)
        return here("plan", "--project", tmp_path, *words)

    return planned


def test_a_good_plan_tells_edges_fingerprints_and_inputs_that_are_not_read(plan: Plan) -> None:
    first = plan(GOOD, "SELECT id, name FROM rows", "--json")
    assert first.code == 0, first.said
    silver, gold = first.flow("silver"), first.flow("gold")
    assert (silver["upstreams"], gold["upstreams"]) == ([], ["silver"])
    assert silver["fingerprint"] != gold["fingerprint"]
    assert len(silver["fingerprint"]) == 16
    assert not [note for note in silver["notes"] if "does not read it" in note]
    again = plan("SELECT id, amount FROM orders", "SELECT id, name FROM rows", "--json")
    assert again.flow("silver")["fingerprint"] != silver["fingerprint"]
    assert again.flow("gold")["fingerprint"] == gold["fingerprint"]
    assert "the input people is named and the SQL does not read it" in again.flow("silver")["notes"]


@pytest.mark.parametrize(
    ("silver", "place", "said"),
    [
        ("SELECT o.id,\n  o.amuont FROM orders o", ":2:5: ", "o has no column amuont"),
        ("SELECT id,\n  nobody FROM orders", ":2:3: ", "column nobody"),
        ("SELECT id\nFROM customers", ":2:6: ", "reads customers, which is no input"),
        ("SELECT id\nFROM bronze.orders", ":2:6: ", "reads bronze.orders, which is no input"),
        ("SELECT id\nFORM orders", ":2:6: ", "cannot be read"),
        ("SELECT amount FROM orders", ":1:1: ", "drops the key column id"),
    ],
)
def test_what_cannot_run_is_told_with_file_line_and_column(
    plan: Plan, silver: str, place: str, said: str
) -> None:
    assert f"silver.sql{place}" in refused(plan(silver), said)


def test_the_sql_of_a_flow_whose_input_is_yet_to_be_made_is_read_all_the_same(plan: Plan) -> None:
    """Which columns it will have is not known; what does not parse never will."""
    assert plan(GOOD, "SELECT id, whatever FROM rows").code == 0
    assert "gold.sql:1:16: " in refused(plan(GOOD, "SELECT id FROM other"), "which is no input")


def test_what_reads_from_a_flow_that_cannot_run_is_held_back(plan: Plan) -> None:
    planned = plan("SELECT nobody FROM orders", "SELECT id, name FROM rows", "--json")
    assert {flow["flow"]: flow["state"] for flow in planned.json["flows"]} == {
        "silver": "FAILED",
        "gold": "SKIPPED",
        "top": "SKIPPED",
    }
    assert planned.flow("top")["notes"] == ["held back: gold cannot run, and it reads from that"]


def test_a_chain_that_is_yet_to_be_made_is_planned_as_far_as_it_goes(plan: Plan) -> None:
    planned = plan(GOOD, "SELECT id, name FROM rows", "--json")
    assert {flow["state"] for flow in planned.json["flows"]} == {"PLANNED"}
    assert planned.flow("top")["notes"] == ["what gold brings comes after that"]


def test_a_partition_column_that_does_not_come_out_is_named(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "tidegauge.yml").write_text(
        "pipeline: p\nflows:\n  silver:\n    inputs: {orders: {path: bronze/orders}}\n"
        "    transform: silver.sql\n"
        "    output: {path: silver, mode: replace_partitions, partition_by: day}\n"
    )
    ran = plan("SELECT who, sum(amount) AS amount FROM orders GROUP BY who")
    assert "silver.sql:1:1: " in refused(ran, "drops the partition column day", "comes out is who, amount")


def test_a_column_that_rows_as_they_are_do_not_have_is_named_before_anything_is_read(
    plan: Plan, tmp_path: Path
) -> None:
    for output, said in (
        ("mode: append, partition_by: dya", "the input of silver has no partition column dya"),
        ("key: [id, whom]", "the input of silver has no key column whom, which output.key names"),
    ):
        (tmp_path / "tidegauge.yml").write_text(
            "pipeline: p\nflows:\n"
            f"  silver: {{inputs: {{o: {{path: bronze/orders}}}}, output: {{path: s, {output}}}}}\n"
        )
        assert "tidegauge.yml:3:" in refused(plan(""), said, "it gives id, ")


def test_a_missing_input_is_named(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "bronze" / "people").rename(tmp_path / "gone")
    said = refused(plan(GOOD), "people: there is no Delta table at", "check the location")
    assert "tidegauge.yml:5:" in said


def test_a_table_that_only_an_expectation_reads_is_no_input_of_the_sql(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "tidegauge.yml").write_text(
        "pipeline: p\nflows:\n  silver:\n    inputs: {orders: {path: bronze/orders}}\n"
        "    transform: silver.sql\n    output: {path: silver, key: id}\n"
        "    expect: {foreign_key: {columns: who, path: bronze/people, to: id}}\n"
    )
    planned = plan("SELECT id, who FROM orders", "", "--json")
    assert planned.code == 0, planned.said
    assert not [note for note in planned.flow("silver")["notes"] if "does not read it" in note]
