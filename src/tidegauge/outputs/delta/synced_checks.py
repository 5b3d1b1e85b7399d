"""Checks the rows of a table's batch on their way into a Delta table, by marks for the expectations that
each row fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegauge.model.batch_data import CheckedRows, DeltaChange, Verdict
from tidegauge.model.delta_flow import CHANGE_TYPE, DELETE
from tidegauge.model.expectation import CheckCount, Expectation, Fresh, RowCount, Unique
from tidegauge.model.marks import FAILED, ROW, FailedCheckBits, count_rows, count_stale
from tidegauge.model.plan import Batch, Tag
from tidegauge.model.types import quote
from tidegauge.outputs.delta.quarantine import Quarantine

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_SHOWN = 300


def checked_change(
    flow: str,
    checked: CheckedRows,
    marked: DataFrame,
    key: Sequence[str],
    count_repeated: Callable[[DataFrame], tuple[CheckCount, ...]],
) -> DeltaChange:
    """The change with the rows that are written. With a key, a row that is dropped or set aside deletes its
    key from the target."""
    from pyspark.sql import functions as f

    marks = FailedCheckBits.of(checked.expect)
    # Computed once: the rows that are counted, set aside and written have to be the same, and the source may
    # change in between.
    held = marked.localCheckpoint(eager=False)
    aside = f.col(FAILED) >= marks.dropped_from
    if key:
        there = [f.col(quote(name)).isNotNull() for name in key]
        rows = held.withColumn(CHANGE_TYPE, f.when(aside, f.lit(DELETE)).otherwise(f.lit("update_postimage")))
        for one in there:
            rows = rows.where(~aside | one)
    else:
        rows = held.where(~aside)
    unique = any(isinstance(one.rule, Unique) for one in checked.expect)
    return DeltaChange(
        rows.drop(FAILED, ROW),
        judge=lambda: _judge(flow, checked.expect, marks, held),
        count_repeated=count_repeated if unique else None,
        cached=(held,),
    )


def begin_anew(change: DeltaChange) -> DeltaChange:
    """The change as the first batch after a full refresh: all rows of the flow that were set aside before are
    removed from quarantine."""
    judge = change.judge
    if judge is None:
        return change

    def judge_whole() -> Verdict | None:
        verdict = judge()
        return None if verdict is None else replace(verdict, whole=True)

    return replace(change, judge=judge_whole)


class SyncedQuarantine(Quarantine):
    """The quarantine of a target with one row for each key: a row that is read again is in it only once."""

    every_time = False
    """Whether every batch may bring rows that an earlier batch has brought."""

    def put(self, session: SparkSession, verdict: Verdict, tag: Tag, batch: Batch, run_id: str) -> None:
        super().put(session, verdict, tag, batch, run_id)
        if verdict.aside is not None and (batch.rereads or batch.nulls or tag.epoch > 0 or self.every_time):
            self.forget_others(session, verdict.aside, tag)


def _judge(flow: str, expect: Sequence[Expectation], marks: FailedCheckBits, held: DataFrame) -> Verdict:
    from pyspark.sql import functions as f

    fresh = [one for one in expect if isinstance(one.rule, Fresh)]
    kept = f.col(FAILED) < marks.dropped_from
    stale = [_is_stale(held, one).alias(f"stale{at}") for at, one in enumerate(fresh)]
    counted = {int(one[0]): int(one[1]) for one in held.groupBy(FAILED).agg(f.count(f.lit(1))).collect()}

    def show(bit: int) -> str | None:
        masks = [mask for mask in counted if mask & bit]
        found = held.where(f.col(FAILED).isin(masks)).select(ROW).limit(1).collect()
        return str(found[0][0])[:_SHOWN] if found else None

    checks = marks.judge(flow, counted, show)
    more = [count_rows(flow, one, checks.passed) for one in expect if isinstance(one.rule, RowCount)]
    if fresh:
        facts = held.where(kept).agg(*stale).collect()[0]
        more += [count_stale(flow, one, stale=bool(facts[at])) for at, one in enumerate(fresh)]
    put_aside = None
    if checks.quarantined:
        names = (
            f.when(f.col(FAILED).bitwiseAND(f.lit(1 << at).cast("bigint")) != 0, f.lit(one.name))
            for at, one in enumerate(marks.checks)
        )
        put_aside = held.where(f.col(FAILED) >= marks.quarantined_from).select(
            f.col(ROW).alias("row"), f.array_compact(f.array(*names)).alias("_reasons")
        )
    return Verdict(checks.and_also(more), put_aside, whole=False)


def _is_stale(held: DataFrame, one: Expectation) -> Column:
    from pyspark.sql import functions as f

    assert isinstance(one.rule, Fresh)
    name = next(name for name in held.columns if name.casefold() == one.rule.column.casefold())
    newest = f.max(f.col(quote(name)).cast("timestamp"))
    seconds = f.lit(one.rule.within.total_seconds())
    return newest < f.current_timestamp() - f.make_dt_interval(secs=seconds)
