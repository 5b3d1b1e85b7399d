"""The observability example through its month, day by day, beside a computation over all the data at once.

And the nine mistakes that such lakehouses are known for: of each is shown that it would differ on this data.
"""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.observability import expected
from tests.integration.observability.expected import Row
from tests.integration.observability.house import Observability

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(1800)
DAYS = 30
RUNS = (16, DAYS)
"""The days on which the month is run in `make test`; every day in `make test-long`."""


@pytest.fixture(scope="module")
def house(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Observability:
    """After the whole month, in two increments."""
    made = Observability(spark, tmp_path_factory.mktemp("observability") / "it")
    for day in RUNS:
        while made.days < day:
            made.write_day()
        made.run()
    made.check()
    return made


@pytest.fixture(scope="module")
def usage(house: Observability) -> list[Row]:
    return expected.price_usage(house.arrived())


@pytest.fixture(scope="module")
def fact(house: Observability) -> list[Row]:
    return house.read("gold/gld_fact_usage_priced_day")


def total(rows: list[Row]) -> Fraction:
    return sum((Fraction(row["list_cost"]) for row in rows), Fraction(0))


def test_a_month_in_increments_is_what_all_the_data_gives_at_once(
    house: Observability, fact: list[Row], usage: list[Row]
) -> None:
    assert total(fact) == expected.total(usage) > 0
    assert {flow["state"] for flow in house.run().json["flows"]} == {"SKIPPED"}
    # Many events of a key each; the other flows are compared in `make test-long`.
    house.verify("--select", "slv_clusters", "--select", "slv_price_scd")


@pytest.mark.long
def test_thirty_days_as_thirty_increments_are_what_all_the_data_gives_at_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    house = Observability(spark, tmp_path / "it")
    while house.days < DAYS:
        house.write_day()
        house.run()
        if house.days % 5 == 0:
            house.check()
    house.verify()


def test_the_chargeback_of_all_departments_is_the_total_with_overhead_to_the_cent(
    house: Observability, usage: list[Row]
) -> None:
    found = house.read_view("v_cost_allocation")
    right = expected.charge_back(usage, Fraction(1, 10))
    parts = ("direct", "shared", "unallocated")
    assert {
        (row["month"], row["department"]): {part: row[part] * 100 for part in parts} for row in found
    } == right
    assert all(row["chargeback"] == sum(row[part] for part in parts) for row in found)
    whole = expected.total(usage) * Fraction(110, 100)
    assert abs(Fraction(sum(row["chargeback"] for row in found)) - whole) <= Fraction(1, 200)
    shares = [row["direct"] for row in found]
    assert len(shares) > 3
    assert min(shares) > 0


def test_a_task_that_ends_before_it_begins_is_set_aside(house: Observability) -> None:
    kept = house.read("silver/slv_job_task_run_timeline")
    assert len(kept) == len(house.arrived()["lakeflow/job_task_run_timeline"]) - 2
    aside = house.read("silver/slv_job_task_run_timeline_quarantine")
    assert sorted(json.loads(row["row"])["run_id"] for row in aside) == ["bad-18", "bad-5"]
    assert {reason for row in aside for reason in row["_reasons"]} == {"starts_before_its_end"}


WHOLE = (
    "v_department_cost_summary",
    "v_sku_cost_trends",
    "v_line_of_business_cost",
    "v_environment_cost",
    "v_use_case_cost",
    "v_cost_center_analysis",
    "v_cost_trends",
)
"""Views that divide all the cost."""
OTHERS = (
    "v_cluster_cost",
    "v_tag_quality_analysis",
    "v_workflow_hierarchy_cost",
    "v_node_type_analysis",
    "v_runtime_version_analysis",
    "v_cost_anomalies",
    "v_policy_compliance",
)


def test_every_view_reads_and_those_that_divide_the_cost_lose_none(
    house: Observability, fact: list[Row], usage: list[Row]
) -> None:
    for name in WHOLE:
        assert total(house.read_view(name)) == total(fact), name
    found = {name: house.read_view(name) for name in OTHERS}
    assert all(found.values()), {name: len(rows) for name, rows in found.items()}
    jobs = sum((row["list_cost"] for row in usage if row["entity_type"] in ("JOB", "PIPELINE")), Fraction(0))
    assert total(found["v_workflow_hierarchy_cost"]) == jobs
    known = sum((row["list_cost"] for row in usage if row["cluster_sk"] != expected.NONE), Fraction(0))
    for name in ("v_node_type_analysis", "v_runtime_version_analysis"):
        assert total(found[name]) == known, name
    assert sum(row["records"] for row in found["v_tag_quality_analysis"]) == len(usage)


def test_mistake_1_retractions_count_with_their_negative_quantity(
    house: Observability, fact: list[Row]
) -> None:
    system = house.arrived()
    clamped = [
        {**row, "usage_quantity": max(Decimal(0), row["usage_quantity"])} for row in system["billing/usage"]
    ]
    wrong = expected.total(expected.price_usage({**system, "billing/usage": clamped}))
    assert total(fact) < wrong
    kinds = Counter(row["record_type"] for row in house.read("silver/slv_usage_txn"))
    assert kinds["RETRACTION"] > kinds["RESTATEMENT"] > 0


def test_mistake_2_a_later_change_of_an_old_cluster_is_seen(house: Observability) -> None:
    seen, newest = [], None
    for day in range(1, DAYS + 1):
        rows = house.arrived(on=day)["compute/clusters"]
        seen += [row for row in rows if newest is None or row["create_time"] > newest]
        newest = max([row["create_time"] for row in rows] + ([newest] if newest else []), default=newest)
    wrong = expected.make_clusters({"compute/clusters": seen})
    found = house.read("gold/gld_dim_cluster")
    assert len(found) > len(wrong)
    old = [row for row in found if row["cluster_id"] == "c-shared-1" and row["workspace_id"] == "1001"]
    assert [row["dbr_version"] for row in sorted(old, key=lambda row: row["valid_from"])][-1] == "16.4"


def test_mistake_3_a_change_of_tags_alone_is_a_version(house: Observability) -> None:
    found = house.read("gold/gld_dim_cluster")
    assert len(found) > len(expected.make_clusters(house.arrived(), ignore=["tags"]))
    own = [row for row in found if (row["workspace_id"], row["cluster_id"]) == ("1001", "c-shared-1")]
    first, second, _ = sorted(own, key=lambda row: row["valid_from"])
    differs = {name for name in first if first[name] != second[name]}
    assert differs == {"cluster_sk", "tags", "valid_from", "valid_to"}


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ("silver/slv_clusters", ("workspace_id", "cluster_id")),
        ("silver/slv_jobs_scd", ("workspace_id", "job_id")),
        ("silver/slv_price_scd", ("cloud", "sku_name", "usage_unit")),
    ],
)
def test_mistake_4_a_history_has_one_current_row_and_no_gap(
    house: Observability, table: str, key: tuple[str, ...]
) -> None:
    versions: dict[tuple[Any, ...], list[Row]] = {}
    for row in house.read(table):
        versions.setdefault(tuple(row[name] for name in key), []).append(row)
    for own in versions.values():
        own.sort(key=lambda row: row["valid_from"])
        assert [row["is_current"] for row in own] == [False] * (len(own) - 1) + [True]
        assert [row["valid_to"] for row in own] == [*(row["valid_from"] for row in own[1:]), None]
    assert max(map(len, versions.values())) > 1
    # `lead()` over each increment alone leaves the last row of each current.
    source = {"slv_clusters": "compute/clusters", "slv_jobs_scd": "lakeflow/jobs"}
    rows = source.get(table.removeprefix("silver/"), "billing/list_prices")
    current = Counter(
        one
        for day in range(1, DAYS + 1)
        for one in {tuple(row[n] for n in key) for row in house.arrived(on=day)[rows]}
    )
    assert max(current.values()) > 1


