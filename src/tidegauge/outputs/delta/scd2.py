"""Histories in a Delta table (scd2): every change of a key is a row with its interval.

The module `history` defines what the history of a key is. Only the keys of the batch are read, with their
events in `kept_events`; only rows that differ are written, in one MERGE, which is the table's only commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.errors import KeyUnsuitable, TransformFailed
from tidegauge.model.delta_flow import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    DELETE,
    IS_CURRENT,
    VALID_FROM,
    VALID_TO,
    DeltaTable,
)
from tidegauge.model.types import quote
from tidegauge.outputs.delta.events import (
    GONE,
    UPSERT,
    EventColumns,
    as_kept_events,
    batch_events,
    history_events,
    to_keep,
    without_replaced,
)
from tidegauge.outputs.delta.history import rebuild
from tidegauge.outputs.delta.kept_events import EventsEpoch, keep, read_kept
from tidegauge.outputs.delta.modes import no_rows
from tidegauge.outputs.delta.spans import (
    filter_between,
    list_conditions,
    select_extremes,
)
from tidegauge.outputs.delta.target import TargetColumn
from tidegauge.outputs.delta.types import bare

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession
    from pyspark.sql.types import DataType, StructField, StructType

_FEED = {CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP}
_VIEW = "tidegauge_scd2"
_FEW = 200_000
"""Up to this many events, their keys are broadcast to pick the history's rows of these keys."""
_ROWS_PER_FILE = 500_000


def added_columns(schema: StructType, output: DeltaTable) -> list[StructField]:
    """The columns, in order, that the table has besides those of these rows.

    Raises TransformFailed where the rows have such a column already, or lack the key, the sequence or a
    tracked column. A sequence column that is named `valid_from` serves as that column.
    """
    from pyspark.sql.types import BooleanType, StringType, StructField

    here = {field.name.casefold(): field for field in schema.fields}
    sequence = output.sequence_by or ""
    for name in (*output.key, sequence, *output.track):
        if name.casefold() not in here:
            raise TransformFailed(
                f"the rows for {output.table} have no column {name!r}, which the output names",
                hint="let the transform return it, or name another column under `output`",
            )
    moment = here[sequence.casefold()].dataType
    added = [
        StructField(VALID_FROM, moment),
        StructField(VALID_TO, moment),
        StructField(IS_CURRENT, BooleanType()),
    ]
    if output.surrogate_key is not None:
        added.append(StructField(output.surrogate_key, StringType()))
    if sequence.casefold() == VALID_FROM:
        del added[0]
    for field in added:
        if field.name.casefold() in here:
            raise TransformFailed(
                f"the rows for {output.table} have a column {field.name!r}, which scd2 adds by itself",
                hint="leave it out of the transform's result, or give it another name there",
            )
    return added


def apply_scd2(
    session: SparkSession,
    table: str,
    location: str,
    rows: DataFrame,
    output: DeltaTable,
    events_epoch: EventsEpoch | None = None,
) -> None:
    """Bring these events into the history, in one commit with the session's tag, also if nothing differs.

    `table` is the SQL name of an existing table, with the columns of `rows` and `added_columns`. Nothing is
    written when an event is unsuitable: raises KeyUnsuitable for a NULL in the key, TransformFailed for an
    event without a sequence value. The same events again, among any others and in any order, change nothing.
    """
    target = session.table(table)
    shape = shape_of(target, rows, output)
    # Computed once and never again, as Delta does with a MERGE's source. A plan that reads the target and is
    # only cached would be computed anew as soon as the target has changed.
    events = batch_events(rows, shape).localCheckpoint(eager=False)
    stats = check_events(events, shape, output)
    if not stats["events"]:
        _commit_nothing(session, table, target)
        return
    touched = events.select(*shape.keys)
    if stats["events"] <= _FEW:
        touched = touched.hint("broadcast")
    known = history_events(filter_between(target, shape, stats), shape)
    beside = read_kept(session, location, events_epoch)
    if beside is not None:
        beside = as_kept_events(filter_between(beside, shape, stats), shape)
        known = known.unionByName(beside, allowMissingColumns=True)
    known = known.join(touched, shape.keys, "left_semi")
    # All that follows is by key, so that the rows are shuffled once.
    events = known.unionByName(events, allowMissingColumns=True).repartition(*shape.keys)
    if stats["gone"]:
        events = without_replaced(events, shape)
    history = rebuild(events, shape).where("op IS NOT NULL OR keep IS NOT NULL").localCheckpoint(eager=False)
    todo = _count_todo(history, shape)
    if todo["keeps"]:
        files = 1 + todo["keeps"] // _ROWS_PER_FILE
        keep(session, location, to_keep(history, shape), events_epoch, files=files)
    if todo["ops"]:
        _merge(session, table, history.where("op IS NOT NULL"), shape, output, todo)
    else:
        _commit_nothing(session, table, target)


