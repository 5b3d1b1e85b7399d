"""A hash of a Spark value of any type: equal values have the same hash.

−0.0 equals 0.0, every NaN equals every other, the order of a map's entries does not count, and text is
compared byte by byte. A NULL counts where it stands: Spark's own hash skips it, so that (NULL, 5) and (5,
NULL) would be alike. The code that moves rows tells the two zeros apart (`spark.comparable`); here they are
equal, because a database may rightly keep only one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

_NULL = -4_611_686_018_427_387_847


def digest(column: Column, type_: DataType) -> Column:
    """The hash of a column, as a bigint; never NULL."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql import types as T  # noqa: N812

    match type_:
        case T.VariantType():
            found = F.xxhash64(F.to_json(column), F.schema_of_variant(column))
        case T.ArrayType(elementType=element):
            found = F.xxhash64(F.transform(column, lambda one: digest(one, element)))
        case T.MapType(keyType=key, valueType=value):
            entries = F.transform(
                F.map_entries(column),
                lambda one: F.struct(digest(one["key"], key), digest(one["value"], value)),
            )
            found = F.xxhash64(F.sort_array(entries))
        case T.StructType(fields=fields):
            parts = [digest(column.getField(field.name), field.dataType) for field in fields]
            found = F.xxhash64(*parts) if parts else F.lit(0).cast("bigint")
        case T.StringType() if type_.collation != "UTF8_BINARY":
            found = F.xxhash64(F.collate(column, "UTF8_BINARY"))
        case _:
            found = F.xxhash64(column)
    return F.when(column.isNull(), F.lit(_NULL)).otherwise(found)


def digest_row(values: Sequence[tuple[Column, DataType]]) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.xxhash64(F.lit(len(values)), *(digest(column, type_) for column, type_ in values))
