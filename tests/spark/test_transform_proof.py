"""What the plan of a Python transform proves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.spark.moving import Table, delta_flow, pinned, quick
from tidegauge.transform.apply import Transform
from tidegauge.transform.proof import Proof, prove

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = {"id": pa.int64(), "g": pa.string(), "n": pa.int64()}


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    return quick(spark)


@pytest.fixture(scope="module")
def table(session: SparkSession) -> Table:
    made = Table(session, COLUMNS)
    made.commit(insert=[(1, "a", 10), (2, "b", 20), (3, "a", 30)])
    made.commit(update=[((1, "a", 10), (1, "b", 11))])
    return made


def a_full_b(a: DataFrame, b: DataFrame, p: DataFrame) -> DataFrame:
    return a.join(b.withColumnRenamed("n", "m").drop("g"), "id", "full")


def a_left_b(a: DataFrame, b: DataFrame, p: DataFrame) -> DataFrame:
    return a.join(b.select("id", "n").withColumnRenamed("n", "m"), "id", "left").where("g = 'a'")


def a_anti_b(a: DataFrame, b: DataFrame, p: DataFrame) -> DataFrame:
    return a.join(b, "id", "left_anti")


def a_left_b_filtered(a: DataFrame, b: DataFrame, p: DataFrame) -> DataFrame:
    return a.join(b.select("id", "n").withColumnRenamed("n", "m"), "id", "left").where("m IS NULL")


def a_left_p(a: DataFrame, b: DataFrame, p: DataFrame) -> DataFrame:
    return a.join(p.select("id", "n").withColumnRenamed("n", "m"), "id", "left").where("m IS NULL")


def p_left_a(a: DataFrame, b: DataFrame, p: DataFrame) -> DataFrame:
    return p.join(a.select("id", "n").withColumnRenamed("n", "m"), "id", "left")


def key_of_the_right(a: DataFrame, b: DataFrame, p: DataFrame) -> DataFrame:
    return a.drop("id").join(b.selectExpr("id", "g"), "g", "left").selectExpr("coalesce(id, 0) AS id", "n")


def sums(a: DataFrame, b: DataFrame, p: DataFrame) -> DataFrame:
    return a.join(b.select("id"), "id").groupBy("id").agg({"n": "sum"}).where("id > 1")


def highest(a: DataFrame, b: DataFrame, p: DataFrame) -> DataFrame:
    return a.groupBy("g").agg({"id": "max"}).withColumnRenamed("max(id)", "id")


def both(a: DataFrame, b: DataFrame, p: DataFrame) -> DataFrame:
    return a.unionByName(b).selectExpr("id", "explode(array(g, 'x')) AS g")


def exploded(a: DataFrame, b: DataFrame, p: DataFrame) -> DataFrame:
    return a.groupBy("id").agg({"n": "collect_list"}).toDF("id", "all").selectExpr("id", "explode(all) AS n")


def mapped(a: DataFrame, b: DataFrame, p: DataFrame) -> DataFrame:
    return a.select("id").mapInPandas(lambda frames: frames, "id long")


def itself(a: DataFrame, b: DataFrame, p: DataFrame) -> DataFrame:
    return a.alias("x").join(a.alias("y"), "g").selectExpr("x.id", "y.n")


def numbered(a: DataFrame, b: DataFrame, p: DataFrame) -> DataFrame:
    return a.selectExpr("id", "row_number() OVER (PARTITION BY g ORDER BY n) AS n")


def asks(a: DataFrame, b: DataFrame, p: DataFrame) -> DataFrame:
    a.createOrReplaceTempView("asks_a")
    b.createOrReplaceTempView("asks_b")
    return a.sparkSession.sql(
        "WITH w AS (SELECT * FROM asks_a) SELECT id FROM w WHERE id IN (SELECT id FROM asks_b)"
    )


def rows_of_two(a: DataFrame, b: DataFrame, p: DataFrame) -> DataFrame:
    a.createOrReplaceTempView("rows_a")
    return a.sparkSession.sql("WITH w AS (SELECT id, n FROM rows_a) SELECT id, n + 1 AS n FROM w WHERE n > 1")


@pytest.mark.parametrize(
    ("transform", "proof"),
    [
        (a_full_b, Proof("it joins several inputs that change", None)),
        (a_left_b, Proof("it joins several inputs that change", None)),
        (a_anti_b, Proof("it joins several inputs that change", "it has an anti join with what changes")),
        (
            a_left_b_filtered,
            Proof(
                "it joins several inputs that change",
                "it filters by a column that a join or an aggregate gives",
            ),
        ),
        (a_left_p, Proof(None, None)),
        (p_left_a, Proof("an outer join can put NULLs in place of an incremental input's rows", None)),
        (
            key_of_the_right,
            Proof("it joins several inputs that change", "id comes from an aggregate or an outer join"),
        ),
        (sums, Proof("it joins several inputs that change", None)),
        (highest, Proof("it has an aggregate", "id comes from an aggregate or an outer join")),
        (both, Proof(None, None)),
        (
            exploded,
            Proof("it has an aggregate", "it explodes by a column that a join or an aggregate gives"),
        ),
        (mapped, Proof(None, None)),
        (itself, Proof("it joins a with itself", "it joins a with itself")),
        (numbered, Proof("it has a window", "it has a window")),
        (asks, Proof("it has a subquery", "it has a subquery")),
        (rows_of_two, Proof(None, None)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_plan_proves_what_a_function_does(
    table: Table, transform: Callable[..., Any], proof: Proof
) -> None:
    made = Transform(delta_flow(transform, "a", "b", pinned("p")), table.session)
    frames = {name: table.frame([(1, "a", 1)]) for name in ("a", "b", "p")}
    found = prove(made.apply(frames), inputs=made.views.inputs, incremental=["a", "b"], by=["id"])
    assert found == proof
