"""The commit of a batch in each mode: without Spark where target and change are small, else with it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegauge.errors import OutputError, TransformFailed
from tidegauge.model.batch_data import DeltaChange
from tidegauge.model.delta_flow import CHANGE_TYPE, DELETE, DeltaTable
from tidegauge.model.mode import Mode
from tidegauge.model.plan import Tag
from tidegauge.model.types import quote
from tidegauge.outputs.delta.commit import tag_commits
from tidegauge.outputs.delta.conflicts import CommitOvertaken
from tidegauge.outputs.delta.kept_events import EventsEpoch
from tidegauge.outputs.delta.small_target import FewRows, SmallTarget
from tidegauge.outputs.delta.target import FEED_COLUMNS, DeltaColumn, TargetColumn
from tidegauge.outputs.delta.types import as_sql, bare, has_float, has_map, literal

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

Partitions = tuple[tuple[str | None, ...], ...]
_SMALL = 400_000
"""The most values (rows times columns) of a change that is broadcast to every task, so that the target need
not be sorted by its key."""


@dataclass(frozen=True)
class DeltaWrite:
    session: SparkSession
    flow: str
    table: str
    """The target's name in SQL."""
    location: str
    output: DeltaTable
    change: DeltaChange
    columns: tuple[DeltaColumn, ...]
    """The columns that are written."""
    partition_by: tuple[str, ...]
    """Partition columns of the target table."""
    empty: bool
    """Whether the target has no rows."""
    tag: Tag
    events_epoch: EventsEpoch
    """`scd2`: which kept events count for this batch."""
    said: str = ""
    """The note that goes into the commit's `userMetadata`, as JSON."""
    vanished: tuple[str, ...] = ()
    """See `target.TargetAlterations.vanished`."""
    small: SmallTarget | None = None
    """Set where target and inputs are small: then a change that is small too is committed without Spark."""

    def is_few(self, checked: CheckedChange) -> bool:
        """Whether the change is known to be small enough to be broadcast to every task."""
        return checked.read is not None and checked.read * len(self.columns) <= _SMALL


@dataclass(frozen=True)
class CheckedChange:
    """A change that was checked, with all that its commit and the commit's note need to know of it."""

    rows: DataFrame
    read: int | None = None
    """How many rows the change has, deletes included; None: not counted."""
    deletes: int | None = None
    """How many of them are deletes; None: not counted."""
    few: FewRows | None = None
    """`merge` into a small target: what the commit does."""
    bounds: dict[str, str] = field(default_factory=dict)
    """Between which values, as SQL, each key column lies by which files can be skipped."""
    touched: Partitions = ()
    """`replace_partitions`: the partitions that are written anew."""
    held: DataFrame | None = None
    """A frame that is kept in memory until the batch has ended."""


def check(job: DeltaWrite) -> CheckedChange:
    """Check the change for the output's mode. What can be refused is refused here, before any commit."""
    match job.output.mode:
        case Mode.MERGE:
            from tidegauge.outputs.delta.keys import check_keys

            return check_keys(job)
        case Mode.REPLACE_PARTITIONS:
            return CheckedChange(align_rows(job), touched=_find_touched(job))
        case Mode.APPEND:
            _check_refused(job)
            return CheckedChange(align_rows(job))
        case Mode.OVERWRITE:
            return CheckedChange(align_rows(job))
        case Mode.SCD2:
            return CheckedChange(align_rows(job, *FEED_COLUMNS))


def is_idle(job: DeltaWrite, checked: CheckedChange) -> bool:
    """Whether the batch changes nothing, so that its commit has the tag only."""
    match job.output.mode:
        case Mode.MERGE:
            return checked.read == 0 if checked.few is None else checked.few.is_idle
        case Mode.REPLACE_PARTITIONS:
            return not checked.touched
        case Mode.APPEND | Mode.OVERWRITE | Mode.SCD2:
            return False


def apply(job: DeltaWrite, checked: CheckedChange) -> None:
    """Make one commit with the tag, also where nothing changes. Raises CommitOvertaken, or Delta's own."""
    if job.small is not None:
        from tidegauge.outputs.delta.small_modes import find_few

        few = find_few(job, job.small, checked)
        if few is not None:
            if not job.small.commit(job.tag, job.said, few):
                raise CommitOvertaken
            return
    with tag_commits(job.session, job.tag, job.said):
        _apply_by_spark(job, checked)