def test_mistake_5_what_arrives_later_for_a_day_that_is_there_already_counts(
    house: Observability, fact: list[Row]
) -> None:
    system = house.arrived()
    kept, last = [], None
    for day in range(1, DAYS + 1):
        new = [
            row for row in house.arrived(on=day)["billing/usage"] if last is None or row["usage_date"] > last
        ]
        kept += new
        last = max([row["usage_date"] for row in new] + ([last] if last else []), default=last)
    wrong = expected.total(expected.price_usage({**system, "billing/usage": kept}))
    assert wrong < total(fact)


def test_mistake_6_no_part_of_a_key_is_null_and_a_narrower_key_would_lose_rows(
    house: Observability, fact: list[Row]
) -> None:
    keys = {
        "gld_fact_entity_cost": ("date_sk", "workspace_id", "entity_type", "entity_id"),
        "gld_fact_run_cost": ("workspace_id", "job_id", "run_id"),
        "gld_fact_run_status_cost": ("date_sk", "workspace_id", "result_state", "termination_code"),
        "gld_fact_runs_finished_day": ("date_sk", "workspace_id"),
    }
    for table, key in keys.items():
        found = Counter(tuple(row[name] for name in key) for row in house.read(f"gold/{table}"))
        assert set(found.values()) == {1}, table
        assert not any(None in one for one in found), table
    measures = ("records", "unpriced_records", "usage_quantity", "list_cost")
    grain = [name for name in fact[0] if name not in measures]
    assert not any(row[name] is None for row in fact for name in grain)
    assert len({tuple(row[name] for name in grain) for row in fact}) == len(fact)
    narrow = {tuple(row[name] for name in ("date_sk", "sku_name", "entity_id", "cluster_id")) for row in fact}
    assert len(narrow) < len(fact)