def shape_of(target: DataFrame, rows: DataFrame, output: DeltaTable) -> EventColumns:
    """The event columns of a history. Raises TransformFailed where the rows have a column that the table does
    not have."""
    added = {field.name.casefold() for field in added_columns(rows.schema, output)}
    fields = tuple(field for field in target.schema.fields if field.name.casefold() not in added)
    places = {field.name.casefold(): place for place, field in enumerate(fields)}
    for name in rows.columns:
        if name.casefold() not in places and name not in _FEED:
            raise TransformFailed(
                f"the rows for {output.table} have a column {name!r} that the table does not have",
                hint="let the output evolve (`drift: evolve`), or leave the column out",
            )
    return EventColumns(
        fields,
        key=tuple(places[name.casefold()] for name in output.key),
        sequence=places[str(output.sequence_by).casefold()],
        track=tuple(places[name.casefold()] for name in output.track),
    )


def check_events(events: DataFrame, shape: EventColumns, output: DeltaTable) -> Row:
    """Counts and extremes of the events, found in one pass. Raises where an event is unsuitable."""
    from pyspark.sql import functions as F  # noqa: N812

    no_key = F.expr(" OR ".join(f"{name} IS NULL" for name in shape.keys))
    no_sequence = (F.col("kind") == UPSERT) & F.col("s").isNull()
    gone = F.col("kind") == GONE
    stats = _first(
        events.agg(
            F.count("*").alias("events"),
            F.count_if(no_key).alias("no_key"),
            F.count_if(no_sequence).alias("no_sequence"),
            F.count_if(gone).alias("gone"),
            F.count_if(gone & F.col("at").isNull()).alias("no_time"),
            *select_extremes(shape),
        )
    )
    if stats["no_key"]:
        raise KeyUnsuitable(
            f"{stats['no_key']} rows for {output.table} have NULL in the key"
            f" ({', '.join(output.key)}), for example {_show_example(events.where(no_key), shape)}",
            hint="let the transform leave such rows out or fill the key, or choose another key",
        )
    if stats["no_sequence"]:
        raise TransformFailed(
            f"{stats['no_sequence']} rows for {output.table} have NULL in {output.sequence_by}, which orders"
            f" them, for example {_show_example(events.where(no_sequence), shape)}",
            hint="let the transform leave such rows out or fill the column: coalesce(…)",
        )
    if stats["no_time"]:
        raise TransformFailed(
            f"deletes for {output.table} have neither a value in {output.sequence_by} nor a commit's time,"
            f" for example {_show_example(events.where(gone), shape)}",
            hint=f"let the transform say when, in column {output.sequence_by}",
        )
    if stats["gone"] and not shape.in_time:
        left = without_replaced(events, shape).where(gone)
        if left.head(1):
            raise TransformFailed(
                f"a delete for {output.table} has no value in {output.sequence_by}, which is no timestamp, so"
                f" its commit's time cannot stand for one: for example {_show_example(left, shape)}",
                hint="a delete of a sequence that is no timestamp: the transform has to say when,"
                f" in column {output.sequence_by} (`feed: raw` shows it the deletes)",
            )
    return stats


