"""Converts a frame with a Delta table's columns at one version to its columns at another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegauge.delta_log.widening import can_widen
from tidegauge.model.types import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField


def fit_columns(frame: DataFrame, fields: Sequence[StructField], *, later: bool) -> list[Column] | None:
    """One column for each field, by name. None if the frame's columns do not fit.

    `later`: the frame is of a later version than the fields, and may have more columns and wider types. Else
    it is of an earlier one, and columns that it lacks are NULL.
    """
    from pyspark.sql import functions as F  # noqa: N812

    have = {field.name.lower(): field for field in frame.schema.fields}
    columns: list[Column] = []
    for field in fields:
        found = have.get(field.name.lower())
        if found is None:
            column = None if later else F.lit(None).cast(field.dataType)
        else:
            column = _fit(F.col(quote(found.name)), found.dataType, field.dataType, later)
        if column is None:
            return None
        columns.append(column.alias(field.name))
    return columns


def _fit(column: Column, have: DataType, want: DataType, later: bool) -> Column | None:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql import types as T  # noqa: N812

    if have.simpleString() == want.simpleString():
        return column
    match have, want:
        case T.StructType(), T.StructType():
            inside = {field.name.lower(): field for field in have.fields}
            parts: list[Column] = []
            for field in want.fields:
                found = inside.get(field.name.lower())
                if found is None:
                    part = None if later else F.lit(None).cast(field.dataType)
                else:
                    part = _fit(column.getField(found.name), found.dataType, field.dataType, later)
                if part is None:
                    return None
                parts.append(part.alias(field.name))
            return F.when(column.isNotNull(), F.struct(*parts))
        case T.ArrayType(), T.ArrayType():
            mine, theirs = have.elementType, want.elementType
            if _fit(F.lit(None), mine, theirs, later) is None:
                return None
            return F.transform(column, lambda one: _assert_fits(_fit(one, mine, theirs, later)))
        case T.MapType(), T.MapType() if have.keyType == want.keyType:
            mine, theirs = have.valueType, want.valueType
            if _fit(F.lit(None), mine, theirs, later) is None:
                return None
            return F.transform_values(column, lambda _, one: _assert_fits(_fit(one, mine, theirs, later)))
        case _:
            narrow, wide = (want, have) if later else (have, want)
            fits = can_widen(wide.simpleString(), narrow.simpleString())
            return column.cast(want) if fits else None


def _assert_fits(column: Column | None) -> Column:
    assert column is not None
    return column
