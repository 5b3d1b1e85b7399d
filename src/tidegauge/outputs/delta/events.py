"""Events of a history, as frames of one form, wherever they were found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegauge.model.delta_flow import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    DELETE,
    IS_CURRENT,
    VALID_FROM,
    VALID_TO,
)
from tidegauge.model.types import quote
from tidegauge.spark.comparable import make_comparable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField

UPSERT, GONE, SEEN = "upsert", "gone", "seen"
"""Kinds of events besides `delete`; see `kept_events`."""
TABLE, KEPT, BATCH = 0, 1, 2
"""Where an event was found. Of the same commit the last counts: before a batch is done for a second time, the
table may have an older row than the commit that is kept for it."""


@dataclass(frozen=True)
class EventColumns:
    """The columns of an event, in the table's order, and what each is for.

    Inside, keys are named k0, k1, …, the sequence value s, and all others are fields x0, x1, … of a struct p,
    so that no name of the user's can clash or needs quoting.
    """

    fields: tuple[StructField, ...]
    key: tuple[int, ...]
    sequence: int
    track: tuple[int, ...]
    """Empty: every column but key and sequence."""

    @property
    def keys(self) -> list[str]:
        return [f"k{index}" for index in range(len(self.key))]

    @property
    def payload(self) -> tuple[int, ...]:
        return tuple(i for i in range(len(self.fields)) if i not in self.key and i != self.sequence)

    @property
    def moment(self) -> DataType:
        return self.fields[self.sequence].dataType

    @property
    def in_time(self) -> bool:
        """Whether a commit's time can stand for a sequence value."""
        return self.moment.typeName() in {"timestamp", "timestamp_ntz", "date"}

    def inner(self, position: int) -> str:
        """The name that a column of the table has inside."""
        if position in self.key:
            return f"k{self.key.index(position)}"
        return "s" if position == self.sequence else f"p.x{position}"


def incoming(rows: DataFrame, shape: EventColumns) -> DataFrame:
    """The events of a batch."""
    from pyspark.sql import functions as F  # noqa: N812

    change = F.lower(F.coalesce(F.col(CHANGE_TYPE), F.lit("")))
    frame = rows.select(
        *_columns(rows, shape),
        F.when(change != DELETE, F.lit(UPSERT)).otherwise(F.lit(DELETE)).alias("kind"),
        F.unix_micros(COMMIT_TIMESTAMP).alias("at"),
        F.coalesce(F.col(COMMIT_VERSION).cast("bigint"), F.lit(0)).alias("v"),
    )
    return (
        frame.withColumn(
            "kind",
            F.when((F.col("kind") == DELETE) & F.col("s").isNull(), F.lit(GONE)).otherwise(F.col("kind")),
        )
        .withColumn("origin", F.lit(BATCH))
        .withColumn("h", F.xxhash64(make_comparable(F.col("p"), frame.schema["p"].dataType)))
    )


def without_replaced(events: DataFrame, shape: EventColumns) -> DataFrame:
    """RESTORE and OVERWRITE delete a key and insert it in one commit, which is an update.

    A batch has the whole of a commit, so nothing else that is known has to be asked.
    """
    from pyspark.sql import functions as F  # noqa: N812

    here = f"origin = {BATCH}"
    commit = ", ".join([*shape.keys, "at", "v"])
    updated = F.expr(f"max({here} AND kind = '{UPSERT}') OVER (PARTITION BY {commit})")
    marked = events.withColumn("replaced", F.expr(f"{here} AND kind = '{GONE}'") & updated)
    return marked.where("NOT replaced").drop("replaced")


def standing(table: DataFrame, shape: EventColumns) -> DataFrame:
    """The rows of the history as events, whose commits are not known here."""
    from pyspark.sql import functions as F  # noqa: N812

    frame = table.select(*_columns(table, shape), F.col(VALID_FROM).alias("f"), VALID_TO, IS_CURRENT)
    return frame.select(
        *shape.keys,
        F.col("f").alias("s"),
        "p",
        F.lit(UPSERT).alias("kind"),
        F.lit(0).cast("bigint").alias("at"),
        F.lit(-1).cast("bigint").alias("v"),
        F.struct("p", VALID_TO, IS_CURRENT).alias("r"),
        F.lit(TABLE).alias("origin"),
    )


def kept(events: DataFrame, shape: EventColumns) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    return events.select(
        *_columns(events, shape),
        F.col(CHANGE_TYPE).alias("kind"),
        F.coalesce(F.unix_micros(COMMIT_TIMESTAMP), F.lit(0)).alias("at"),
        F.col(COMMIT_VERSION).alias("v"),
        F.lit(KEPT).alias("origin"),
    )


def to_keep(history: DataFrame, shape: EventColumns) -> DataFrame:
    """What of a rebuilt history has to be kept beside it, as `kept` reads it."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = []
    for position, field in enumerate(shape.fields):
        value = F.col(shape.inner(position))
        if position in shape.payload:
            # The values stand in the history itself.
            value = F.when(F.col("keep") == UPSERT, value)
        columns.append(value.alias(field.name))
    return history.where("keep IS NOT NULL").select(
        *columns,
        F.col("keep").alias(CHANGE_TYPE),
        F.col("v").alias(COMMIT_VERSION),
        F.timestamp_micros("at").alias(COMMIT_TIMESTAMP),
    )


def _columns(frame: DataFrame, shape: EventColumns) -> list[Column]:
    """k0, k1, …, s and p of a frame that has the table's names; a column that it lacks is NULL."""
    from pyspark.sql import functions as F  # noqa: N812

    names = {name.casefold(): name for name in frame.columns}

    def column(position: int) -> Column:
        field = shape.fields[position]
        name = names.get(field.name.casefold())
        return (F.lit(None) if name is None else F.col(quote(name))).cast(field.dataType)

    payload = [column(position).alias(f"x{position}") for position in shape.payload]
    payload = payload or [F.lit(0).alias("nothing")]
    return [
        *(column(position).alias(f"k{index}") for index, position in enumerate(shape.key)),
        column(shape.sequence).alias("s"),
        F.struct(*payload).alias("p"),
    ]
