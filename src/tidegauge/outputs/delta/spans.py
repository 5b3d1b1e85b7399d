"""The least and greatest keys of a batch, so that Delta can skip files without such keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidegauge.model.delta_flow import VALID_FROM
from tidegauge.model.types import parse_decimal, quote
from tidegauge.outputs.delta.events import EventColumns
from tidegauge.outputs.delta.types import bare, literal

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

_PICKED = {"byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz", "string"}
"""Types that have bounds in a file's statistics and are exact as text; decimals have both too."""
_EXACT_DIGITS = 15
"""Other writers (delta-rs) note the bounds of a decimal as a double, which is exact for so many digits. With
more, a file could be skipped that has the key."""
_SHORT = 2000
"""The most characters that both bounds of a column may have together."""


def has_bounds(type_of: Any) -> bool:
    """Whether files can be skipped by a column of this bare type."""
    size = parse_decimal(type_of) if isinstance(type_of, str) else None
    return size.precision <= _EXACT_DIGITS if size else str(type_of) in _PICKED


def find_ends(low: str | None, high: str | None, type_of: str) -> str | None:
    """The ends of a span as SQL has them after BETWEEN; None where there is none, or they are too long."""
    if low is None or high is None or len(low) + len(high) >= _SHORT:
        return None
    return f"{literal(low, type_of)} AND {literal(high, type_of)}"


def select_extremes(shape: EventColumns, where: str = "true") -> Iterator[Column]:
    """Aggregates: the least and the greatest value of each key column and of the sequence, as text."""
    from pyspark.sql import functions as F  # noqa: N812

    picked = {inner for inner, _ in _list_types(shape)}
    for inner in (*shape.keys, "s"):
        value = f"CASE WHEN {where} THEN {inner if inner in picked else 'NULL'} END"
        yield F.expr(f"string(min({value}))").alias(f"low_{inner}")
        yield F.expr(f"string(max({value}))").alias(f"high_{inner}")


def list_conditions(shape: EventColumns, found: Row, prefix: str = "", *, moment: bool = False) -> list[str]:
    """SQL conditions that every row with one of the keys meets. `found`: the result of `select_extremes`;
    `moment`: with a condition on `valid_from`."""
    names = {f"k{index}": shape.fields[place].name for index, place in enumerate(shape.key)}
    if moment:
        names["s"] = VALID_FROM
    conditions = []
    for inner, type_of in _list_types(shape):
        ends = find_ends(found[f"low_{inner}"], found[f"high_{inner}"], type_of)
        if inner in names and ends is not None:
            conditions.append(f"{prefix}{quote(names[inner])} BETWEEN {ends}")
    return conditions


def filter_between(frame: DataFrame, shape: EventColumns, found: Row) -> DataFrame:
    """The rows of a table that may have one of the keys."""
    conditions = list_conditions(shape, found)
    return frame.where(" AND ".join(conditions)) if conditions else frame


def _list_types(shape: EventColumns) -> Iterator[tuple[str, str]]:
    """The inner name and type of each key column and of the sequence, if files can be skipped by it."""
    for inner, place in zip([*shape.keys, "s"], [*shape.key, shape.sequence], strict=True):
        type_of = bare(shape.fields[place].dataType.jsonValue())
        if has_bounds(type_of):
            yield inner, type_of
