"""Which keys, or which partitions, a batch's changes touch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from tidegauge.errors import TransformFailed
from tidegauge.model.delta_flow import Evaluate, Function, Sql
from tidegauge.model.types import quote as quoted
from tidegauge.transform.batch import Parts
from tidegauge.transform.logical import origins, readable
from tidegauge.transform.touched import all_name, delta_name, find_touched

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def found(parts: Parts, *, by: Sequence[str], choice: Evaluate) -> DataFrame | None:
    """The values of `by` that any change touches, before or after, each once; None if that cannot be told."""
    flow = parts.flow
    moved = [part.name for part in flow.moving if parts.inputs[part.name].moves]
    frames: list[DataFrame] = []
    for name in moved:
        grows = parts.inputs[name].grows
        changed = parts.keep(parts.came(name)) if grows else parts.came(name).unionByName(parts.gone(name))
        if choice is Evaluate.ROWS and (len(flow.inputs) == 1 or not isinstance(flow.transform, Sql)):
            frames.append(parts.over(changed))
        elif isinstance(flow.transform, Sql):
            queried = _queried(parts, flow.transform, name, changed, by)
            if queried is None:
                return None
            frames.append(queried)
        else:
            frames += _called(parts, name)
    keys = [_typed(parts, frame, by) for frame in frames]
    if not keys:
        keys = [_typed(parts, parts.whole(), by).limit(0)]
    return parts.keep(reduce(lambda one, other: one.unionByName(other), keys).distinct())


def lapsed(parts: Parts, seen: DataFrame) -> DataFrame | None:
    """Keys of rows that went, other than those `seen` to come out, that do not come out any more at all.

    They came out while a pinned table was another one: over the one of today nothing comes of the rows as
    they were, nor of the rows as they are. None where there is no such key.
    """
    name, by = parts.only.name, parts.by
    if parts.inputs[name].grows or not parts.pinned:
        return None
    match parts.flow.transform:
        case Sql() as transform:
            keys = _queried(parts, transform, name, parts.gone(name), by, needed=False)
        case Function():
            keys = _named(parts, name)
        case _:
            keys = None
    if keys is None:
        return None
    left = parts.keep(only(_typed(parts, keys, by).distinct(), seen, by, how="left_anti"))
    if left.isEmpty():
        return None
    # Another row may have the key: only the whole can tell.
    return only(left, only(parts.whole(), left, by, how="left_semi"), by, how="left_anti")


def only(frame: DataFrame, keys: DataFrame, by: Sequence[str], *, how: str) -> DataFrame:
    """The rows whose `by` is among the keys (`left_semi`), or is not (`left_anti`); NULLs are equal."""
    from pyspark.sql import functions as F  # noqa: N812

    others = keys.select(*(F.col(quoted(name)).alias(f"__tidegauge_k{at}") for at, name in enumerate(by)))
    condition: Column = reduce(
        lambda one, other: one & other,
        (F.col(quoted(name)).eqNullSafe(F.col(f"__tidegauge_k{at}")) for at, name in enumerate(by)),
    )
    return frame.join(others, condition, how)


def _queried(
    parts: Parts, transform: Sql, name: str, changed: DataFrame, by: Sequence[str], *, needed: bool = True
) -> DataFrame | None:
    flow = parts.flow
    try:
        text = find_touched(
            transform.text,
            inputs=[part.name for part in flow.inputs],
            moving=[part.name for part in flow.moving],
            by=by,
            changed=name,
            columns={part.name: _columns(parts.now(part.name)) for part in flow.inputs},
        )
        frames = {delta_name(name): changed}
        for part in flow.inputs:
            if part.snapshot:
                frames[part.name] = parts.now(part.name)
            elif all_name(part.name) in text:
                frames[all_name(part.name)] = parts.every(part.name)
        return parts.transform.query(text, frames)
    except TransformFailed as error:
        parts.whole()  # Raises, if it is the user's own text that is wrong.
        if needed:
            parts.notes.append(f"evaluated as a whole: {error.message}")
        return None


def _called(parts: Parts, name: str) -> list[DataFrame]:
    """A function over each side of a change, with the other inputs as they were before or are after."""
    others = {
        part.name: parts.now(part.name) if part.snapshot else parts.every(part.name)
        for part in parts.flow.inputs
        if part.name != name
    }
    order = [part.name for part in parts.flow.inputs]
    return [
        parts.transform.over({one: {**others, name: changed}[one] for one in order})
        for changed in (parts.came(name), parts.gone(name))
    ]


def _named(parts: Parts, name: str) -> DataFrame | None:
    """The keys of rows that went, where a function leaves these columns of its input as they are."""
    from pyspark.sql import functions as F  # noqa: N812

    if not readable(parts.whole()):
        return None
    columns = origins(parts.whole(), inputs=parts.transform.views.inputs, moving=name)
    if not all(column.casefold() in columns for column in parts.by):
        return None
    return parts.gone(name).select(
        *(F.col(quoted(columns[column.casefold()])).alias(column) for column in parts.by)
    )


def _typed(parts: Parts, frame: DataFrame, by: Sequence[str]) -> DataFrame:
    """Only `by`, of the types that the transform gives over the whole."""
    from pyspark.sql import functions as F  # noqa: N812

    types = {field.name.casefold(): field.dataType for field in parts.whole().schema.fields}
    return frame.select(*(F.col(quoted(name)).cast(types[name.casefold()]).alias(name) for name in by))


def _columns(frame: DataFrame) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in frame.schema.fields}
