"""Checks before a merge is committed that each key comes once, and that a key that comes as new is new."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from tidegauge.delta_log.data_files import NeedsSpark
from tidegauge.errors import KeyUnsuitable
from tidegauge.model.delta_flow import CHANGE_TYPE, DELETE
from tidegauge.model.types import quote
from tidegauge.outputs.delta.modes import CheckedChange, DeltaWrite, align_rows, is_delete
from tidegauge.outputs.delta.small_merge import find_repeated, match_rows, merge_few
from tidegauge.outputs.delta.spans import find_ends, has_bounds
from tidegauge.spark.few_rows import collect_few, frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TIMES, _GOES, _OTHER = "__tidegauge_times", "__tidegauge_goes", "__tidegauge_other"
_NEW = f"{CHANGE_TYPE} <=> 'insert'"


def check_keys(job: DeltaWrite) -> CheckedChange:
    """Compute the change once, keep it, and check its keys. Raises KeyUnsuitable.

    Where the input may have a key twice, keys whose rows come as inserts are looked up in the target; those
    that it has already are read again from the whole input, which shows whether they are there twice. With
    `recompute_all_keys`, all keys are compared with the whole input instead.
    """
    from pyspark.sql import functions as f

    rows = align_rows(job, CHANGE_TYPE)
    if CHANGE_TYPE not in rows.columns:
        rows = rows.withColumn(CHANGE_TYPE, f.lit("update_postimage"))
    look_through = _look_through if job.small is None else _look_through_few
    checked, new = look_through(job, rows)
    again = job.change.recompute_keys
    if again is None or job.empty or not (new or (job.change.recompute_all_keys and checked.read)):
        return checked
    doubted = _find_otherwise(job, checked) if job.change.recompute_all_keys else _find_there(job, checked)
    if not doubted.agg(f.count(f.lit(1))).collect()[0][0]:
        return checked
    whole = align_rows(job, CHANGE_TYPE, rows=again(doubted))
    others = _join_by_key(checked.rows, doubted, _list_keys(job), "left_anti")
    return look_through(job, others.unionByName(whole))[0]


def _look_through_few(job: DeltaWrite, rows: DataFrame) -> tuple[CheckedChange, int]:
    """As `_look_through`, for a small target and without Spark; with Spark where the rows are many, or one is
    unsuitable. The number is of the new keys that the target has already."""
    import numpy as np
    import pyarrow.compute as pc

    assert job.small is not None
    found, keys = collect_few(rows), _list_keys(job)
    try:
        if found is None or find_repeated(found, keys):
            return _look_through(job, rows)
        kinds = found.column(CHANGE_TYPE)
        goes = pc.fill_null(pc.equal(kinds, DELETE), False).to_numpy()
        places = match_rows(found, job.small.rows, keys)
        few = merge_few(
            found,
            job.small.rows,
            places=places,
            goes=goes,
            key=keys,
            written=[column.name for column in job.columns],
            vanished=job.vanished,
            sequence=_find_spelling(job, job.output.sequence_by),
        )
    except NeedsSpark:
        return _look_through(job, rows)
    if job.change.recompute_keys or job.change.count_repeated:
        rows = frame_of(job.session, found, rows.schema)
    checked = CheckedChange(rows, read=found.num_rows, deletes=int(np.count_nonzero(goes)), few=few)
    # Only inserts of keys that the target has already need another look.
    new = pc.fill_null(pc.equal(kinds, "insert"), False).to_numpy()
    return checked, int(np.count_nonzero(new & (np.array(places, dtype=np.int64) >= 0)))


def _look_through(job: DeltaWrite, rows: DataFrame) -> tuple[CheckedChange, int]:
    """Compute the rows once and check their keys. Also returns how many rows come as inserts."""
    from pyspark.sql import functions as f

    # As Delta itself does it: computed once and never again, even if the inputs change.
    held = rows.localCheckpoint(eager=False)
    types = {column.name.casefold(): column for column in job.columns}
    keys = _list_keys(job)
    pruned = [name for name in keys if has_bounds(types[name.casefold()].type)]
    grouped = held.groupBy(*(f.col(quote(name)) for name in keys)).agg(
        f.count(f.lit(1)).alias("_n"),
        f.count_if(f.expr(is_delete())).alias("_d"),
        f.sum(f.expr(f"int({_NEW})")).alias("_i"),
    )
    empty = " OR ".join(f"{quote(name)} IS NULL" for name in keys)
    shown = f"to_json(struct({', '.join(map(quote, keys))}), map('ignoreNullFields', 'false'))"
    facts = grouped.agg(
        f.expr("coalesce(sum(_n), 0)").alias("rows"),
        f.expr("coalesce(sum(_d), 0)").alias("deletes"),
        f.expr("coalesce(sum(_i), 0)").alias("new"),
        f.expr(f"max(CASE WHEN {empty} THEN {shown} END)").alias("no_key"),
        f.expr(f"max(CASE WHEN _n > 1 THEN {shown} END)").alias("repeated"),
        *(f.expr(f"string(min({quote(name)}))").alias(f"least{i}") for i, name in enumerate(pruned)),
        *(f.expr(f"string(max({quote(name)}))").alias(f"greatest{i}") for i, name in enumerate(pruned)),
    ).collect()[0]
    key = f"(key: {', '.join(keys)})"
    if facts["no_key"] is not None:
        raise KeyUnsuitable(
            f"a row for {job.output.table} has NULL in its key: {facts['no_key']} {key}",
            hint="filter such rows in the transform, or fill the key with coalesce()",
        )
    if facts["repeated"] is not None:
        raise KeyUnsuitable(
            f"a key comes more than once for {job.output.table}: {facts['repeated']} {key}",
            hint="name all columns of the key, or let the transform keep one row for each; once the input is"
            f" mended, `tidegauge watermark reset --select {job.flow}` goes on from it as it is",
        )
    bounds: dict[str, str] = {}
    for index, name in enumerate(pruned):
        ends = find_ends(facts[f"least{index}"], facts[f"greatest{index}"], types[name.casefold()].type)
        if ends is not None:
            bounds[name] = ends
    found = CheckedChange(
        held, read=int(facts["rows"]), deletes=int(facts["deletes"]), bounds=bounds, held=held
    )
    return found, int(facts["new"])


def _find_there(job: DeltaWrite, checked: CheckedChange) -> DataFrame:
    """The keys that come as inserts and that the target has already."""
    keys = _list_keys(job)
    new = checked.rows.where(_NEW)
    if job.is_few(checked):
        new = new.hint("broadcast")
    target = job.session.read.table(job.table).select(*map(quote, keys))
    for name, ends in checked.bounds.items():
        target = target.where(f"{quote(name)} BETWEEN {ends}")
    return _join_by_key(target, new, keys, "left_semi")


def _find_otherwise(job: DeltaWrite, checked: CheckedChange) -> DataFrame:
    """The keys for which the whole input gives something else than the rows that have changed."""
    from pyspark.sql import functions as f

    assert job.change.recompute_keys is not None
    columns = [f.col(quote(name)) for name in _list_keys(job)]
    goes = f.expr(f"int({is_delete()})")
    whole = align_rows(job, CHANGE_TYPE, rows=job.change.recompute_keys(checked.rows.select(*columns)))
    both = whole.select(*columns, f.lit(1).alias(_TIMES), goes.alias(_GOES)).unionAll(
        checked.rows.select(*columns, f.lit(0), -goes)
    )
    counted = both.groupBy(*columns).agg(f.sum(_TIMES).alias(_TIMES), f.sum(_GOES).alias(_GOES))
    return counted.where(f"{_TIMES} <> 1 OR {_GOES} <> 0").select(*columns)


def _list_keys(job: DeltaWrite) -> list[str]:
    return [str(_find_spelling(job, name)) for name in job.output.key]


def _find_spelling(job: DeltaWrite, name: str | None) -> str | None:
    """A column's name as the target spells it; None where it has no such column."""
    return next((one.name for one in job.columns if name and one.name.casefold() == name.casefold()), None)


def _join_by_key(rows: DataFrame, others: DataFrame, keys: Sequence[str], how: str) -> DataFrame:
    """The rows whose key is among the others' (`left_semi`), or is not (`left_anti`)."""
    from pyspark.sql import functions as f

    named = others.select(*(f.col(quote(name)).alias(f"{_OTHER}{at}") for at, name in enumerate(keys)))
    equal = (f.col(quote(name)) == f.col(f"{_OTHER}{at}") for at, name in enumerate(keys))
    return rows.join(named, reduce(lambda one, other: one & other, equal), how)
