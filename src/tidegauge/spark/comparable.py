"""When two values are the same: wherever rows are compared, grouped or hashed to find out what changed.

Two values are the same where a file would hold the same. So NULL is NULL and NaN is NaN, but -0.0 is not 0.0,
and texts are told apart letter by letter whatever their collation says; the order inside a map is nobody's.
Spark's own equality is coarser (-0.0 = 0.0, collations) or has no answer (maps, variants): with it a change
could be taken for none, and would never reach the target.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


def make_comparable(column: Column, type_: DataType, *, only: Collection[str] | None = None) -> Column:
    """A value that Spark can compare, group by and hash, and that differs wherever the column's own does.

    Of a VARIANT it has the JSON and the types: values inside one mixed array whose JSON is the same (a date,
    and that date as text) are taken for equal. `only`: of a struct, the fields that count.
    """
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql import types as T  # noqa: N812

    if only is None and compares_exactly(type_):
        return column
    match type_:
        case T.FloatType() | T.DoubleType():
            # Only as text do the two zeros differ.
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


def compares_exactly(type_: DataType) -> bool:
    """Whether Spark compares and groups such values by all that they are."""
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
