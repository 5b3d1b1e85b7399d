"""Evaluates a batch: applies the transform to what has changed, so that the law of the flow holds.

After every window the target of a `merge` flow equals its transform over the whole inputs at that point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tidegauge.errors import TransformFailed
from tidegauge.model.batch_data import DeltaChange
from tidegauge.model.delta_flow import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    DELETE,
    IS_CURRENT,
    VALID_FROM,
    VALID_TO,
    DeltaFlow,
    Evaluate,
    OnDelete,
)
from tidegauge.model.expectation import CheckCount, Unique
from tidegauge.model.mode import Mode
from tidegauge.model.protocols.source import ChangedInput
from tidegauge.model.types import quote
from tidegauge.transform.batch import BatchInputs, check_choice
from tidegauge.transform.difference import (
    HERE,
    INSERT,
    diff_by_key,
    diff_by_sides,
    filter_by_keys,
    find_changed_partitions,
)
from tidegauge.transform.faults import (
    explain_analysis,
    name_transform,
)
from tidegauge.transform.judge import count_repeated
from tidegauge.transform.keys import find_lost_keys, find_touched_keys
from tidegauge.transform.scd2_events import (
    AFTER,
    add_change_type,
    follow_versions,
    make_deletes,
    select_kinds,
    stamp_with_end,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BEFORE = "update_preimage"


def evaluate_change(
    flow: DeltaFlow,
    inputs: Mapping[str, ChangedInput],
    session: SparkSession,
    target: Callable[[], DataFrame] | None,
    choice: Evaluate,
    *,
    cached: list[DataFrame] | None = None,
    guarded: bool = False,
    small: bool = False,
) -> DeltaChange:
    """Compute what a batch changes in its target. `target` is None where the target does not exist yet.

    `choice` comes from `choose_evaluation` and is never `auto`. The session is the flow's own: views are
    created in it. Frames that are used several times are cached in memory and added to `cached`, for the
    caller to release after the commit; without a list they are computed each time. `small` says that all
    input is small, so frames that are cached are computed at once. `guarded`: see `DeltaChange`. Raises
    TransformFailed for errors that the user has to fix, and Spark's own errors where a job fails that had to
    run already.
    """
    batch = BatchInputs(flow, inputs, session, cached, guarded=guarded, small=small)
    with explain_analysis(flow):
        change = add_checks(batch, _change(batch, target, check_choice(batch, choice)), target)
        return replace(change, whole=batch.compared_whole)


def add_checks(
    batch: BatchInputs, change: DeltaChange, target: Callable[[], DataFrame] | None
) -> DeltaChange:
    """Add the checks of the flow's expectations to a change."""
    flow = batch.flow
    if not flow.expect:
        return change
    again = None
    if any(isinstance(one.rule, Unique) for one in flow.expect):

        def again(rows: DataFrame) -> tuple[CheckCount, ...]:
            return count_repeated(flow, rows, None if target is None else target(), change.touched)

    judge = partial(batch.expectation_filter.judge, whole=batch.compared_whole)
    return replace(change, judge=judge, guarded=batch.expectation_filter.guarded, count_repeated=again)


def _change(batch: BatchInputs, target: Callable[[], DataFrame] | None, choice: Evaluate) -> DeltaChange:
    match batch.flow.output.mode:
        case Mode.OVERWRITE:
            batch.compared_whole = True
            return DeltaChange(
                batch.expectation_filter.filter_and_count(drop_deletes(batch.whole())),
                notes=tuple(batch.notes),
            )
        case Mode.APPEND:
            rows, refused = find_appended(batch, choice)
            return DeltaChange(
                batch.expectation_filter.filter_and_count(rows), refused=refused, notes=tuple(batch.notes)
            )
        case Mode.REPLACE_PARTITIONS:
            rows, touched = _replace_partitions(batch, target, choice)
            return DeltaChange(rows, touched=touched, notes=tuple(batch.notes))
        case Mode.MERGE:
            rows = _keep_last(batch) if batch.raw else _merge(batch, target, choice)
            changed = DeltaChange(rows.drop(COMMIT_VERSION, COMMIT_TIMESTAMP), notes=tuple(batch.notes))
            if choice is not Evaluate.ROWS or batch.raw or batch.afresh or batch.proven:
                return changed
            return replace(
                changed, recompute_keys=lambda keys: _find_again(batch, keys), recompute_all_keys=batch.pinned
            )
        case Mode.SCD2:
            return DeltaChange(_make_events(batch, target, choice), notes=tuple(batch.notes))


