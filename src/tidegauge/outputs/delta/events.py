"""The events of a history as frames with the same columns, from the batch, the history or the kept events."""

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
"""Where an event was found. Of several of one commit the last of these counts: when a batch is done for a
second time, the table may have an older row than the commit that is kept for it."""


@dataclass(frozen=True)
class EventColumns:
    """The columns of an event, in the table's order, and what each is for.

    In frames of events, keys are named k0, k1, …, the sequence value s, and all others are fields x0, x1, …
    of a struct p, so that no name of the user's can clash or needs quoting. `at` and `v` are the time, in
    microseconds, and the version of the event's commit.
    """

    fields: tuple[StructField, ...]
    key: tuple[int, ...]
    """Positions of the key columns in `fields`."""
    sequence: int
    """Position of the sequence column in `fields`."""
    track: tuple[int, ...]
    """Positions of the tracked columns; empty: every column but key and sequence."""

    @property
    def keys(self) -> list[str]:
        """The inner names of the key columns."""
        return [f"k{index}" for index in range(len(self.key))]

    @property
    def payload(self) -> tuple[int, ...]:
        """Positions of all columns but key and sequence."""
        return tuple(i for i in range(len(self.fields)) if i not in self.key and i != self.sequence)

    @property
    def moment(self) -> DataType:
        """The type of the sequence column."""
        return self.fields[self.sequence].dataType

    @property
    def in_time(self) -> bool:
        """Whether a commit's time can stand for a sequence value."""
        return self.moment.typeName() in {"timestamp", "timestamp_ntz", "date"}

    def inner(self, position: int) -> str:
        """The name that the column at a position has in frames of events."""
        if position in self.key:
            return f"k{self.key.index(position)}"
        return "s" if position == self.sequence else f"p.x{position}"


def batch_events(rows: DataFrame, shape: EventColumns) -> DataFrame:
    """The events of a batch."""
    from pyspark.sql import functions as F  # noqa: N812

    change = F.lower(F.coalesce(F.col(CHANGE_TYPE), F.lit("")))
    frame = rows.select(
        *_select_columns(rows, shape),
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
    """The events without deletes whose key the same commit inserts again, as RESTORE and OVERWRITE do: that
    is an update.

    A batch has whole commits, so only its own events have to be compared.
    """
    from pyspark.sql import functions as F  # noqa: N812

    here = f"origin = {BATCH}"
    commit = ", ".join([*shape.keys, "at", "v"])
    updated = F.expr(f"max({here} AND kind = '{UPSERT}') OVER (PARTITION BY {commit})")
    marked = events.withColumn("replaced", F.expr(f"{here} AND kind = '{GONE}'") & updated)
    return marked.where("NOT replaced").drop("replaced")


def history_events(table: DataFrame, shape: EventColumns) -> DataFrame:
    """The rows of the history as events. Their commits are not known: `at` is 0 and `v` is -1."""
    from pyspark.sql import functions as F  # noqa: N812

    frame = table.select(*_select_columns(table, shape), F.col(VALID_FROM).alias("f"), VALID_TO, IS_CURRENT)
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


def as_kept_events(events: DataFrame, shape: EventColumns) -> DataFrame:
    """The kept events (`kept_events`) as events of this form."""
    from pyspark.sql import functions as F  # noqa: N812

    return events.select(
        *_select_columns(events, shape),
        F.col(CHANGE_TYPE).alias("kind"),
        F.coalesce(F.unix_micros(COMMIT_TIMESTAMP), F.lit(0)).alias("at"),
        F.col(COMMIT_VERSION).alias("v"),
        F.lit(KEPT).alias("origin"),
    )


def to_keep(history: DataFrame, shape: EventColumns) -> DataFrame:
    """The events of a rebuilt history that have to be kept beside it, in the form that `read_kept` gives."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = []
    for position, field in enumerate(shape.fields):
        value = F.col(shape.inner(position))
        if position in shape.payload:
            # The values of all other events are in the history itself.
            value = F.when(F.col("keep") == UPSERT, value)
        columns.append(value.alias(field.name))
    return history.where("keep IS NOT NULL").select(
        *columns,
        F.col("keep").alias(CHANGE_TYPE),
        F.col("v").alias(COMMIT_VERSION),
        F.timestamp_micros("at").alias(COMMIT_TIMESTAMP),
    )


def _select_columns(frame: DataFrame, shape: EventColumns) -> list[Column]:
    """The columns k0, k1, …, s and p of a frame with the table's names; columns that it lacks are NULL."""
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
