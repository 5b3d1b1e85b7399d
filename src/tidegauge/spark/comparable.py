"""Defines when two values are the same, wherever rows are compared, grouped or hashed to find changes.

Two values are the same if a file would hold the same. So NULL equals NULL and NaN equals NaN, but -0.0 is not
0.0; texts are compared letter by letter, whatever their collation; the order inside a map does not count.
Spark's own equality is coarser (-0.0 = 0.0, collations) or undefined (maps, variants): with it a change could
look like none, and would never reach the target.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


def make_comparable(column: Column, type_: DataType, *, only: Collection[str] | None = None) -> Column:
    """A value that Spark can compare, group by and hash, and that differs wherever the column's own does.

    A VARIANT is compared by its JSON and its types: values inside one mixed array whose JSON is the same (a
    date, and that date as text) count as equal. `only` names the fields of a struct that count.
    """
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql import types as T  # noqa: N812

    if only is None and compares_exactly(type_):
        return column
    match type_:
        case T.FloatType() | T.DoubleType():
            # The two zeros differ only as text.
            return F.struct(
                column.alias("number"), F.when(column == 0, column.cast("string")).alias("which_zero")
            )
        case T.StringType():
            return F.collate(column, "UTF8_BINARY")
        case T.VariantType():
            return F.struct(F.to_json(column).alias("json"), F.schema_of_variant(column).alias("types"))
        case T.ArrayType(elementType=element):
            return F.transform(column, lambda one: make_comparable(one, element))
        case T.MapType(keyType=key, valueType=value):
            entries = F.transform(
                F.map_entries(column),
                lambda one: F.struct(
                    make_comparable(one["key"], key).alias("key"),
                    make_comparable(one["value"], value).alias("value"),
                ),
            )
            return F.sort_array(entries)
        case T.StructType():
            parts = [
                make_comparable(column.getField(field.name), field.dataType).alias(f"f{at}")
                for at, field in enumerate(type_.fields)
                if only is None or field.name in only
            ]
            return F.when(column.isNotNull(), F.struct(*parts)) if parts else F.lit(None)
        case _:
            return column


def make_numbers_comparable(
    one: Column, type_: DataType, other: Column, other_type: DataType
) -> tuple[Column, Column] | None:
    """Two numbers of unlike types as they are once both have the wider type; None if they are no numbers."""
    from pyspark.sql import types as T  # noqa: N812

    types = (type_, other_type)
    if not all(isinstance(each, T.NumericType) for each in types):
        return None
    if not any(isinstance(each, T.FloatType | T.DoubleType) for each in types):
        return one, other  # Spark compares whole numbers and decimals by their values
    wide = T.DoubleType()
    return make_comparable(one.cast(wide), wide), make_comparable(other.cast(wide), wide)


def compares_exactly(type_: DataType) -> bool:
    """Whether Spark compares and groups values of this type exactly, without `make_comparable`."""
    from pyspark.sql import types as T  # noqa: N812

    match type_:
        case T.FloatType() | T.DoubleType() | T.MapType() | T.VariantType():
            return False
        case T.StringType():
            return bool(type_.collation == "UTF8_BINARY")
        case T.ArrayType():
            return compares_exactly(type_.elementType)
        case T.StructType():
            return all(compares_exactly(field.dataType) for field in type_.fields)
        case _:
            return True