def _count_todo(history: DataFrame, shape: EventColumns) -> Row:
    from pyspark.sql import functions as F  # noqa: N812

    counts = [F.count("op").alias("ops"), F.count("keep").alias("keeps")]
    return _first(history.agg(*counts, *select_extremes(shape, "op IS NOT NULL")))


def _merge(
    session: SparkSession, table: str, changed: DataFrame, shape: EventColumns, output: DeltaTable, found: Row
) -> None:
    names = [quote(field.name) for field in shape.fields]
    values = [f"s.{shape.inner(place)}" for place in range(len(names))]
    updates = {names[place]: values[place] for place in shape.payload}
    ends = {quote(VALID_TO): f"s.{VALID_TO}", quote(IS_CURRENT): f"(s.{VALID_TO} IS NULL)"}
    inserts = dict(zip(names, values, strict=True)) | {quote(VALID_FROM): "s.s"} | ends
    if output.surrogate_key is not None:
        changed = changed.withColumn("hash", hash_of(shape))
        inserts[quote(output.surrogate_key)] = "s.hash"
    sets = ", ".join(f"{name} = {value}" for name, value in (updates | ends).items())
    same = [f"t.{names[place]} = s.k{index}" for index, place in enumerate(shape.key)]
    on = " AND ".join([*same, f"t.{VALID_FROM} = s.s", *list_conditions(shape, found, "t.", moment=True)])
    changed.createOrReplaceTempView(_VIEW)
    try:
        session.sql(
            f"MERGE INTO {table} AS t USING {_VIEW} AS s ON {on}"
            f" WHEN MATCHED AND s.op = '{DELETE}' THEN DELETE"
            f" WHEN MATCHED THEN UPDATE SET {sets}"
            f" WHEN NOT MATCHED AND s.op <> '{DELETE}' THEN"
            f" INSERT ({', '.join(inserts)}) VALUES ({', '.join(inserts.values())})"
        )
    finally:
        session.catalog.dropTempView(_VIEW)


def _commit_nothing(session: SparkSession, table: str, target: DataFrame) -> None:
    """Commit no rows, only the session's tag."""
    columns = [TargetColumn(field.name, bare(field.dataType.jsonValue())) for field in target.schema.fields]
    no_rows(session, columns).writeTo(table).append()


def hash_of(shape: EventColumns) -> Column:
    """SHA-256, in hexadecimal, of the key's values and `valid_from`, each as text with its length before it.

    A timestamp is microseconds since 1970, bytes are hexadecimal, nested values JSON. Two different lists of
    values never have the same text.
    """
    from pyspark.sql import functions as F  # noqa: N812

    types = [shape.fields[place].dataType for place in (*shape.key, shape.sequence)]
    texts = [_make_text(name, type_of) for name, type_of in zip([*shape.keys, "s"], types, strict=True)]
    return F.sha2(F.concat(*(F.concat(F.length(text), F.lit(":"), text) for text in texts)), 256)


def _make_text(name: str, type_of: DataType) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    match type_of.typeName():
        case "timestamp":
            return F.unix_micros(name).cast("string")
        case "binary":
            return F.hex(name)
        case "struct" | "array" | "map":
            return F.to_json(name)
        case _:
            return F.col(name).cast("string")


def _show_example(frame: DataFrame, shape: EventColumns) -> str:
    row = _first(frame.select(*shape.keys, "s"))
    names = [shape.fields[place].name for place in (*shape.key, shape.sequence)]
    return ", ".join(
        f"{name} = {'NULL' if value is None else value}" for name, value in zip(names, row, strict=True)
    )


def _first(frame: DataFrame) -> Row:
    return frame.head(1)[0]
