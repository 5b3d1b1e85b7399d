"""The net effect of many changes: a row that came and went again cancels out, as often as it did.

No key is needed: two rows are the same if all their columns are, as `spark.comparable` compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegauge.model.delta_flow import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, DELETE
from tidegauge.model.types import quote
from tidegauge.spark.comparable import compares_exactly, make_comparable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

INSERT, BEFORE, AFTER = "insert", "update_preimage", "update_postimage"
_COUNT = "n"


def count_net(frame: DataFrame, fields: Sequence[StructField]) -> DataFrame:
    """For rows with the feed's columns: how often each row came (above 0) or went (below 0), in the column
    `n`. Rows that did so equally often are left out."""
    from pyspark.sql import functions as F  # noqa: N812

    kind = F.col(CHANGE_TYPE)
    grouped = _group(
        frame, fields, [], F.sum(F.when(kind.isin(INSERT, AFTER), 1).otherwise(-1)).alias(_COUNT)
    )
    return grouped.where(F.col(_COUNT) != 0)


def repeat_rows(counted: DataFrame, fields: Sequence[StructField], *, gone: bool) -> DataFrame:
    """The rows of `count_net` that came or, with `gone`, that went, each as often as it did."""
    from pyspark.sql import functions as F  # noqa: N812

    count = F.col(_COUNT) * (-1 if gone else 1)
    times = F.array_repeat(F.lit(None).cast("boolean"), count.cast("int"))
    exploded = counted.where(count > 0).select("*", F.explode(times))
    return exploded.select(*(F.col(f"c{index}").alias(field.name) for index, field in enumerate(fields)))


def net_by_version(frame: DataFrame, fields: Sequence[StructField]) -> DataFrame:
    """For rows with the feed's columns: the net effect of each version, with the kinds of its changes.

    First inserts cancel deletes of the same row, and images of updates cancel each other; then what is left
    of inserts and deletes cancels what is left of the images.
    """
    from pyspark.sql import functions as F  # noqa: N812

    def many(kind: str) -> Column:
        return F.count_if(F.col(CHANGE_TYPE) == kind)

    net_ = many(INSERT) + many(AFTER) - many(DELETE) - many(BEFORE)
    grouped = _group(
        frame,
        fields,
        [COMMIT_VERSION],
        F.max(COMMIT_TIMESTAMP).alias(COMMIT_TIMESTAMP),
        net_.alias(_COUNT),
        (many(INSERT) - many(DELETE)).alias("whole"),
    )
    count, zero = F.col(_COUNT), F.lit(0)
    # As many inserts or deletes as are left in the direction of the net effect; the rest as update images.
    inserts = F.greatest(zero, F.least(count, F.col("whole")))
    deletes = F.greatest(zero, F.least(-count, -F.col("whole")))
    kinds = F.concat(
        *(
            F.array_repeat(F.lit(kind), F.greatest(zero, many_).cast("int"))
            for kind, many_ in (
                (INSERT, inserts),
                (AFTER, count - inserts),
                (DELETE, deletes),
                (BEFORE, -count - deletes),
            )
        )
    )
    named = (F.col(f"c{index}").alias(field.name) for index, field in enumerate(fields))
    return grouped.where(count != 0).select(
        *named, F.explode(kinds).alias(CHANGE_TYPE), COMMIT_VERSION, COMMIT_TIMESTAMP
    )


def _group(
    frame: DataFrame, fields: Sequence[StructField], besides: Sequence[str], *found: Column
) -> DataFrame:
    """One row for each distinct row, in columns c0, c1, …, so that no user's names clash with ours."""
    from pyspark.sql import functions as F  # noqa: N812

    plain = frame.select(
        *(F.col(quote(field.name)).alias(f"c{index}") for index, field in enumerate(fields)),
        *(F.col(name) for name in (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)),
    )
    keys: list[Column] = []
    firsts: list[Column] = []
    for index, field in enumerate(fields):
        column = F.col(f"c{index}")
        if compares_exactly(field.dataType):
            keys.append(column)
        else:
            keys.append(make_comparable(column, field.dataType).alias(f"k{index}"))
            firsts.append(F.first(column).alias(f"c{index}"))
    # Without any column all rows are the same.
    return plain.groupBy(*keys, *besides).agg(*found, *firsts)