def test_mistake_7_a_default_is_no_tag(house: Observability, fact: list[Row], usage: list[Row]) -> None:
    found = house.read_view("v_tag_coverage_summary")
    coverage = {row["tag"]: Fraction(row["tagged_records"], row["records"]) for row in found}
    for tag in expected.TAG_COLUMNS:
        tagged = sum(tag in row["tagged"].split(",") for row in usage)
        assert coverage[tag] == Fraction(tagged, len(usage)), tag
    filled = Fraction(sum(row["records"] for row in fact if row["environment"]), len(usage))
    assert filled == 1 > coverage["environment"]
    # A record that says `dev` and one that says nothing look alike, and are told apart.
    assert {"environment" in row["tagged"].split(",") for row in fact if row["environment"] == "dev"} == {
        True,
        False,
    }


def test_mistake_8_a_price_is_one_of_its_cloud_and_of_its_time(
    house: Observability, fact: list[Row], usage: list[Row]
) -> None:
    system = house.arrived()
    prices = expected.list_prices(system)

    def without_cloud(record: Row) -> Decimal | None:
        same = (one for one in prices if one["sku_name"] == record["sku_name"] and one["valid_to"] is None)
        return next((one["price"] for one in same), None)

    def latest(record: Row) -> Decimal | None:
        own = ("cloud", "sku_name", "usage_unit")
        same = (one for one in prices if all(one[name] == record[name] for name in own))
        return next((one["price"] for one in same if one["valid_to"] is None), None)

    right = total(fact)
    for wrong in (without_cloud, latest):
        assert expected.total(expected.price_usage(system, wrong)) != right
    unpriced = {row["sku_name"] for row in fact if row["unpriced_records"]}
    assert unpriced == {"PREMIUM_MODEL_PREVIEW"}
    assert {row["sku_name"] for row in house.read("gold/gld_dim_sku") if not row["is_priced"]} == unpriced


def test_mistake_9_a_new_field_of_a_struct_arrives_and_the_table_stays(house: Observability) -> None:
    found = house.read("bronze/brz_billing_usage")
    named = [row for row in found if row["usage_metadata"]["endpoint_name"] is not None]
    assert named
    assert min(row["usage_end_time"] for row in found) < min(row["usage_end_time"] for row in named)
    assert len(found) == len(house.arrived()["billing/usage"])
    path = house.folder / "lake/bronze/brz_billing_usage"
    history = house.spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()
    assert len(history) > len(RUNS)
    assert not any("REPLACE" in row["operation"] for row in history)
