"""What a batch does to its target: the transform over what moved, so that the law of the flow holds.

After every window the target of a `merge` flow equals its transform over the whole inputs at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
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
from tidegauge.model.mode import Mode
from tidegauge.model.protocols.source import ChangedInput
from tidegauge.model.types import quote as quoted
from tidegauge.transform.batch import Parts, evaluate_batch
from tidegauge.transform.difference import HERE, INSERT, by_key, by_partition, by_sides
from tidegauge.transform.faults import named, sentence, unheard
from tidegauge.transform.history import AFTER, at_end, by_version, ends, images, kinds
from tidegauge.transform.keys import found, lapsed, only

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
    keep: list[DataFrame] | None = None,
) -> DeltaChange:
    """`choice`: as `choose.chosen` has it, never `auto`. The session is the flow's own: views are made in it.

    What is used several times is held in memory and put into `keep`, to be let go after the commit; without
    a list it is computed each time. Raises TransformFailed for what the user has to mend, and Spark's own
    errors where a job fails that had to run already.
    """
    from pyspark.errors import AnalysisException

    parts = Parts(flow, inputs, session, keep)
    try:
        with unheard():
            return _change(parts, target, evaluate_batch(parts, choice))
    except AnalysisException as error:
        raise TransformFailed(
            f"{named(flow)}: {sentence(error)}",
            hint="run again with --debug for all that Spark says",
            detail=str(error),
        ) from error


def _change(parts: Parts, target: Callable[[], DataFrame] | None, choice: Evaluate) -> DeltaChange:
    match parts.flow.output.mode:
        case Mode.OVERWRITE:
            return DeltaChange(_present(parts.whole()), notes=tuple(parts.notes))
        case Mode.APPEND:
            rows, refused = _appended(parts, choice)
            return DeltaChange(rows, refused=refused, notes=tuple(parts.notes))
        case Mode.REPLACE_PARTITIONS:
            rows, touched = _replaced(parts, target, choice)
            return DeltaChange(rows, touched=touched, notes=tuple(parts.notes))
        case Mode.MERGE:
            rows = _raw(parts) if parts.raw else _merged(parts, target, choice)
            changed = DeltaChange(rows.drop(COMMIT_VERSION, COMMIT_TIMESTAMP), notes=tuple(parts.notes))
            if choice is not Evaluate.ROWS or parts.raw or parts.afresh or parts.proven:
                return changed
            return replace(changed, again=lambda keys: _of_keys(parts, keys), unsure=parts.pinned)
        case Mode.SCD2:
            return DeltaChange(_told(parts, target, choice), notes=tuple(parts.notes))


def _merged(parts: Parts, target: Callable[[], DataFrame] | None, choice: Evaluate) -> DataFrame:
    """Rows as they shall be, and keys that go."""
    from pyspark.sql import functions as F  # noqa: N812

    by = parts.by
    if parts.afresh or choice is Evaluate.WHOLE:
        return _differing(parts, target)
    if choice is Evaluate.ROWS:
        name, moved = parts.only.name, parts.inputs[parts.only.name]
        if moved.grows:
            return kinds(parts.over(parts.came(name)), otherwise=INSERT)
        if parts.flow.transform is None:
            both = moved.sides(HERE)
            parts.transform.check(both.drop(HERE))
        else:
            came, gone = parts.over(parts.came(name)), parts.over(parts.gone(name))
            both = came.withColumn(HERE, F.lit(True)).unionByName(gone.withColumn(HERE, F.lit(False)))
        # What was not what it is now while a pinned table was another one is to be written all the same.
        changed = by_sides(both, by, same=parts.pinned)
        if target is not None and (more := lapsed(parts, both)) is not None:
            return changed.unionByName(ends(more, changed, by))
        return changed
    touched = found(parts, by=by, choice=choice)
    return _differing(parts, target) if touched is None else _of_keys(parts, touched)


def _of_keys(parts: Parts, keys: DataFrame) -> DataFrame:
    """What the whole has under these keys, and a delete of each that it does not have."""
    rows = only(parts.whole(), keys, parts.by, how="left_semi")
    gone = only(keys, rows, parts.by, how="left_anti")
    return kinds(rows).unionByName(ends(gone, rows, parts.by))


def _differing(parts: Parts, target: Callable[[], DataFrame] | None) -> DataFrame:
    if target is None:
        return kinds(parts.whole())
    output = parts.flow.output
    there = target()
    if output.mode.facts.keeps_history:
        besides = (VALID_FROM, VALID_TO, IS_CURRENT, output.surrogate_key)
        there = there.where(quoted(IS_CURRENT)).drop(*(name for name in besides if name is not None))
    return by_key(parts.whole(), there, parts.by)


def _told(parts: Parts, target: Callable[[], DataFrame] | None, choice: Evaluate) -> DataFrame:
    """Events: each version's own where rows are followed one by one, else one step for the batch."""
    if parts.raw:
        rows = kinds(_without_before(parts.whole()))
        if {COMMIT_VERSION, COMMIT_TIMESTAMP} <= set(rows.columns):
            return rows
        return at_end(parts, rows.drop(COMMIT_VERSION, COMMIT_TIMESTAMP))
    if choice is Evaluate.ROWS and not parts.afresh:
        told = by_version(parts)
        if target is not None and (more := lapsed(parts, told)) is not None:
            plain = told.drop(COMMIT_VERSION, COMMIT_TIMESTAMP)
            return told.unionByName(at_end(parts, ends(more, plain, parts.by)))
        return told
    return at_end(parts, _merged(parts, target, choice))


