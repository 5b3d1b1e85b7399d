"""Makes the events of a batch for a target with history: one for each change in each version."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING

from tidegauge.errors import TransformFailed
from tidegauge.model.delta_flow import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, DELETE, Sql
from tidegauge.model.types import quote
from tidegauge.transform.batch import BatchInputs
from tidegauge.transform.carry import carry_columns
from tidegauge.transform.difference import UPSERT, filter_by_keys

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

AFTER, BEFORE = ("insert", "update_postimage"), (DELETE, "update_preimage")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def select_kinds(events: DataFrame, kinds: tuple[str, ...]) -> DataFrame:
    """The events of these kinds of change, without `_change_type`."""
    from pyspark.sql import functions as F  # noqa: N812

    return events.where(F.col(CHANGE_TYPE).isin(*kinds)).drop(CHANGE_TYPE)


def stamp_with_end(batch: BatchInputs, rows: DataFrame) -> DataFrame:
    """Turn rows with `_change_type` into events dated at the window's end.

    With several inputs no single version orders the batches, so the events get the sum of the versions.
    """
    moved = [batch.inputs[part.name] for part in batch.flow.incremental]
    moment = max(one.moment for one in moved)
    return _stamp(rows, sum(one.version for one in moved), (moment - _EPOCH) // timedelta(microseconds=1))


def follow_versions(batch: BatchInputs) -> DataFrame:
    """The events of each version of the only incremental input: rows that the transform gives, and deletes of
    keys that it no longer gives."""
    from pyspark.sql import functions as F  # noqa: N812

    name = batch.only.name
    events = batch.events(name)
    after = _transform_with_versions(batch, select_kinds(events, AFTER))
    before = _transform_with_versions(batch, select_kinds(events, BEFORE))
    if after is None or before is None:
        return _transform_each_version(batch, events)
    after, before = batch.expectation_filter.filter_and_count(after), batch.expectation_filter.filter(before)
    on = (*batch.by, COMMIT_VERSION)
    ended = filter_by_keys(
        before.select(*(F.col(quote(one)) for one in (*on, COMMIT_TIMESTAMP))).distinct(),
        after,
        on,
        how="left_anti",
    )
    return add_change_type(after).unionByName(make_deletes(ended, after, batch.by))


def add_change_type(rows: DataFrame, *, otherwise: str = UPSERT) -> DataFrame:
    """The rows with `_change_type`: a delete where the transform marks one, `otherwise` elsewhere."""
    from pyspark.sql import functions as F  # noqa: N812

    if CHANGE_TYPE not in rows.columns:
        return rows.withColumn(CHANGE_TYPE, F.lit(otherwise))
    goes = F.col(CHANGE_TYPE).eqNullSafe(DELETE)
    others = (F.col(quote(name)) for name in rows.columns if name != CHANGE_TYPE)
    return rows.select(*others, F.when(goes, DELETE).otherwise(otherwise).alias(CHANGE_TYPE))


def make_deletes(keys: DataFrame, like: DataFrame, by: Sequence[str]) -> DataFrame:
    """Deletes of these keys, with the columns of `like`, which are NULL where the keys have none.

    A key with a NULL is left out: it was never written.
    """
    from pyspark.sql import functions as F  # noqa: N812

    there = {name.casefold() for name in keys.columns}
    columns: list[Column] = [
        F.col(quote(field.name)).cast(field.dataType).alias(field.name)
        if field.name.casefold() in there
        else F.lit(None).cast(field.dataType).alias(field.name)
        for field in like.schema.fields
        if field.name != CHANGE_TYPE
    ]
    known = reduce(lambda one, other: one & other, (F.col(quote(name)).isNotNull() for name in by))
    return keys.where(known).select(*columns, F.lit(DELETE).alias(CHANGE_TYPE))


def _transform_with_versions(batch: BatchInputs, rows: DataFrame) -> DataFrame | None:
    """The transform over rows of many versions, with each row's version; None where that cannot be done."""
    transform = batch.flow.transform
    if transform is None:
        batch.transform.check(rows)
        return rows
    if not isinstance(transform, Sql):
        return None
    name = batch.only.name
    text = carry_columns(transform.text, incremental=name, columns=[COMMIT_VERSION, COMMIT_TIMESTAMP])
    if text is None:
        return None
    try:
        frame = batch.transform.query(text, batch.frames({name: rows}))
    except TransformFailed:
        batch.whole()  # Raises if the user's own SQL is wrong.
        return None
    if not {COMMIT_VERSION, COMMIT_TIMESTAMP} <= set(frame.columns):
        return None
    batch.transform.check(frame)
    return frame


def _transform_each_version(batch: BatchInputs, events: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    moment = F.unix_micros(F.col(COMMIT_TIMESTAMP)).alias("at")
    versions = [
        (int(row[0]), int(row[1]))
        for row in events.select(COMMIT_VERSION, moment).distinct().orderBy(COMMIT_VERSION).collect()
    ]
    steps: list[DataFrame] = []
    for version, at in versions or [(-1, 0)]:
        one = events.where(F.col(COMMIT_VERSION) == version).drop(COMMIT_VERSION, COMMIT_TIMESTAMP)
        after = batch.expectation_filter.filter_and_count(batch.apply(select_kinds(one, AFTER)))
        before = batch.expectation_filter.filter(batch.apply(select_kinds(one, BEFORE)))
        keys = [F.col(quote(name)) for name in batch.by]
        ended = filter_by_keys(before.select(*keys).distinct(), after, batch.by, how="left_anti")
        steps.append(
            _stamp(add_change_type(after).unionByName(make_deletes(ended, after, batch.by)), version, at)
        )
    return reduce(lambda one, other: one.unionByName(other), steps)


def _stamp(rows: DataFrame, version: int, micros: int) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    return rows.withColumns(
        {
            COMMIT_VERSION: F.lit(version).cast("bigint"),
            COMMIT_TIMESTAMP: F.timestamp_micros(F.lit(micros).cast("bigint")),
        }
    )