def _apply_by_spark(job: DeltaWrite, checked: CheckedChange) -> None:
    match job.output.mode:
        case Mode.APPEND:
            _append(job, checked.rows)
        case Mode.OVERWRITE:
            _overwrite(job, checked.rows, None)
        case Mode.REPLACE_PARTITIONS:
            if is_idle(job, checked):
                _append(job, no_rows(job.session, job.columns))
            else:
                _overwrite(job, checked.rows, _make_partition_condition(job, checked.touched))
        case Mode.MERGE:
            if is_idle(job, checked):
                _append(job, no_rows(job.session, job.columns))
            elif job.empty:
                _append(job, checked.rows.where(f"NOT ({is_delete()})").drop(CHANGE_TYPE))
            else:
                _merge(job, checked)
        case Mode.SCD2:
            from tidegauge.outputs.delta.scd2 import apply_scd2

            apply_scd2(job.session, job.table, job.location, checked.rows, job.output, job.events_epoch)


def align_rows(job: DeltaWrite, *besides: str, rows: DataFrame | None = None) -> DataFrame:
    """The rows with the target's own names and types, in its order. `besides`: columns of the change feed
    that are kept, if the rows have them. `rows`: instead of the rows of the change.
    """
    from pyspark.sql import functions as f

    frame = job.change.rows if rows is None else rows
    here = {one.name.casefold(): one for one in frame.schema.fields}
    chosen: list[Expression] = []
    for column in job.columns:
        given = here.get(column.source.casefold())
        if given is None:
            continue  # a column that scd2 fills by itself
        value = f.col(quote(given.name))
        if bare(given.dataType.jsonValue()) != column.type:
            value = value.cast(as_sql(column.type))
        chosen.append(value.alias(column.name))
    chosen += [f.col(quote(here[name].name)).alias(name) for name in besides if name in here]
    return frame.select(*chosen)


def no_rows(session: SparkSession, columns: Iterable[DeltaColumn | TargetColumn]) -> DataFrame:
    """An empty frame that Spark knows to be empty, so that it writes no file for it."""
    nulls = ", ".join(f"CAST(NULL AS {as_sql(one.type)}) AS {quote(one.name)}" for one in columns)
    return session.sql(f"SELECT {nulls} WHERE false")


def _append(job: DeltaWrite, rows: DataFrame) -> None:
    rows.write.format("delta").mode("append").save(job.location)


def _overwrite(job: DeltaWrite, rows: DataFrame, predicate: str | None) -> None:
    writer = rows.write.format("delta").mode("overwrite").option("partitionOverwriteMode", "static")
    if predicate is not None:
        writer = writer.option("replaceWhere", predicate)
    writer.save(job.location)


def _merge(job: DeltaWrite, checked: CheckedChange) -> None:
    output, view = job.output, f"tidegauge_{uuid.uuid4().hex}"
    keys = {name.casefold() for name in output.key}
    others = [column for column in job.columns if column.name.casefold() not in keys]
    on = [f"t.{quote(name)} = s.{quote(name)}" for name in output.key]
    on += [f"t.{quote(name)} BETWEEN {ends}" for name, ends in checked.bounds.items()]
    clauses = []
    if checked.deletes:
        clauses.append(f"WHEN MATCHED AND {is_delete('s')}{_guard_sql(output, delete=True)} THEN DELETE")
    if checked.deletes != checked.read:
        stays = f"NOT ({is_delete('s')})"
        if others:
            differs = differs_sql(others)
            sets = [f"{quote(column.name)} = s.{quote(column.name)}" for column in others]
            assigned = ", ".join([*sets, *(f"{quote(name)} = NULL" for name in job.vanished)])
            clauses.append(
                f"WHEN MATCHED AND {stays} AND ({differs}){_guard_sql(output)} THEN UPDATE SET {assigned}"
            )
        names = ", ".join(quote(column.name) for column in job.columns)
        values = ", ".join(f"s.{quote(column.name)}" for column in job.columns)
        clauses.append(f"WHEN NOT MATCHED AND {stays} THEN INSERT ({names}) VALUES ({values})")
    rows = checked.rows
    if job.is_few(checked):
        # Spark's estimate for the output of a transform is mostly far too high for a broadcast.
        rows = rows.hint("broadcast")
    rows.createOrReplaceTempView(view)
    try:
        job.session.sql(
            f"MERGE INTO {job.table} AS t USING {view} AS s ON {' AND '.join(on)} {' '.join(clauses)}"
        )
    finally:
        job.session.catalog.dropTempView(view)