def _raw(parts: Parts) -> DataFrame:
    """Of several rows with one key the last, as far as versions tell; a tie is the output's to refuse."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    rows = kinds(_without_before(parts.whole()))
    if COMMIT_VERSION not in rows.columns:
        return rows
    goes = F.col(CHANGE_TYPE) == DELETE
    # RESTORE and INSERT OVERWRITE delete and insert a key in one version: the insert is what is left.
    latest = Window.partitionBy(*(F.col(quoted(name)) for name in parts.by)).orderBy(
        F.col(COMMIT_VERSION).desc_nulls_last(), F.when(goes, 1).otherwise(0)
    )
    place, number = "__tidegauge_place", "__tidegauge_number"
    return (
        rows.withColumns({place: F.rank().over(latest), number: F.row_number().over(latest)})
        .where((F.col(place) == 1) & (~goes | (F.col(number) == 1)))
        .drop(place, number)
    )


def _appended(parts: Parts, choice: Evaluate) -> tuple[DataFrame, DataFrame | None]:
    """Every version's new rows, and the rows whose end the target cannot show."""
    from pyspark.sql import functions as F  # noqa: N812

    refused: list[DataFrame] = []
    if parts.raw or parts.afresh:
        rows = parts.whole()
    elif choice is not Evaluate.ROWS:
        raise TransformFailed(
            f"{named(parts.flow)} does not go row by row, and `append` cannot take back what it has written",
            hint="use mode: merge or replace_partitions",
            place=parts.flow.output.place,
        )
    elif parts.inputs[parts.only.name].grows:
        rows = parts.over(parts.came(parts.only.name))
    else:
        events = parts.events(parts.only.name)
        feed = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)
        rows = parts.over(images(events, AFTER).drop(*feed))
        refused.append(_present(parts.over(images(events, (DELETE,)).drop(*feed))))
    if CHANGE_TYPE in rows.columns:
        refused.append(rows.where(F.col(CHANGE_TYPE) == DELETE))
    if parts.flow.output.on_delete is OnDelete.IGNORE or not refused:
        return _present(_without_before(rows)), None
    first, *others = (frame.drop(CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP) for frame in refused)
    for other in others:
        first = first.unionByName(other)
    return _present(_without_before(rows)), first


def _replaced(
    parts: Parts, target: Callable[[], DataFrame] | None, choice: Evaluate
) -> tuple[DataFrame, DataFrame]:
    """All rows of the partitions that change, and which these are."""
    from pyspark.sql import functions as F  # noqa: N812

    by = parts.by
    rows = _present(_without_before(parts.whole()))
    touched = None
    if not (parts.raw or parts.afresh or choice is Evaluate.WHOLE):
        touched = found(parts, by=by, choice=choice)
    elif parts.raw:
        touched = parts.keep(parts.whole().select(*(F.col(quoted(name)) for name in by)).distinct())
        return rows, touched
    if touched is None and target is None:
        return rows, rows.select(*(F.col(quoted(name)) for name in by)).distinct()
    if touched is None and target is not None:
        touched = parts.keep(by_partition(rows, target(), by))
    assert touched is not None
    return only(rows, touched, by, how="left_semi"), touched


def _present(rows: DataFrame) -> DataFrame:
    """Without rows that the transform says are deleted, and without the feed's columns."""
    from pyspark.sql import functions as F  # noqa: N812

    if CHANGE_TYPE in rows.columns:
        rows = rows.where(~F.col(CHANGE_TYPE).eqNullSafe(DELETE))
    return rows.drop(CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)


def _without_before(rows: DataFrame) -> DataFrame:
    """A raw feed also has rows as they were."""
    from pyspark.sql import functions as F  # noqa: N812

    if CHANGE_TYPE not in rows.columns:
        return rows
    return rows.where(~F.col(CHANGE_TYPE).eqNullSafe(_BEFORE))
