"""Finds what to write so that a table becomes equal to a frame."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from tidegauge.errors import OutputError
from tidegauge.model.delta_flow import CHANGE_TYPE, DELETE
from tidegauge.model.types import quote
from tidegauge.spark.comparable import make_comparable, make_numbers_comparable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

INSERT, UPSERT = "insert", "upsert"
HERE, _THERE, _TIMES = "__tidegauge_here", "__tidegauge_there", "__tidegauge_times"
_BEFORE = "__tidegauge_before"


def diff_by_key(whole: DataFrame, target: DataFrame, key: Sequence[str]) -> DataFrame:
    """The rows of `whole` that are new or different in `target`, and the keys that only `target` has; with
    `_change_type`. A key that `whole` has twice comes out twice."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    fields = [field for field in whole.schema.fields if field.name.casefold() != CHANGE_TYPE]
    keys = {name.casefold() for name in key}
    there = {
        field.name.casefold(): (f"__tidegauge_t{at}", field) for at, field in enumerate(target.schema.fields)
    }
    _check_key(key, there)
    before = target.select(
        *(F.col(quote(field.name)).alias(name) for name, field in there.values()), F.lit(True).alias(_THERE)
    )
    times = F.count(F.lit(1)).over(Window.partitionBy(*(F.col(quote(name)) for name in key)))
    after = whole.withColumns({HERE: F.lit(True), _TIMES: times})
    same_key = [
        _make_key_comparable(field, there[field.name.casefold()][1], F.col(quote(field.name)))
        == _make_key_comparable(
            there[field.name.casefold()][1], field, F.col(there[field.name.casefold()][0])
        )
        for field in fields
        if field.name.casefold() in keys
    ]
    differs = F.col(_THERE).isNull() | (F.col(_TIMES) > 1)
    selected: list[Column] = []
    for field in fields:
        column = F.col(quote(field.name))
        if field.name.casefold() in keys:
            selected.append(
                F.coalesce(column, _read_target_value(field, *there[field.name.casefold()])).alias(field.name)
            )
        else:
            differs |= _differs(column, field, there.get(field.name.casefold()))
            selected.append(column.alias(field.name))
    here, goes = F.col(HERE).isNotNull(), F.lit(False)
    if CHANGE_TYPE in whole.columns:
        goes = F.col(CHANGE_TYPE).eqNullSafe(DELETE)
    known = reduce(
        lambda one, other: one & other, (F.col(there[name.casefold()][0]).isNotNull() for name in key)
    )
    return (
        after.join(before, reduce(lambda one, other: one & other, same_key), "full")
        .where(F.when(here & goes, F.col(_THERE).isNotNull()).when(here, differs).otherwise(known))
        .select(*selected, F.when(here & ~goes, UPSERT).otherwise(DELETE).alias(CHANGE_TYPE))
    )


def _check_key(key: Sequence[str], there: Collection[str]) -> None:
    if lost := [name for name in key if name.casefold() not in there]:
        raise OutputError(
            f"the target has no column {lost[0]}, which output.key names",
            hint="bring the column back, or reset the flow with --full-refresh",
        )


