"""Histories (scd2) in a small target: Spark rebuilds the keys that a batch touches, and the commit is made
without Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tidegauge.delta_log.data_files import NeedsSpark
from tidegauge.delta_log.snapshot import Log
from tidegauge.model.delta_flow import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    DELETE,
    IS_CURRENT,
    VALID_FROM,
    VALID_TO,
)
from tidegauge.model.spec import Lake
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
from tidegauge.outputs.delta.kept_events import EPOCH, FOLDER, SEQ, keep, read_kept
from tidegauge.outputs.delta.scd2 import check_events, hash_of, shape_of
from tidegauge.outputs.delta.small_merge import build_few, fill_rows, match_rows, pick_candidates
from tidegauge.outputs.delta.small_target import FewRows, SmallTarget, open_small
from tidegauge.spark.few_rows import collect_few, frame_of
from tidegauge.storage.store import open_store

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidegauge.outputs.delta.modes import DeltaWrite

_TRIES = 10


def find_few_changes(job: DeltaWrite, small: SmallTarget, rows: DataFrame) -> FewRows:
    """The change that brings these events into the history. Events that its rows do not show are first kept
    beside it, as in `kept_events`. Raises what `scd2.apply_scd2` raises, and NeedsSpark."""
    import pyarrow.compute as pc

    session, schema = job.session, small.columns.schema
    shape = shape_of(small.show(session, schema.empty_table()), rows, job.output)
    frame = batch_events(rows, shape)
    events = _collect(frame)
    if not events.num_rows:
        return FewRows(inserted=schema.empty_table())
    held = frame_of(session, events, frame.schema)
    gone = _check(events, held, shape, job)
    names = {f"k{index}": shape.fields[place].name for index, place in enumerate(shape.key)}
    there = pick_candidates(small.rows, events, names)
    known = history_events(small.show(session, there), shape)
    beside = _open_kept(small)
    if (found := _show_kept(job, beside, events, names)) is not None:
        known = known.unionByName(as_kept_events(found, shape), allowMissingColumns=True)
    known = known.join(held.select(*shape.keys), shape.keys, "left_semi")
    every = known.unionByName(held, allowMissingColumns=True).coalesce(1)
    if gone:
        every = without_replaced(every, shape)
    history = rebuild(every, shape).where("op IS NOT NULL OR keep IS NOT NULL")
    if job.output.surrogate_key is not None:
        history = history.withColumn("hash", hash_of(shape))
    changed = _collect(history)
    news = changed.filter(pc.is_valid(changed.column("keep")))
    if news.num_rows:
        keep_beside(job, small, beside, news, history.schema, shape)
    return _find_changes(job, small, changed, shape)


def _collect(frame: DataFrame) -> pa.Table:
    found = collect_few(frame)
    if found is None:
        raise NeedsSpark("many events")
    return found


def _check(events: pa.Table, held: DataFrame, shape: EventColumns, job: DeltaWrite) -> bool:
    """Whether any delete has no sequence value. Raises where an event is unsuitable."""
    import pyarrow.compute as pc

    kinds = events.column("kind")
    gone = pc.equal(kinds, GONE)
    unsure = [
        *(pc.is_null(events.column(name)) for name in shape.keys),
        pc.and_(pc.equal(kinds, UPSERT), pc.is_null(events.column("s"))),
        pc.and_(gone, pc.is_null(events.column("at"))),
    ]
    found = bool(pc.any(gone).as_py())
    if (found and not shape.in_time) or any(pc.any(one).as_py() for one in unsure):
        check_events(held, shape, job.output)
    return found


def _open_kept(small: SmallTarget) -> SmallTarget | None:
    """The table with the kept events; None where there is none, or only Spark can read and write it."""
    folder = f"{small.folder}/{FOLDER}"
    log = Log(open_store(Lake("kept events", folder)))
    look = log.look()
    return None if look is None else open_small(log, folder, look)


def _show_kept(
    job: DeltaWrite, beside: SmallTarget | None, events: pa.Table, names: dict[str, str]
) -> DataFrame | None:
    if beside is None:
        return read_kept(job.session, job.location, job.events_epoch)
    picked = pick_candidates(beside.rows, events, names)
    if not picked.num_rows:
        return None
    found = beside.show(job.session, picked)
    return found.where(job.events_epoch.counts) if EPOCH in found.columns else found


def keep_beside(
    job: DeltaWrite,
    small: SmallTarget,
    beside: SmallTarget | None,
    mine: pa.Table,
    schema: StructType,
    shape: EventColumns,
) -> None:
    """Keep the events of these rows beside the history, without Spark if possible. `mine`: rows of a rebuilt
    history that have `keep` set."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = pc.equal(mine.column("keep"), UPSERT)
    columns: dict[str, Any] = {}
    for place, field in enumerate(shape.fields):
        value = _pick(mine, shape.inner(place))
        columns[field.name] = (
            pc.if_else(whole, value, pa.scalar(None, value.type)) if place in shape.payload else value
        )
    columns[CHANGE_TYPE] = mine.column("keep")
    columns[COMMIT_VERSION] = mine.column("v")
    columns[COMMIT_TIMESTAMP] = mine.column("at").cast(pa.timestamp("us", "UTC"))
    for name, value in ((EPOCH, job.events_epoch.epoch), (SEQ, job.events_epoch.seq)):
        columns[name] = pa.repeat(pa.scalar(value, pa.int64()), mine.num_rows)
    for _ in range(_TRIES if beside is not None else 0):
        if beside is None or not _fits(beside, columns):
            break
        added = fill_rows(beside.columns.schema, pa.table(columns), list(columns))
        if beside.commit(None, "", FewRows(inserted=added, append=True)):
            return
        beside = _open_kept(small)
    history = frame_of(job.session, mine, schema)
    keep(job.session, job.location, to_keep(history, shape), job.events_epoch, files=1)


def _fits(beside: SmallTarget, columns: dict[str, Any]) -> bool:
    schema = beside.columns.schema
    return all(name in schema.names and schema.field(name).type == columns[name].type for name in columns)


def _pick(rows: pa.Table, inner: str) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    name, _, part = inner.partition(".")
    return pc.struct_field(rows.column(name), part) if part else rows.column(name)


def _find_changes(job: DeltaWrite, small: SmallTarget, changed: pa.Table, shape: EventColumns) -> FewRows:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    mine = changed.filter(pc.is_valid(changed.column("op")))
    columns = {field.name: _pick(mine, shape.inner(place)) for place, field in enumerate(shape.fields)}
    columns[VALID_FROM] = mine.column("s")
    columns[VALID_TO] = mine.column(VALID_TO)
    columns[IS_CURRENT] = pc.is_null(mine.column(VALID_TO))
    if (surrogate := job.output.surrogate_key) is not None:
        columns[surrogate] = mine.column("hash")
    spelled = {name.casefold(): name for name in small.columns.schema.names}
    rows = pa.table({spelled[name.casefold()]: value for name, value in columns.items()})
    keys = [*(shape.fields[place].name for place in shape.key), spelled[VALID_FROM]]
    at = np.array(match_rows(rows, small.rows, keys), dtype=np.int64)
    goes, found = pc.equal(mine.column("op"), DELETE).to_numpy(), at >= 0
    lasting = [*keys, shape.fields[shape.sequence].name, *([surrogate] if surrogate else [])]
    few = build_few(
        rows,
        small.rows,
        at,
        found & goes,
        found & ~goes,
        ~found & ~goes,
        rows.column_names,
        unchanged=lasting,
    )
    return replace(few, read=mine.num_rows)
