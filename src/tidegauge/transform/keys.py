"""Finds the keys, or the partitions, that a batch's changes touch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from tidegauge.errors import TransformFailed
from tidegauge.model.delta_flow import Evaluate, Function, Sql
from tidegauge.model.types import quote
from tidegauge.transform.batch import BatchInputs
from tidegauge.transform.difference import filter_by_keys
from tidegauge.transform.spark_plan import find_origins, has_plan
from tidegauge.transform.touched import all_name, delta_name, find_touched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find_touched_keys(batch: BatchInputs, *, by: Sequence[str], choice: Evaluate) -> DataFrame | None:
    """The values of `by` that any change touches, before or after, each once; None if they cannot be
    found."""
    flow = batch.flow
    moved = [part.name for part in flow.incremental if batch.inputs[part.name].has_changes]
    frames: list[DataFrame] = []
    for name in moved:
        grows = batch.inputs[name].grows
        changed = batch.cache(batch.came(name)) if grows else batch.came(name).unionByName(batch.gone(name))
        if choice is Evaluate.ROWS and (len(flow.read) == 1 or not isinstance(flow.transform, Sql)):
            frames.append(batch.apply(changed))
        elif isinstance(flow.transform, Sql):
            queried = _query_keys(batch, flow.transform, name, changed, by)
            if queried is None:
                return None
            frames.append(queried)
        else:
            frames += _call_for_keys(batch, name)
    keys = [_cast_keys(batch, frame, by) for frame in frames]
    if not keys:
        keys = [_cast_keys(batch, batch.whole(), by).limit(0)]
    return batch.cache(reduce(lambda one, other: one.unionByName(other), keys).distinct())


def find_lost_keys(batch: BatchInputs, seen: DataFrame) -> DataFrame | None:
    """Keys of deleted input rows that are neither in `seen` nor in the whole result any more; None: no such
    key.

    The target has them from an earlier version of a pinned table: with today's version neither the old nor
    the new input rows give them, so comparing both sides of the change does not find them.
    """
    name, by = batch.only.name, batch.by
    if batch.inputs[name].grows or not batch.pinned:
        return None
    match batch.flow.transform:
        case Sql() as transform:
            keys = _query_keys(batch, transform, name, batch.gone(name), by, needed=False)
        case Function():
            keys = _keys_of_deleted_rows(batch, name)
        case None:
            keys = batch.gone(name)
    if keys is None:
        return None
    left = batch.cache(filter_by_keys(_cast_keys(batch, keys, by).distinct(), seen, by, how="left_anti"))
    if left.isEmpty():
        return None
    # Another row may still give the key: only the whole result shows it.
    return filter_by_keys(
        left, filter_by_keys(batch.without_set_aside(), left, by, how="left_semi"), by, how="left_anti"
    )


def _query_keys(
    batch: BatchInputs,
    transform: Sql,
    name: str,
    changed: DataFrame,
    by: Sequence[str],
    *,
    needed: bool = True,
) -> DataFrame | None:
    flow = batch.flow
    try:
        text = find_touched(
            transform.text,
            inputs=[part.name for part in flow.read],
            incremental=[part.name for part in flow.incremental],
            by=by,
            changed=name,
            columns={part.name: _columns(batch.now(part.name)) for part in flow.read},
        )
        frames = {delta_name(name): changed}
        for part in flow.read:
            if part.snapshot:
                frames[part.name] = batch.now(part.name)
            elif all_name(part.name) in text:
                frames[all_name(part.name)] = batch.every(part.name)
        return batch.transform.query(text, frames)
    except TransformFailed as error:
        batch.whole()  # Raises if the user's own SQL is wrong.
        if needed:
            batch.notes.append(f"evaluated as a whole: {error.message}")
        return None


def _call_for_keys(batch: BatchInputs, name: str) -> list[DataFrame]:
    """Call the function over each side of a change, with the rows of the other inputs before and after."""
    others = {
        part.name: batch.now(part.name) if part.snapshot else batch.every(part.name)
        for part in batch.flow.read
        if part.name != name
    }
    order = [part.name for part in batch.flow.read]
    return [
        batch.transform.apply({one: {**others, name: changed}[one] for one in order})
        for changed in (batch.came(name), batch.gone(name))
    ]


def _keys_of_deleted_rows(batch: BatchInputs, name: str) -> DataFrame | None:
    """The keys of deleted input rows; None unless the function passes the key columns on unchanged."""
    from pyspark.sql import functions as F  # noqa: N812

    if not has_plan(batch.whole()):
        return None
    columns = find_origins(batch.whole(), inputs=batch.transform.views.inputs, incremental=name)
    if not all(column.casefold() in columns for column in batch.by):
        return None
    return batch.gone(name).select(
        *(F.col(quote(columns[column.casefold()])).alias(column) for column in batch.by)
    )


def _cast_keys(batch: BatchInputs, frame: DataFrame, by: Sequence[str]) -> DataFrame:
    """Only the columns `by`, cast to their types in the whole result."""
    from pyspark.sql import functions as F  # noqa: N812

    types = {field.name.casefold(): field.dataType for field in batch.whole().schema.fields}
    return frame.select(*(F.col(quote(name)).cast(types[name.casefold()]).alias(name) for name in by))


def _columns(frame: DataFrame) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in frame.schema.fields}
