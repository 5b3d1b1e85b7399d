"""Which columns of two frames belong together, and as which type their values are compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegauge.model.types import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField


class ColumnPairs:
    """The pairs of columns of two frames that are compared, and the type of each pair."""

    def __init__(
        self, source: DataFrame, target: DataFrame, hashed: Sequence[str] | None, *, lacking: bool
    ) -> None:
        self._frames = source, target
        self._pairs: list[tuple[StructField, StructField | None]] = []
        wanted = None if hashed is None else {name.casefold() for name in hashed}
        for field in source.schema.fields:
            other = find(target, field.name)
            if (other is not None or lacking) and (wanted is None or field.name.casefold() in wanted):
                self._pairs.append((field, other))
        self.shown = [field.name for field, _ in self._pairs]
        self.names = [f"c{at}" for at in range(len(self._pairs))]
        self.types: list[DataType] = [common(field, other) for field, other in self._pairs]

    def inner(self, name: str) -> str:
        at = next(at for at, one in enumerate(self.shown) if one.casefold() == name.casefold())
        return self.names[at]

    def values(self, frame: DataFrame) -> list[tuple[Column, DataType]]:
        """The compared columns, with their types, of either frame or of another state of the source."""
        from pyspark.sql import functions as F  # noqa: N812

        made = []
        for (field, other), type_ in zip(self._pairs, self.types, strict=True):
            name = field.name if frame is not self._frames[1] or other is None else other.name
            own = find(frame, name)
            value = F.lit(None).cast(type_)
            if own is not None:
                value = as_type(F.col(quote(own.name)), own.dataType, type_)
            made.append((value, type_))
        return made

    def source(self) -> DataFrame:
        return self._rename(self._frames[0])

    def target(self) -> DataFrame:
        return self._rename(self._frames[1])

    def _rename(self, frame: DataFrame) -> DataFrame:
        values = self.values(frame)
        return frame.select(*(value.alias(name) for (value, _), name in zip(values, self.names, strict=True)))


def common(field: StructField, other: StructField | None) -> DataType:
    """The type as which two columns are compared: the target's, which is as wide or wider; string where only
    one of them is text."""
    from pyspark.sql import types as T  # noqa: N812

    if other is None or field.dataType.simpleString() == other.dataType.simpleString():
        return field.dataType
    if isinstance(field.dataType, T.StringType) != isinstance(other.dataType, T.StringType):
        return T.StringType()
    return other.dataType


def as_type(column: Column, type_: DataType, wanted: DataType) -> Column:
    """Cast a column. A value that cannot be of the wanted type becomes NULL, which differs from the other
    side's value."""
    return column if type_.simpleString() == wanted.simpleString() else column.try_cast(wanted)


def field_of(frame: DataFrame, name: str) -> StructField:
    found = find(frame, name)
    assert found is not None, name
    return found


def find(frame: DataFrame, name: str) -> StructField | None:
    fields = frame.schema.fields
    exact = next((field for field in fields if field.name == name), None)
    return exact or next((field for field in fields if field.name.casefold() == name.casefold()), None)


def total(expression: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.coalesce(F.expr(f"sum({expression})"), F.lit(0)).cast("bigint")
