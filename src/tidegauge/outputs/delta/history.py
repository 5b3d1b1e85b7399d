"""The history of a key as a pure function of its events, in whatever order they became known.

Events are ordered by their sequence value. Of several with an equal one only that of the latest commit
counts, and the others are ignored; within one commit an upsert counts before a delete, and of several upserts
the one whose values have the greatest hash. Commits are ordered by time and then by version: versions alone
have no order between two inputs, nor between a table and the one that was made anew in its place.

An upsert begins a new row if no row is open before it, or if it differs from that row in a tracked column.
The row ends at the next event that begins a row, or at a delete. Columns that are not tracked keep the values
of the event that began the row.

A delete from a feed has no sequence value. It takes its commit's time, but no time before the latest upsert
that was committed before it. Where that is exactly a row's start, the row is removed, as intervals are never
empty. It never closes a row that was committed after it: then the source has the key again, with a sequence
value from before the delete, and the key has to have a current row, as it would with mode merge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.model.delta_flow import DELETE, IS_CURRENT, VALID_TO
from tidegauge.outputs.delta.events import BATCH, GONE, KEPT, SEEN, TABLE, UPSERT, EventColumns
from tidegauge.spark.comparable import make_comparable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

INSERT, UPDATE = "insert", "update"
"""What is done to a row of the history, besides `delete`."""


def rebuild(events: DataFrame, shape: EventColumns) -> DataFrame:
    """What has to be done for some keys, given all their known events.

    `op` is what is done to the row at (keys, s) with the values p and `valid_to`; `keep` is the kind under
    which its event is kept beside the history. Each is NULL where nothing has to be done.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    facts = _pick_events(events, shape)

    by_key = Window.partitionBy(*shape.keys)
    if shape.in_time:
        by_commit = by_key.orderBy("at", "v", "rank").rowsBetween(Window.unboundedPreceding, -1)
        latest = F.max(F.when(F.col("up"), F.col("s"))).over(by_commit)
        facts = facts.withColumn(
            "time",
            F.when(F.col("kind") == GONE, F.greatest(_make_commit_time(shape), latest)).otherwise(F.col("s")),
        )
    else:
        facts = facts.withColumn("time", F.col("s"))

    in_order = by_key.orderBy("time", "at", "v", "rank")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    facts = facts.withColumn("last", ~F.lead("time").over(in_order).eqNullSafe(F.col("time")))
    committed = F.last(F.when(F.col("last") & F.col("up"), F.col("c")), ignorenulls=True).over(before)
    overtaken = (F.col("kind") == GONE) & F.coalesce(committed > F.col("c"), F.lit(False))
    facts = facts.withColumn("counts", F.col("last") & ~overtaken)

    type_of = facts.schema["p"].dataType
    only = [f"x{position}" for position in shape.track] or None
    mark = [F.col("up"), make_comparable(F.col("p"), type_of, only=only).alias("q")]
    if shape.sequence in shape.track:
        mark.append(F.col("s"))
    facts = facts.withColumn("mark", F.struct(*mark))
    facts = facts.withColumn(
        "previous", F.last(F.when(F.col("counts"), F.col("mark")), ignorenulls=True).over(before)
    )
    facts = facts.withColumn(
        "begins", F.col("counts") & F.col("up") & ~F.col("previous").eqNullSafe(F.col("mark"))
    )
    facts = facts.withColumn(
        "bound", F.when(F.col("begins") | (F.col("counts") & ~F.col("up")), F.col("time"))
    ).withColumn(
        VALID_TO,
        F.expr(
            f"lead(bound) IGNORE NULLS OVER (PARTITION BY {', '.join(shape.keys)} ORDER BY time, at, v, rank)"
        ),
    )
    return _add_verdicts(facts, type_of).select(*shape.keys, "s", "p", VALID_TO, "at", "v", "op", "keep")


