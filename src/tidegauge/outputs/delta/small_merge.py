"""A merge of few rows into a small target: which rows are there already, which differ, and what is written.

The result is that of Spark's MERGE and its `<=>`. Values that Arrow and Spark may compare differently raise
NeedsSpark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegauge.delta_log.data_files import NeedsSpark
from tidegauge.outputs.delta.small_target import FewRows

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


def match_rows(rows: pa.Table, target: pa.Table, key: Sequence[str]) -> list[int]:
    """For each row the position of the target's row with the same key; -1: there is none."""
    import pyarrow.compute as pc

    mine = [_to_comparable(rows.column(name)) for name in key]
    theirs = [_to_comparable(target.column(name)) for name in key]
    places = pc.indices_nonzero(_find_candidates(mine, theirs))
    there: dict[tuple[Any, ...], int] = {}
    for place, *values in zip(
        places.to_pylist(), *(one.take(places).to_pylist() for one in theirs), strict=True
    ):
        if tuple(values) in there:
            raise NeedsSpark("a key that the target has twice")
        there[tuple(values)] = place
    return [there.get(values, -1) for values in zip(*(one.to_pylist() for one in mine), strict=True)]


def pick_candidates(rows: pa.Table, others: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """The rows that may have the key of one of `others`, and few more. `names`: the key columns, by their
    name in `others` the one in `rows`."""
    return rows.filter(
        _find_candidates(
            [_to_comparable(others.column(name)) for name in names],
            [_to_comparable(rows.column(name)) for name in names.values()],
        )
    )


def _find_candidates(mine: Sequence[pa.ChunkedArray], theirs: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Which of their rows may have one of my keys: each column's value is among mine. This leaves few rows of
    a large table to be compared as a whole."""
    import pyarrow.compute as pc

    candidates: Any = None
    for one, other in zip(mine, theirs, strict=True):
        found = pc.is_in(other, value_set=pc.unique(one).cast(other.type))
        candidates = found if candidates is None else pc.and_(candidates, found)
    return candidates


def find_repeated(rows: pa.Table, key: Sequence[str]) -> bool:
    """Whether any key is there twice, or has a NULL."""
    columns = [_to_comparable(rows.column(name)) for name in key]
    if any(one.null_count for one in columns):
        return True
    keys = set(zip(*(one.to_pylist() for one in columns), strict=True))
    return len(keys) < int(rows.num_rows)


def merge_few(
    rows: pa.Table,
    target: pa.Table,
    *,
    places: Sequence[int],
    goes: np.ndarray[Any, Any],
    key: Sequence[str],
    written: Sequence[str],
    vanished: Sequence[str] = (),
    sequence: str | None = None,
) -> FewRows:
    """What a merge of these rows does. `rows` have the columns that are `written`; `places` are from
    `match_rows`; a flag in `goes` makes a row a delete. `sequence`: a row with a smaller value in this column
    than the target's row changes nothing."""
    import numpy as np
    import pyarrow as pa

    at = np.array(places, dtype=np.int64)
    found = at >= 0
    there = target.take(pa.array(np.where(found, at, 0))) if target.num_rows else None
    newer = np.ones(len(at), dtype=bool)
    differs = np.zeros(len(at), dtype=bool)
    if there is not None and found.any():
        if sequence is not None:
            newer = _find_newer(rows.column(sequence), there.column(sequence), goes)
        keys = {name.casefold() for name in key}
        for name in written:
            if name.casefold() not in keys:
                differs |= ~_find_same(rows.column(name), there.column(name))
    deletes = found & goes & newer
    updates = found & ~goes & differs & newer
    return build_few(rows, target, at, deletes, updates, ~found & ~goes, written, vanished)


def build_few(
    rows: pa.Table,
    target: pa.Table,
    at: np.ndarray[Any, Any],
    deletes: np.ndarray[Any, Any],
    updates: np.ndarray[Any, Any],
    inserts: np.ndarray[Any, Any],
    written: Sequence[str],
    vanished: Sequence[str] = (),
    unchanged: Sequence[str] = (),
) -> FewRows:
    """The commit of these deletes, updates and inserts, which are flags of `rows`. `at` has the position of
    each row in the target. `unchanged`: columns that an update leaves as they are."""
    import pyarrow as pa

    before = target.take(pa.array(at[updates]))
    after = rows.filter(pa.array(updates))
    return FewRows(
        inserted=fill_rows(target.schema, rows.filter(pa.array(inserts)), written),
        updated=fill_rows(
            target.schema,
            after,
            [name for name in written if name not in unchanged],
            before=before.drop_columns([name for name in vanished if name in before.column_names]),
        ),
        updated_at=at[updates].tolist(),
        deleted_at=at[deletes].tolist(),
        read=rows.num_rows,
    )


def fill_rows(
    schema: pa.Schema, rows: pa.Table, given: Sequence[str], before: pa.Table | None = None
) -> pa.Table:
    """Rows with all columns of the schema: a `given` column from `rows`, any other from `before`, or NULL."""
    import pyarrow as pa

    columns = []
    for one in schema:
        if one.name in given:
            columns.append(fit(rows.column(one.name), one.type))
        elif before is not None and one.name in before.column_names:
            columns.append(before.column(one.name))
        else:
            columns.append(pa.nulls(rows.num_rows, one.type))
    return pa.table(columns, schema=schema)


def fit(column: pa.ChunkedArray, type_of: pa.DataType) -> pa.ChunkedArray:
    import pyarrow as pa

    if column.type == type_of:
        return column
    try:
        return column.cast(type_of)
    except pa.ArrowException as error:
        raise NeedsSpark(f"{column.type} is no {type_of}") from error


def _to_comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A key column as values that are equal in Python exactly where they are equal in Spark."""
    import pyarrow as pa
    import pyarrow.types as t

    kind = column.type
    if t.is_timestamp(kind):
        return column.cast(pa.int64())
    if t.is_date32(kind):
        return column.cast(pa.int32())
    known = (t.is_string, t.is_signed_integer, t.is_boolean, t.is_decimal, t.is_binary)
    if not any(is_one(kind) for is_one in known):
        raise NeedsSpark(f"a key of {kind}")
    return column


def _find_same(one: pa.ChunkedArray, other: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    """Row by row, whether two values are the same, as `<=>` compares, except that zeros of different sign
    differ. Nested values that only Arrow finds different, such as a map in another order, are updated without
    need."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as t

    one = fit(one, other.type)
    if t.is_nested(one.type):
        if _has_float(one.type):
            raise NeedsSpark("zeros inside of a value")
        pairs = zip(one, other, strict=True)
        return np.fromiter((mine.equals(theirs) for mine, theirs in pairs), dtype=bool, count=len(one))
    same = pc.fill_null(pc.equal(one, other), False)
    if t.is_floating(one.type):
        nans = pc.and_(pc.is_nan(one), pc.is_nan(other))
        signs = np.signbit(one.to_numpy()) == np.signbit(other.to_numpy())
        same = pc.or_(pc.and_(same, pa.chunked_array([signs])), pc.fill_null(nans, False))
    found = pc.or_(same, pc.and_(pc.is_null(one), pc.is_null(other)))
    return _to_flags(found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found]))


def _has_float(type_of: pa.DataType) -> bool:
    import pyarrow.types as t

    inside = [type_of.field(at).type for at in range(type_of.num_fields)]
    return bool(t.is_floating(type_of)) or any(map(_has_float, inside))


def _find_newer(
    mine: pa.ChunkedArray, theirs: pa.ChunkedArray, goes: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Row by row, whether my event is not older than theirs; a delete without a sequence value counts as
    new."""
    import pyarrow.compute as pc
    import pyarrow.types as t

    mine = fit(mine, theirs.type)
    if t.is_floating(mine.type) or t.is_nested(mine.type):
        raise NeedsSpark(f"a sequence of {mine.type}")
    known = _to_flags(pc.fill_null(pc.greater_equal(mine, theirs), False))
    newer: np.ndarray[Any, Any] = known | _to_flags(pc.is_null(theirs)) | (goes & _to_flags(pc.is_null(mine)))
    return newer


def _to_flags(column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = column.to_numpy()
    return found
