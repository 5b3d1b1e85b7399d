"""Two frames, compared key by key or as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegauge.compare.frames import Difference, KeyExceptions, compare_frames
from tidegauge.compare.intervals import faults
from tidegauge.compare.whole_rows import compare_whole, differing_groups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW = "id int, a int, b int"


def frame(spark: SparkSession, rows: list[tuple[Any, ...]], schema: str = ROW) -> DataFrame:
    return spark.createDataFrame(rows, schema)


def test_f1_a_null_counts_where_it_stands(spark: SparkSession) -> None:
    """Spark's own hash passes over NULLs, and took (NULL, 5) and (5, NULL) for the same."""
    source = frame(spark, [(1, None, 5), (2, None, None), (3, 3, 3)])
    target = frame(spark, [(1, 5, None), (2, None, None), (4, 4, 4)])
    found = compare_frames(source, target, key=["id"], hold=True)
    assert found == Difference(3, 3, 1, 1, 1, (("different", "1"), ("extra", "4"), ("missing", "3")))
    assert compare_whole(source, target).missing == 2


def test_f2_what_waits_is_newer_and_what_may_be_there_has_to_be_right(spark: SparkSession) -> None:
    source, target = frame(spark, [(1, 1, 1)]), frame(spark, [(1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 0, 0)])
    allowed = frame(spark, [(2, 2, 2), (3, 0, 0), (9, 9, 9)])
    waiting = frame(spark, [(4,), (5,)], "id int")
    found = compare_frames(source, target, key=["id"], beside=KeyExceptions(waiting=waiting, allowed=allowed))
    assert found == Difference(3, 3, 0, 0, 1, (("different", "3"),), newer=2)


def test_f1_a_later_version_of_a_row_is_ahead_by_right(spark: SparkSession) -> None:
    source = frame(spark, [(1, 1, 1), (2, 1, 1), (3, None, 1)])
    target = frame(spark, [(1, 2, 7), (2, 0, 7), (3, 5, 7), (4, 2, 7), (5, 2, 7)])
    ended = frame(spark, [(4, 1, 0), (5, 3, 0)])
    found = compare_frames(source, target, key=["id"], beside=KeyExceptions(ended=ended), sequence="a")
    assert found.examples == (("different", "2"), ("extra", "5"))


def test_f1_a_key_is_as_it_should_be_if_any_state_of_the_source_has_it_so(spark: SparkSession) -> None:
    source = frame(spark, [(1, 1, 1), (2, 2, 2), (4, 4, 4)])
    other = frame(spark, [(1, 1, 0), (3, 3, 3)])
    target = frame(spark, [(1, 1, 0), (2, 2, 2), (3, 3, 3), (5, 5, 5)])
    found = compare_frames(source, target, key=["id"], beside=KeyExceptions(instead=[other]))
    assert found.examples == (("extra", "5"),)
    many, shown = differing_groups([source, other], frame(spark, [(1, 1, 0), (2, 0, 0)]), by=["id"])
    assert (many, shown) == (1, ("2",)), "3 and 4 are absent from one of them"


def test_f1_histories_are_looked_through_for_what_cannot_be(spark: SparkSession) -> None:
    rows = [
        ("good", 1, 2, False),
        ("good", 2, None, True),
        ("closed", 1, 2, False),
        ("empty", 1, 1, False),
        ("overlaps", 1, 3, False),
        ("overlaps", 2, None, True),
        ("two current", 1, None, True),
        ("two current", 2, None, True),
        ("ended", 1, 2, True),
        ("open", 1, None, False),
    ]
    history = frame(spark, rows, "k string, valid_from int, valid_to int, is_current boolean")
    wrong = {row.k for row in faults(history, ["k"]).collect()}
    assert wrong == {"empty", "overlaps", "two current", "ended", "open"}
    nothing = frame(spark, [], "k string, v int")
    found = compare_frames(nothing, nothing, key=["k"], beside=KeyExceptions(faults=faults(history, ["k"])))
    assert found.different == 5


def test_f2_columns_of_other_types_and_orders(spark: SparkSession) -> None:
    source = frame(spark, [("1", 1.5, 7)], "v string, f float, ID int")
    target = frame(spark, [(7, 1, 1.5)], "id bigint, V int, f double")
    assert compare_frames(source, target, key=["ID"]).equal
    assert compare_whole(source, target).equal
    more = frame(spark, [(7, 1)], "id bigint, V int")
    assert compare_frames(source, more, key=["ID"]).equal
    assert compare_frames(source, more, key=["ID"], lacking=True).different == 1
