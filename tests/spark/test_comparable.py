"""When two values are the same, one answer for changes, targets and histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.model.delta_flow import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION
from tidegauge.sources.delta.net_changes import count_net
from tidegauge.spark.comparable import make_comparable
from tidegauge.transform.difference import HERE, diff_by_key, diff_by_sides, find_changed_partitions
from tidegauge.transform.window import leave_out_known

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SAME = [
    ("double('NaN')", "-double('NaN')"),
    ("CAST(NULL AS double)", "CAST(NULL AS double)"),
    ("CAST(NULL AS struct<a:double>)", "CAST(NULL AS struct<a:double>)"),
    ("map('a', 1.0D, 'b', NULL)", "map('b', NULL, 'a', 1.0D)"),
    ("""parse_json('{"a": 1, "b": 2}')""", """parse_json('{"b": 2, "a": 1}')"""),
]
OTHER = [
    ("0.0D", "-0.0D"),
    ("0.0F", "-0.0F"),
    ("array(1.0D, 0.0D)", "array(1.0D, -0.0D)"),
    ("map(1, named_struct('a', 0.0D))", "map(1, named_struct('a', -0.0D))"),
    ("named_struct('a', CAST(NULL AS double))", "CAST(NULL AS struct<a:double>)"),
    ("'a' COLLATE UTF8_LCASE", "'A' COLLATE UTF8_LCASE"),
    ("array('a' COLLATE UTF8_LCASE)", "array('A' COLLATE UTF8_LCASE)"),
    ("to_variant_object(array(DATE'2024-01-01'))", "to_variant_object(array('2024-01-01'))"),
    ("parse_json('1')", "parse_json('\"1\"')"),
]


def test_values_are_the_same_where_a_file_would_hold_the_same(spark: SparkSession) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    for same, pairs in ((True, SAME), (False, OTHER)):
        for one, other in pairs:
            frame = spark.sql(f"SELECT {one} AS v UNION ALL SELECT {other}")
            value = make_comparable(F.col("v"), frame.schema["v"].dataType)
            groups = frame.groupBy(value.alias("k")).count().count()
            assert (groups == 1) is same, (one, other)


def test_a_zero_that_changes_its_sign_is_a_change_to_whoever_asks(spark: SparkSession) -> None:
    now = spark.sql("SELECT 1 AS id, 'x' AS p, -0.0D AS v")
    was = spark.sql("SELECT 1 AS id, 'x' AS p, 0.0D AS v")
    assert [str(row.v) for row in diff_by_key(now, was, ["id"]).collect()] == ["-0.0"]
    assert diff_by_key(now, now, ["id"]).collect() == []
    both = now.selectExpr("*", f"true AS {HERE}").unionAll(was.selectExpr("*", f"false AS {HERE}"))
    assert [str(row.v) for row in diff_by_sides(both, ["id"]).collect()] == ["-0.0"]
    assert [row.p for row in find_changed_partitions(now, was, ["p"]).collect()] == ["x"]
    assert find_changed_partitions(now, now, ["p"]).collect() == []
    commit = (f"1L AS {COMMIT_VERSION}", f"now() AS {COMMIT_TIMESTAMP}")
    came = now.selectExpr("*", f"'insert' AS {CHANGE_TYPE}", *commit)
    went = was.selectExpr("*", f"'delete' AS {CHANGE_TYPE}", *commit)
    moved = came.unionAll(went)
    assert count_net(moved, now.schema.fields).count() == 2


# What the target's column has, and what is written to it: of unlike numeric types.
UNLIKE_SAME = [
    ("1.5F", "1.5D"),
    ("0.0F", "0.0D"),
    ("-0.0D", "-0.0F"),
    ("1", "1.0D"),
    ("1", "1L"),
    ("CAST(1 AS DECIMAL(10,2))", "CAST(1 AS DECIMAL(12,4))"),
    ("double('NaN')", "float('NaN')"),
    ("CAST(NULL AS double)", "CAST(NULL AS float)"),
]
UNLIKE_OTHER = [
    ("0.0D", "-0.0F"),
    ("-0.0F", "0.0D"),
    ("-0.0D", "0"),
    ("0.1D", "0.1F"),
    ("CAST(1 AS DECIMAL(10,2))", "CAST(1.001 AS DECIMAL(12,4))"),
]


def test_numbers_of_two_types_are_the_same_where_a_file_of_the_wider_one_would_hold_the_same(
    spark: SparkSession,
) -> None:
    for same, pairs in ((True, UNLIKE_SAME), (False, UNLIKE_OTHER)):
        for held, brought in pairs:
            was = spark.sql(f"SELECT 1 AS id, {held} AS v")
            now = spark.sql(f"SELECT 1 AS id, {brought} AS v")
            assert diff_by_key(now, was, ["id"]).isEmpty() is same, (held, brought)
            assert leave_out_known(now, was).isEmpty() is same, (held, brought)
