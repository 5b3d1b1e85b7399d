"""What a log says of a file's values, so that readers can leave the file out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = 32
"""As many as Delta looks at where nobody says otherwise."""
_LONG = 32
"""Longer texts would have to be cut, which bounds nothing from above."""
_CHOSEN = ("delta.dataSkippingNumIndexedCols", "delta.dataSkippingStatsColumns")


def find_stats(rows: pa.Table, properties: Mapping[str, str]) -> dict[str, Any]:
    """Of types whose values are exact as JSON; a value that is not given bounds nothing. Where the table's
    owner chose columns, only how many rows there are."""
    import pyarrow.compute as pc

    stats: dict[str, Any] = {"numRecords": rows.num_rows}
    if any(name in properties for name in _CHOSEN):
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
        low, high = _say(ends["min"], up=False), _say(ends["max"], up=True)
        if low is not None and high is not None:
            least[name], greatest[name] = low, high
    return {**stats, "minValues": least, "maxValues": greatest, "nullCount": nulls, "tightBounds": True}


def _is_bounded(type_of: pa.DataType) -> bool:
    import pyarrow.types as t

    checks = (t.is_signed_integer, t.is_string, t.is_date32, t.is_timestamp)
    return any(check(type_of) for check in checks)


def _say(value: pa.Scalar, *, up: bool) -> Any:
    """A moment is written to the millisecond, and bounds what lies inside it."""
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