def _merge(batch: BatchInputs, target: Callable[[], DataFrame] | None, choice: Evaluate) -> DataFrame:
    """The rows to merge into the target, and deletes of keys that are gone."""
    from pyspark.sql import functions as F  # noqa: N812

    by = batch.by
    if batch.afresh or choice is Evaluate.WHOLE:
        return _compare_whole(batch, target)
    if choice is Evaluate.ROWS:
        name, moved = batch.only.name, batch.inputs[batch.only.name]
        if moved.grows:
            return add_change_type(
                batch.expectation_filter.filter_and_count(batch.apply(batch.came(name))), otherwise=INSERT
            )
        if batch.flow.transform is None:
            both = moved.sides(HERE)
            batch.transform.check(both.drop(HERE))
        else:
            came, gone = batch.apply(batch.came(name)), batch.apply(batch.gone(name))
            both = came.withColumn(HERE, F.lit(True)).unionByName(gone.withColumn(HERE, F.lit(False)))
        both = batch.expectation_filter.filter_and_count(both)
        # The target's row may come from an earlier version of a pinned table, and differ: so a row is written
        # even if both sides of its change give the same now.
        changed = diff_by_sides(both, by, same=batch.pinned)
        if target is not None and (more := find_lost_keys(batch, both)) is not None:
            return changed.unionByName(make_deletes(more, changed, by))
        return changed
    touched = find_touched_keys(batch, by=by, choice=choice)
    return _compare_whole(batch, target) if touched is None else _recompute_keys(batch, touched)


def _recompute_keys(batch: BatchInputs, keys: DataFrame) -> DataFrame:
    """The rows that the whole result has under these keys, and a delete of each key that it does not have."""
    rows = batch.expectation_filter.filter_and_count(
        filter_by_keys(batch.whole(), keys, batch.by, how="left_semi")
    )
    return _with_deletes(batch, rows, keys)


def _find_again(batch: BatchInputs, keys: DataFrame) -> DataFrame:
    """As `_recompute_keys`, for keys whose rows the expectations have already counted."""
    rows = batch.expectation_filter.filter(filter_by_keys(batch.whole(), keys, batch.by, how="left_semi"))
    return _with_deletes(batch, rows, keys)


def _with_deletes(batch: BatchInputs, rows: DataFrame, keys: DataFrame) -> DataFrame:
    gone = filter_by_keys(keys, rows, batch.by, how="left_anti")
    return add_change_type(rows).unionByName(make_deletes(gone, rows, batch.by))


def _compare_whole(batch: BatchInputs, target: Callable[[], DataFrame] | None) -> DataFrame:
    """What differs between the whole result and the target."""
    whole = batch.expectation_filter.filter_and_count(batch.whole())
    batch.compared_whole = True
    if target is None:
        return add_change_type(whole)
    output = batch.flow.output
    there = target()
    if output.mode.facts.keeps_history:
        besides = (VALID_FROM, VALID_TO, IS_CURRENT, output.surrogate_key)
        there = there.where(quote(IS_CURRENT)).drop(*(name for name in besides if name is not None))
    return diff_by_key(whole, there, batch.by)


def _make_events(batch: BatchInputs, target: Callable[[], DataFrame] | None, choice: Evaluate) -> DataFrame:
    """Events for a history, dated by their own versions where rows are followed, else by the batch's end."""
    if batch.raw:
        rows = add_change_type(batch.expectation_filter.filter_and_count(_drop_preimages(batch.whole())))
        if {COMMIT_VERSION, COMMIT_TIMESTAMP} <= set(rows.columns):
            return rows
        return stamp_with_end(batch, rows.drop(COMMIT_VERSION, COMMIT_TIMESTAMP))
    if choice is Evaluate.ROWS and not batch.afresh:
        events = follow_versions(batch)
        if target is not None and (more := find_lost_keys(batch, events)) is not None:
            plain = events.drop(COMMIT_VERSION, COMMIT_TIMESTAMP)
            return events.unionByName(stamp_with_end(batch, make_deletes(more, plain, batch.by)))
        return events
    return stamp_with_end(batch, _merge(batch, target, choice))