def _read_target_value(field: StructField, name: str, old: StructField) -> Column:
    """The target's value of a column, cast to the type of the new column."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.col(name) if _are_alike(old, field) else F.col(name).cast(field.dataType)


def diff_by_sides(both: DataFrame, key: Sequence[str], *, same: bool = False) -> DataFrame:
    """Compare rows after a change (`HERE` is true) with rows before it: gives the rows that are new or
    different, and the keys that have no row any more; with `_change_type`, which is `insert` for a key that
    had no row before. The rows are shuffled once, by key. A key that has two rows comes out twice.

    `same` keeps the rows that are not different, too. A row that the transform marks as deleted is no row.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    here, goes = F.col(HERE), F.lit(False)
    if CHANGE_TYPE in both.columns:
        goes = F.col(CHANGE_TYPE).eqNullSafe(DELETE)
        both = both.where(here | ~goes)
    fields = [field for field in both.schema.fields if field.name not in (HERE, CHANGE_TYPE)]
    keys = {name.casefold() for name in key}
    row = F.struct(*(make_comparable(F.col(quote(field.name)), field.dataType) for field in fields))
    of_key = Window.partitionBy(*(F.col(quote(name)) for name in key))
    window = of_key.orderBy(here.desc())
    # Where a key has two rows after the change, both count as different, even if one equals the row before.
    alike = F.lead(F.when(~here, row)).over(window).eqNullSafe(row) & (F.count_if(here).over(of_key) == 1)
    selected = (
        F.col(quote(field.name)) if field.name.casefold() in keys else F.when(here, F.col(quote(field.name)))
        for field in fields
    )
    known = reduce(lambda one, other: one & other, (F.col(quote(name)).isNotNull() for name in key))
    kind = F.when(~here | goes, DELETE).when(F.col(_BEFORE) == 0, INSERT).otherwise(UPSERT)
    return (
        both.withColumns(
            {
                _THERE: F.lit(False) if same else alike & ~goes,
                _TIMES: F.row_number().over(window),
                _BEFORE: F.count_if(~here).over(of_key),
            }
        )
        .where(F.when(here, ~F.col(_THERE)).otherwise((F.col(_TIMES) == 1) & known))
        .select(
            *(column.alias(field.name) for column, field in zip(selected, fields, strict=True)),
            kind.alias(CHANGE_TYPE),
        )
    )


def find_changed_partitions(whole: DataFrame, target: DataFrame, by: Sequence[str]) -> DataFrame:
    """The values of `by`, each once, for which the two frames do not have the same rows."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = [F.col(quote(name)) for name in by]
    there = {field.name.casefold(): field for field in target.schema.fields}
    fields = whole.schema.fields
    like = len(there) == len(fields) and all(
        (old := there.get(field.name.casefold())) is not None and _are_alike(old, field) for field in fields
    )
    if not like:
        return whole.select(*columns).unionAll(target.select(*columns)).distinct()

    def counted(frame: DataFrame, times: int) -> DataFrame:
        values = (
            make_comparable(F.col(quote(field.name)), field.dataType).alias(f"c{at}")
            for at, field in enumerate(fields)
        )
        held = (F.col(quote(name)).alias(f"b{at}") for at, name in enumerate(by))
        return frame.select(*held, *values, F.lit(times).alias("n"))

    both = counted(whole, 1).unionAll(counted(target, -1))
    left = both.groupBy(*(name for name in both.columns if name != "n")).agg(F.sum("n").alias("n"))
    return (
        left.where("n <> 0").select(*(F.col(f"b{at}").alias(name) for at, name in enumerate(by))).distinct()
    )


def filter_by_keys(frame: DataFrame, keys: DataFrame, by: Sequence[str], *, how: str) -> DataFrame:
    """The rows whose `by` is among the keys (`how="left_semi"`) or not (`left_anti`); NULLs are equal."""
    from pyspark.sql import functions as F  # noqa: N812

    others = keys.select(*(F.col(quote(name)).alias(f"__tidegauge_k{at}") for at, name in enumerate(by)))
    condition: Column = reduce(
        lambda one, other: one & other,
        (F.col(quote(name)).eqNullSafe(F.col(f"__tidegauge_k{at}")) for at, name in enumerate(by)),
    )
    return frame.join(others, condition, how)


def _differs(column: Column, field: StructField, there: tuple[str, StructField] | None) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    if there is None:
        return column.isNotNull()
    name, old = there
    if _are_alike(field, old):
        return ~make_comparable(column, field.dataType).eqNullSafe(make_comparable(F.col(name), old.dataType))
    numbers = make_numbers_comparable(column, field.dataType, F.col(name), old.dataType)
    return ~numbers[0].eqNullSafe(numbers[1]) if numbers else F.lit(True)


def _make_key_comparable(field: StructField, other: StructField, column: Column) -> Column:
    """A key column as it is compared with one of another type: as it is if both are numbers, else as text."""
    from pyspark.sql import types as T  # noqa: N812

    plain = _are_alike(field, other) or all(isinstance(one.dataType, T.NumericType) for one in (field, other))
    return column if plain else column.cast("string")


def _are_alike(one: StructField, other: StructField) -> bool:
    """Whether two fields have the same type, whatever they say of NULLs inside."""
    return one.dataType.simpleString() == other.dataType.simpleString()
