"""Whether each key of a merge comes once, and is what it says it is; all before anything is committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from tidegauge.errors import KeyUnsuitable
from tidegauge.model.delta_flow import CHANGE_TYPE
from tidegauge.model.types import quote
from tidegauge.outputs.delta.modes import Checked, Job, align_rows, is_delete, say_differs
from tidegauge.outputs.delta.types import literal
from tidegauge.spark.hadoop import on_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PRUNED = {"byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz", "string"}
"""Types of which Delta keeps the least and the greatest value of each file, and compares them as we do."""
_TIMES, _GOES, _OTHER = "__tidegauge_times", "__tidegauge_goes", "__tidegauge_other"
_NEW = f"{CHANGE_TYPE} <=> 'insert'"
_SAME = "__tidegauge_same"


def check_keys(job: Job) -> Checked:
    """One pass: the change is computed, kept, and looked through.

    Where the input may have a key twice, the keys that are new to the target by their rows are looked for in
    it; those that it has are taken from the whole input, which tells whether they are there twice.
    """
    from pyspark.sql import functions as f

    rows = align_rows(job, CHANGE_TYPE)
    if CHANGE_TYPE not in rows.columns:
        rows = rows.withColumn(CHANGE_TYPE, f.lit("update_postimage"))
    checked, new = _look_through(job, rows)
    again = job.change.again
    if again is None or job.empty or not (new or (job.change.unsure and checked.read)):
        return _without_same(checked)
    doubted = _find_otherwise(job, checked) if job.change.unsure else _find_there(job, checked)
    if not doubted.agg(f.count(f.lit(1))).collect()[0][0]:
        return _without_same(checked)
    whole = align_rows(job, CHANGE_TYPE, rows=again(doubted))
    others = _joined(checked.rows.drop(_SAME), doubted, _keys(job), "left_anti")
    return _without_same(_look_through(job, others.unionByName(whole))[0])


def _without_same(checked: Checked) -> Checked:
    """Only now: rows that the target has just so tell of keys that come twice, too."""
    return replace(checked, rows=checked.rows.where(f"NOT {_SAME}").drop(_SAME))


def _look_through(job: Job, rows: DataFrame) -> tuple[Checked, int]:
    """The rows, computed once, marked and looked through; and how many of their keys are new, as they say."""
    from pyspark.sql import functions as f

    rows = _mark_same(job, rows)
    # As Delta itself would do it: computed once, and never again, whatever becomes of the inputs.
    held = rows.localCheckpoint(eager=False)
    types = {column.name.casefold(): column for column in job.columns}
    keys = _keys(job)
    pruned = [name for name in keys if types[name.casefold()].type in _PRUNED]
    grouped = held.groupBy(*(f.col(quote(name)) for name in keys)).agg(
        f.count(f.lit(1)).alias("_n"),
        f.count_if(f.expr(f"NOT {_SAME}")).alias("_l"),
        f.count_if(f.expr(f"NOT {_SAME} AND {is_delete()}")).alias("_d"),
        f.sum(f.expr(f"int({_NEW})")).alias("_i"),
    )
    empty = " OR ".join(f"{quote(name)} IS NULL" for name in keys)
    shown = f"to_json(struct({', '.join(map(quote, keys))}), map('ignoreNullFields', 'false'))"
    facts = grouped.agg(
        f.expr("coalesce(sum(_n), 0)").alias("rows"),
        f.expr("coalesce(sum(_l), 0)").alias("left"),
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
    bounds: dict[str, tuple[str, str]] = {}
    for index, name in enumerate(pruned):
        least, greatest = facts[f"least{index}"], facts[f"greatest{index}"]
        if least is not None and len(least) + len(greatest) < 2000:
            kind = types[name.casefold()].type
            bounds[name] = literal(least, kind), literal(greatest, kind)
    read, left, deletes = (int(facts[name]) for name in ("rows", "left", "deletes"))
    found = Checked(held, read=read, left=left, deletes=deletes, bounds=bounds, held=held)
    return found, int(facts["new"])


def _mark_same(job: Job, rows: DataFrame) -> DataFrame:
    """With a column that is true for rows of which a MERGE would make nothing.

    A table that is small is read sooner than a MERGE finds out the same in its many jobs.
    """
    from pyspark.sql import functions as f

    keys = {name.casefold() for name in job.output.key}
    others = [column for column in job.columns if column.name.casefold() not in keys]
    # Spark Connect lets go of what is held as soon as nobody in this process has it in hand.
    if not job.small or job.empty or on_connect(job.session):
        return rows.withColumn(_SAME, f.lit(False))
    # Spark 4.2 fails on an EXISTS that is selected from a UNION, which changes often are.
    held = rows.localCheckpoint(eager=False)
    on = " AND ".join(f"t.{quote(name)} = s.{quote(name)}" for name in _keys(job))
    alike = f" AND NOT ({say_differs(others)})" if others else ""
    there = f"EXISTS (SELECT 1 FROM {job.table} AS t WHERE {on}{alike})"
    query = f"SELECT s.*, NOT ({is_delete('s')}) AND {there} AS {_SAME} FROM "
    return job.session.sql(query.replace("{", "{{").replace("}", "}}") + "{rows} AS s", rows=held)


def _find_there(job: Job, checked: Checked) -> DataFrame:
    """The keys that the target has, and that should be new to it."""
    keys = _keys(job)
    new = checked.rows.where(_NEW)
    if job.is_few(checked):
        new = new.hint("broadcast")
    target = job.session.read.table(job.table).select(*map(quote, keys))
    for name, (least, greatest) in checked.bounds.items():
        target = target.where(f"{quote(name)} >= {least} AND {quote(name)} <= {greatest}")
    return _joined(target, new, keys, "left_semi")


def _find_otherwise(job: Job, checked: Checked) -> DataFrame:
    """The keys of which the whole says something else than the rows that have changed."""
    from pyspark.sql import functions as f

    assert job.change.again is not None
    columns = [f.col(quote(name)) for name in _keys(job)]
    goes = f.expr(f"int({is_delete()})")
    whole = align_rows(job, CHANGE_TYPE, rows=job.change.again(checked.rows.select(*columns)))
    both = whole.select(*columns, f.lit(1).alias(_TIMES), goes.alias(_GOES)).unionAll(
        checked.rows.select(*columns, f.lit(0), -goes)
    )
    counted = both.groupBy(*columns).agg(f.sum(_TIMES).alias(_TIMES), f.sum(_GOES).alias(_GOES))
    return counted.where(f"{_TIMES} <> 1 OR {_GOES} <> 0").select(*columns)


def _keys(job: Job) -> list[str]:
    """As the target spells them."""
    types = {column.name.casefold(): column.name for column in job.columns}
    return [types[name.casefold()] for name in job.output.key]


def _joined(rows: DataFrame, others: DataFrame, keys: Sequence[str], how: str) -> DataFrame:
    """The rows whose key is among the others' (`left_semi`), or is not (`left_anti`)."""
    from pyspark.sql import functions as f

    named = others.select(*(f.col(quote(name)).alias(f"{_OTHER}{at}") for at, name in enumerate(keys)))
    equal = (f.col(quote(name)) == f.col(f"{_OTHER}{at}") for at, name in enumerate(keys))
    return rows.join(named, reduce(lambda one, other: one & other, equal), how)