def _keep_last(batch: BatchInputs) -> DataFrame:
    """Keep the last row of each key by version; several rows of one version stay: the output refuses them."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    rows = add_change_type(batch.expectation_filter.filter_and_count(_drop_preimages(batch.whole())))
    if COMMIT_VERSION not in rows.columns:
        return rows
    goes = F.col(CHANGE_TYPE) == DELETE
    # RESTORE and INSERT OVERWRITE delete and insert a key in one version: then the insert wins.
    latest = Window.partitionBy(*(F.col(quote(name)) for name in batch.by)).orderBy(
        F.col(COMMIT_VERSION).desc_nulls_last(), F.when(goes, 1).otherwise(0)
    )
    place, number = "__tidegauge_place", "__tidegauge_number"
    return (
        rows.withColumns({place: F.rank().over(latest), number: F.row_number().over(latest)})
        .where((F.col(place) == 1) & (~goes | (F.col(number) == 1)))
        .drop(place, number)
    )


def find_appended(batch: BatchInputs, choice: Evaluate) -> tuple[DataFrame, DataFrame | None]:
    """The new rows of every version, and the deleted rows, which a target that only grows has to refuse; None
    in their place where there can be none, or the flow ignores them."""
    from pyspark.sql import functions as F  # noqa: N812

    refused: list[DataFrame] = []
    if batch.raw or batch.afresh:
        rows = batch.whole()
    elif choice is not Evaluate.ROWS:
        raise TransformFailed(
            f"{name_transform(batch.flow)} does not go row by row, and `append` cannot take back what it has"
            " written",
            hint="use mode: merge or replace_partitions",
            place=batch.flow.output.place,
        )
    elif batch.inputs[batch.only.name].grows:
        rows = batch.apply(batch.came(batch.only.name))
    else:
        events = batch.events(batch.only.name)
        feed = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)
        rows = batch.apply(select_kinds(events, AFTER).drop(*feed))
        gone = batch.apply(select_kinds(events, (DELETE,)).drop(*feed))
        refused.append(drop_deletes(batch.expectation_filter.filter(gone)))
    if CHANGE_TYPE in rows.columns:
        refused.append(rows.where(F.col(CHANGE_TYPE) == DELETE))
    if batch.flow.output.on_delete is OnDelete.IGNORE or not refused:
        return drop_deletes(_drop_preimages(rows)), None
    first, *others = (frame.drop(CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP) for frame in refused)
    for other in others:
        first = first.unionByName(other)
    return drop_deletes(_drop_preimages(rows)), first


def _replace_partitions(
    batch: BatchInputs, target: Callable[[], DataFrame] | None, choice: Evaluate
) -> tuple[DataFrame, DataFrame]:
    """All rows of the partitions that change, and the values of these partitions."""
    from pyspark.sql import functions as F  # noqa: N812

    by, sift = batch.by, batch.expectation_filter.filter_and_count
    every = drop_deletes(_drop_preimages(batch.whole()))
    touched = None
    if not (batch.raw or batch.afresh or choice is Evaluate.WHOLE):
        touched = find_touched_keys(batch, by=by, choice=choice)
    elif batch.raw:
        touched = batch.cache(batch.whole().select(*(F.col(quote(name)) for name in by)).distinct())
        return sift(every), touched
    if touched is None:
        batch.compared_whole = True
        every = sift(every)  # rows of unchanged partitions too, because the expectations may be new
        if target is None:
            return every, every.select(*(F.col(quote(name)) for name in by)).distinct()
        touched = batch.cache(find_changed_partitions(every, target(), by))
        return filter_by_keys(every, touched, by, how="left_semi"), touched
    return sift(filter_by_keys(every, touched, by, how="left_semi")), touched


def drop_deletes(rows: DataFrame) -> DataFrame:
    """Drop the rows that the transform marks as deleted, and the columns of the change feed."""
    from pyspark.sql import functions as F  # noqa: N812

    if CHANGE_TYPE in rows.columns:
        rows = rows.where(~F.col(CHANGE_TYPE).eqNullSafe(DELETE))
    return rows.drop(CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)


def _drop_preimages(rows: DataFrame) -> DataFrame:
    """Drop the rows as they were before an update, which a raw feed also has."""
    from pyspark.sql import functions as F  # noqa: N812

    if CHANGE_TYPE not in rows.columns:
        return rows
    return rows.where(~F.col(CHANGE_TYPE).eqNullSafe(_BEFORE))