def _pick_events(events: DataFrame, shape: EventColumns) -> DataFrame:
    """The one event that counts for each key and sequence value, and for each commit its delete without a
    sequence value."""
    from pyspark.sql import functions as F  # noqa: N812

    commit = F.struct("at", "v")
    is_gone, is_seen = F.col("kind") == GONE, F.col("kind") == SEEN
    is_kept = F.col("origin") == KEPT
    rank = F.struct("at", "v", F.col("kind") == UPSERT, "origin", F.coalesce(F.col("h"), F.lit(0)))
    candidate = (F.col("origin") != TABLE) & ~is_seen
    groups = (
        events.withColumn("gone_at", F.when(is_gone, F.col("at")))
        .withColumn("gone_v", F.when(is_gone, F.col("v")))
        .groupBy(*shape.keys, "s", "gone_at", "gone_v")
        .agg(
            F.max(F.when(is_seen, commit)).alias("seen"),
            F.max(F.when(is_kept, commit)).alias("known"),
            F.max(F.when(is_kept & ~is_seen, commit)).alias("whole"),
            F.first("r", ignorenulls=True).alias("r"),
            F.max_by(F.struct("kind", "at", "v", "p", "origin"), F.when(candidate, rank)).alias("best"),
        )
    )
    unknown = F.struct(F.lit(0).cast("bigint").alias("at"), F.lit(-1).cast("bigint").alias("v"))
    row = F.coalesce(F.col("seen"), unknown)
    row_counts = F.col("r").isNotNull() & (F.col("best").isNull() | (row > F.struct("best.at", "best.v")))
    of_row = F.struct(
        F.lit(UPSERT).alias("kind"),
        row["at"].alias("at"),
        row["v"].alias("v"),
        F.col("r.p").alias("p"),
        F.lit(TABLE).alias("origin"),
    )
    return (
        groups.withColumn("best", F.when(row_counts, of_row).otherwise(F.col("best")))
        .where("best IS NOT NULL")
        .select(*shape.keys, "s", "best.*", "r", "known", "whole")
        .withColumn("c", F.struct("at", "v"))
        .withColumn("up", F.col("kind") == UPSERT)
        .withColumn("rank", F.expr(f"CASE kind WHEN '{UPSERT}' THEN 2 WHEN '{DELETE}' THEN 1 ELSE 0 END"))
    )


def _add_verdicts(facts: DataFrame, type_of: DataType) -> DataFrame:
    """The events with the columns `op` and `keep`; see `rebuild`."""
    from pyspark.sql import functions as F  # noqa: N812

    there = F.col("r").isNotNull()
    as_it_should_be = (
        make_comparable(F.col("p"), type_of).eqNullSafe(make_comparable(F.col("r.p"), type_of))
        & F.col(f"r.{VALID_TO}").eqNullSafe(F.col(VALID_TO))
        & F.col(f"r.{IS_CURRENT}").eqNullSafe(F.col(VALID_TO).isNull())
    )
    newer = F.coalesce(F.col("c") > F.col("known"), F.lit(True))
    newer_whole = F.coalesce(F.col("c") > F.col("whole"), F.lit(True))
    return facts.withColumn(
        "op",
        F.when(F.col("begins") & ~there, F.lit(INSERT))
        .when(F.col("begins") & ~as_it_should_be, F.lit(UPDATE))
        .when(~F.col("begins") & there, F.lit(DELETE)),
    ).withColumn(
        "keep",
        F.when(F.col("begins"), F.when(newer & (F.col("origin") == BATCH), F.lit(SEEN))).when(
            newer_whole, F.col("kind")
        ),
    )


def _make_commit_time(shape: EventColumns) -> Column:
    """The commit's time as a sequence value, in UTC whatever the session's zone."""
    from pyspark.sql import functions as F  # noqa: N812

    if shape.moment.typeName() == "timestamp":
        return F.timestamp_micros("at")
    return F.expr("timestampadd(MICROSECOND, at, TIMESTAMP_NTZ'1970-01-01 00:00:00')").cast(shape.moment)
