"""The statistics of a data file in the log, by which readers skip files."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = 32
"""How many leading columns get statistics: Delta's default."""
_LONG = 32
"""Characters. A longer text gets no bounds: cut short, it would be no upper bound."""
_CHOICES = ("delta.dataSkippingNumIndexedCols", "delta.dataSkippingStatsColumns")


def find_stats(rows: pa.Table, properties: Mapping[str, str]) -> dict[str, Any]:
    """The `stats` of a file with these rows, for columns whose values are exact as JSON. Only the row count
    where a property of the table chooses the columns."""
    import pyarrow.compute as pc

    stats: dict[str, Any] = {"numRecords": rows.num_rows}
    if any(name in properties for name in _CHOICES):
        return stats
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name, column in list(zip(rows.schema.names, rows.columns, strict=True))[:_COLUMNS]:
        if not _is_bounded(column.type):
            continue
        nulls[name] = column.null_count
        if column.null_count == rows.num_rows:
            continue
        ends = pc.min_max(column)
        low, high = _render(ends["min"], up=False), _render(ends["max"], up=True)
        if low is not None and high is not None:
            least[name], greatest[name] = low, high
    return {**stats, "minValues": least, "maxValues": greatest, "nullCount": nulls, "tightBounds": True}


def _is_bounded(type_of: pa.DataType) -> bool:
    import pyarrow.types as t

    checks = (t.is_signed_integer, t.is_string, t.is_date32, t.is_timestamp)
    return any(check(type_of) for check in checks)


def _render(value: pa.Scalar, *, up: bool) -> Any:
    """A bound as JSON; None where it cannot be given. Timestamps are rounded to milliseconds: the lower bound
    down, the upper bound (`up`) up."""
    import pyarrow.types as t

    try:
        if t.is_timestamp(value.type):
            milliseconds = value.value // 1000 + (1 if up else 0)
            moment = datetime(1970, 1, 1) + timedelta(milliseconds=milliseconds)
            return f"{moment.isoformat(timespec='milliseconds')}{'Z' if value.type.tz else ''}"
        if t.is_date32(value.type):
            return (date(1970, 1, 1) + timedelta(days=value.value)).isoformat()
    except OverflowError:
        return None
    found = value.as_py()
    return None if isinstance(found, str) and len(found) > _LONG else found
