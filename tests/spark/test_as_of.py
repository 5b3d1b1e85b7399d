"""Rows joined with the version of a history that held at their time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tidegauge as tg
from tidegauge.errors import TransformFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HISTORY = """
    SELECT * FROM VALUES
      (1, 'a.b', 'small', 10, 20, false),
      (1, 'a.b', 'large', 20, NULL, true),
      (2, 'a.b', 'other', 5, 15, false)
    AS v(workspace, `id.x`, size, valid_from, valid_to, is_current)"""
USED = """
    SELECT * FROM VALUES
      (1, 'a.b', 9), (1, 'a.b', 10), (1, 'a.b', 19), (1, 'a.b', 20), (2, 'a.b', 15), (3, 'a.b', 12),
      (1, 'a.b', NULL)
    AS v(workspace, `id.x`, used_at)"""


@pytest.fixture
def used(spark: SparkSession) -> DataFrame:
    return spark.sql(USED)


@pytest.fixture
def history(spark: SparkSession) -> DataFrame:
    return spark.sql(HISTORY)


def test_each_row_comes_once_with_the_version_that_held(used: DataFrame, history: DataFrame) -> None:
    joined = tg.as_of(used, history, on=["workspace", "id.x"], at="used_at")
    assert joined.columns == ["workspace", "id.x", "used_at", "size"]
    found = [(row["workspace"], row["used_at"], row["size"]) for row in joined.collect()]
    assert sorted(found, key=str) == [
        (1, 10, "small"),
        (1, 19, "small"),
        (1, 20, "large"),
        (1, 9, None),
        (1, None, None),
        (2, 15, None),
        (3, 12, None),
    ]


def test_a_column_that_is_missing_or_that_both_have_is_named(used: DataFrame, history: DataFrame) -> None:
    for fact, dimension, at, cause in (
        (used, history, "no", "the fact has no column no"),
        (used.drop("workspace"), history, "used_at", "the fact has no column workspace"),
        (used, history.drop("valid_to"), "used_at", "the dimension has no column valid_to"),
        (used.selectExpr("*", "1 AS size"), history, "used_at", "both have a column size"),
    ):
        with pytest.raises(TransformFailed, match=cause):
            tg.as_of(fact, dimension, on=["workspace", "id.x"], at=at)
