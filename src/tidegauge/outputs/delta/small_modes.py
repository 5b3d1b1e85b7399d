"""Computes for each mode what a commit to a small target does, if it can be made without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidegauge.delta_log.data_files import NeedsSpark
from tidegauge.model.mode import Mode
from tidegauge.outputs.delta.modes import CheckedChange, DeltaWrite, Partitions
from tidegauge.outputs.delta.small_merge import fill_rows
from tidegauge.outputs.delta.small_target import FewRows, SmallTarget
from tidegauge.spark.few_rows import collect_few


def find_few(job: DeltaWrite, small: SmallTarget, checked: CheckedChange) -> FewRows | None:
    """The change for `SmallTarget.commit`; None where Spark has to make the commit."""
    find = _BY_MODE.get(job.output.mode)
    try:
        return find(job, small, checked) if find is not None else None
    except NeedsSpark:
        return None


def _find_history(job: DeltaWrite, small: SmallTarget, checked: CheckedChange) -> FewRows:
    from tidegauge.outputs.delta.small_history import find_few_changes

    return find_few_changes(job, small, checked.rows)


def _replace(
    small: SmallTarget,
    checked: CheckedChange,
    files: frozenset[int] | None,
    touched: Partitions | None = None,
) -> FewRows:
    rows = collect_few(checked.rows)
    if rows is None:
        raise NeedsSpark("many rows")
    filled = fill_rows(small.columns.schema, rows, rows.column_names)
    if touched is not None and {values for values, _ in small.columns.split(filled)} - set(touched):
        raise NeedsSpark("a row in none of the partitions, of which Delta says what is wrong")
    deleted = None if touched is None else sum(small.tables[at].num_rows for at in files or ())
    return FewRows(inserted=filled, replaced=files, append=files is None, deleted=deleted, read=rows.num_rows)


def _find_files(small: SmallTarget, touched: Partitions) -> frozenset[int]:
    """Which files lie in the touched partitions, by the text of their values. Raises NeedsSpark for types
    whose text the log may write in another way."""
    import pyarrow.types as t

    schema = small.columns.schema
    for name in small.columns.partition_by:
        known = (t.is_string, t.is_signed_integer, t.is_date32, t.is_boolean)
        if not any(is_one(schema.field(name).type) for is_one in known):
            raise NeedsSpark(f"a partition by {schema.field(name).type}")
    names, wanted = [small.columns.inside[name] for name in small.columns.partition_by], set(touched)
    found = set()
    for at, add in enumerate(small.adds):
        values = add.get("partitionValues") or {}
        if tuple(values.get(name) or None for name in names) in wanted:
            found.add(at)
    return frozenset(found)


_BY_MODE: Mapping[Mode, Callable[[DeltaWrite, SmallTarget, CheckedChange], FewRows | None]] = {
    Mode.MERGE: lambda _, __, checked: checked.few,
    Mode.SCD2: _find_history,
    Mode.APPEND: lambda _, small, checked: _replace(small, checked, None),
    Mode.OVERWRITE: lambda _, small, checked: _replace(small, checked, frozenset(range(len(small.adds)))),
    Mode.REPLACE_PARTITIONS: lambda _, small, checked: _replace(
        small, checked, _find_files(small, checked.touched), checked.touched
    ),
}
"""A mode that is not here is left to Spark."""