def is_delete(alias: str | None = None) -> str:
    return f"{f'{alias}.' if alias else ''}{CHANGE_TYPE} <=> '{DELETE}'"


def differs_sql(columns: Iterable[DeltaColumn]) -> str:
    """A SQL condition: whether the incoming row `s` differs from the target's row `t`."""
    return " OR ".join(map(_differs, columns))


def _differs(column: DeltaColumn) -> str:
    one, other = f"t.{quote(column.name)}", f"s.{quote(column.name)}"
    if has_map(column.type) or has_float(column.type):
        # Equal maps may have their entries in another order: then the row is updated without need.
        one, other = f"to_json(struct({one}))", f"to_json(struct({other}))"
    return f"NOT ({one} <=> {other})"


def _guard_sql(output: DeltaTable, *, delete: bool = False) -> str:
    """A SQL condition by which an older event never overwrites a newer one; a delete without a sequence value
    counts as new."""
    if output.sequence_by is None:
        return ""
    name = quote(output.sequence_by)
    unless = f"s.{name} IS NULL OR " if delete else ""
    return f" AND ({unless}t.{name} IS NULL OR s.{name} >= t.{name})"


def _check_refused(job: DeltaWrite) -> None:
    refused = job.change.refused
    if refused is None:
        return
    found = refused.limit(1).selectExpr("to_json(struct(*))").collect()
    if found:
        raise OutputError(
            f"a row was deleted at the source, and {job.output.table} only grows: {str(found[0][0])[:200]}",
            hint="set `on_delete: ignore` to keep what was appended, or use mode: merge",
        )


def _find_touched(job: DeltaWrite) -> Partitions:
    """The partitions to be written anew, each with its values as text."""
    from pyspark.sql import functions as f

    assert job.change.touched is not None
    types = {column.name.casefold(): column.type for column in job.columns}
    names = list(job.partition_by)
    texts = [f.col(quote(name)).cast(as_sql(types[name.casefold()])).cast("string") for name in names]
    found = job.change.touched.select(*texts).distinct().collect()
    for row in found:
        for name, value in zip(names, row, strict=True):
            if value == "" and types[name.casefold()] == "string":
                raise TransformFailed(
                    f"the partition column {name} of {job.output.table} is an empty text, which Delta keeps"
                    " as NULL",
                    hint=f"let the transform say nullif({name}, '')",
                )
    return tuple(tuple(row) for row in found)


def _make_partition_condition(job: DeltaWrite, touched: Partitions) -> str:
    """A SQL condition for the target's rows in these partitions."""
    types = {column.name.casefold(): column.type for column in job.columns}
    names = list(job.partition_by)
    groups: dict[tuple[Any, ...], list[str | None]] = {}
    for values in touched:
        groups.setdefault(values[:-1], []).append(values[-1])
    parts = []
    for first, last in groups.items():
        said = [
            _is_value_sql(name, value, types[name.casefold()])
            for name, value in zip(names, first, strict=False)
        ]
        said.append(_is_among_sql(names[-1], last, types[names[-1].casefold()]))
        parts.append(" AND ".join(f"({one})" for one in said))
    return " OR ".join(f"({part})" for part in parts)


def _is_value_sql(name: str, value: str | None, type_: str) -> str:
    return f"{quote(name)} IS NULL" if value is None else f"{quote(name)} = {literal(value, type_)}"


def _is_among_sql(name: str, values: list[str | None], type_: str) -> str:
    known = [literal(value, type_) for value in values if value is not None]
    said = [f"{quote(name)} IN ({', '.join(known)})"] if known else []
    if None in values:
        said.append(f"{quote(name)} IS NULL")
    return " OR ".join(said)
