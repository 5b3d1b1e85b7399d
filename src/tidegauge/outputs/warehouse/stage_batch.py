"""Load the rows of a batch into a staging table, and check them there before they are committed."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tidegauge.errors import KeyUnsuitable, OutputDisagrees, TidegaugeError
from tidegauge.model.batch_data import BatchRows, KeysToDelete, LakeFile
from tidegauge.model.marks import FailedCheckBits
from tidegauge.model.mode import OutputKind
from tidegauge.model.spec import DeleteMode, TableName
from tidegauge.model.staged import Staged
from tidegauge.model.table import Field, Layout
from tidegauge.outputs.lake.manifest import DATA
from tidegauge.outputs.lake.splits import write_splits
from tidegauge.outputs.warehouse import staging
from tidegauge.outputs.warehouse.columns import PreparedTarget, arrange, check_names, plan_changes, shape_of
from tidegauge.outputs.warehouse.flow_target import FlowTarget
from tidegauge.outputs.warehouse.heads import Head
from tidegauge.outputs.warehouse.inside import fill_stage
from tidegauge.outputs.warehouse.mode_target import HISTORY
from tidegauge.outputs.warehouse.modes import REPEATS_ON_REFUSAL
from tidegauge.outputs.warehouse.stage_checks import check_stage, set_aside
from tidegauge.outputs.warehouse.warehouse import StagingTable, WarehouseColumn, WarehouseSession
from tidegauge.storage.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class _Room:
    columns: PreparedTarget | None
    """None where the batch has only keys to delete, which need no columns made for them."""
    outgrown: bool
    """Whether the target is made anew when the batch is committed."""
    held: tuple[Field, ...]
    """The target's columns; empty where it is made anew."""

    @property
    def known(self) -> tuple[Field, ...] | None:
        """All columns of the target as the commit will find them; None where that is not known yet."""
        return self.columns.columns if self.columns else None


def stage_rows(target: FlowTarget, batch_data: BatchRows, spark: Callable[[], SparkSession]) -> Staged:
    """Load a batch into a new staging table and check it. Raises KeyUnsuitable, OutputError or
    OutputDisagrees for rows that the target cannot take."""
    layout, mode, warehouse = batch_data.layout, target.options.mode, target.warehouse
    if mode.needs_key(OutputKind.WAREHOUSE) and not layout.key:
        raise KeyUnsuitable(
            f"{layout.table} has no key, and mode {mode} needs one", hint="name one with `key:`"
        )
    assert isinstance(batch_data, KeysToDelete) or bool(batch_data.checked) is bool(target.options.expect)
    with target.session() as session:
        heads = target.make_ready(session)
        room = _make_room(target, session, batch_data, heads)
        table = staging.make_name(warehouse, session, target.table.schema)
        session.rollback()
        try:
            checked = batch_data.checked
            brought = checked.rows if checked else batch_data
            stage = staging.stage_of(table, brought.layout, room.held)
            with _ensure_files(target, batch_data, brought, spark) as landed:
                rows = _load(target, session, stage, landed, spark)
            aside = set_aside(warehouse, FailedCheckBits.of(checked.expect)) if checked else None
            if room.columns is not None:
                staging.check_values(warehouse, session, stage, room.columns.narrow, aside)
            stage = _check_keys(target, session, stage, batch_data, room.columns, aside)
            checks = check_stage(target, session, stage, checked.expect) if checked else None
            if room.columns is not None and mode.facts.keeps_history:
                assert layout.cursor_column is not None
                staging.check_filled(warehouse, session, stage, layout.cursor_column)
                _make_history(target, session, table, layout, room)
            target.note_columns(stage.table.table, room.known)
            return Staged(rows=rows, table=stage.table.table, checks=checks)
        except BaseException:
            session.rollback()
            staging.drop(warehouse, session, table)
            raise


def _make_room(
    target: FlowTarget, session: WarehouseSession, batch_data: BatchRows, heads: Sequence[Head] | None
) -> _Room:
    """Make the target, or the columns that it lacks for these rows; commits. `heads`: if just read."""
    layout, options, warehouse = batch_data.layout, target.options, target.warehouse
    outgrown = target.pending and target.check.is_outgrown(session, layout)
    session.rollback()
    if isinstance(batch_data, KeysToDelete):
        check_names(warehouse, replace(layout, fields=_key_fields(layout)), options)
        if options.deletes is DeleteMode.SOFT and not options.mode.facts.keeps_history:
            # `deletes: soft` may be set long after the target was made, so the marking column may be missing.
            arrange(warehouse, session, target.table, layout, options, target.check.check_new)
        return _Room(None, outgrown, warehouse.columns(session, target.table) or ())
    if outgrown:
        return _Room(plan_changes(warehouse, layout, options), outgrown, ())
    check_new = None if batch_data.anew else partial(target.check.check_new, heads=heads)
    columns = arrange(warehouse, session, target.table, layout, options, check_new)
    if columns.fresh and target.pending:
        target.commits.note_shape(session, shape_of(layout, options))
        session.commit()
    return _Room(columns, outgrown, tuple(columns.held.values()))


def _load(
    target: FlowTarget,
    session: WarehouseSession,
    stage: StagingTable,
    batch_data: BatchRows,
    spark: Callable[[], SparkSession],
) -> int:
    if batch_data.inside is not None:
        return fill_stage(target.warehouse, session, stage, batch_data.inside)
    rows = target.warehouse.load(session, stage, batch_data, spark)
    # At a live source rows may leave the window after they were counted; in a lake they cannot.
    if (batch_data.files or batch_data.paths) and batch_data.rows not in (None, rows):
        raise OutputDisagrees(
            f"{rows} rows came for {target.place}, and {batch_data.rows} should have",
            hint="somebody changes the files of the lake: run again; nothing was loaded",
        )
    return rows


@contextmanager
def _ensure_files(
    target: FlowTarget, batch_data: BatchRows, brought: BatchRows, spark: Callable[[], SparkSession]
) -> Iterator[BatchRows]:
    """The batch to load. Where the warehouse takes only whole files, rows that were marked on the way, or are
    a part of a compacted file, are first written to files of their own, which are removed at the end."""
    as_they_are = brought is batch_data and all(file.first is None for file in batch_data.files)
    if as_they_are or not batch_data.files or not target.warehouse.copies_files:
        yield brought
        return
    lake, first = batch_data.files[0].lake, batch_data.files[0].path
    # Named like an extract's attempt, so that `files clean` clears away what a killed one leaves.
    attempt = f"{first.rsplit('/', 3)[0]}/{DATA}/{uuid.uuid4().hex}"
    written = write_splits(lake, attempt, replace(brought, rows=batch_data.rows), spark)
    try:
        files = tuple(LakeFile(lake, one.path, one.rows, one.bytes) for one in written)
        yield replace(brought, files=files)
    finally:
        with suppress(TidegaugeError):
            open_store(lake).delete([one.path for one in written], below=attempt)


def _check_keys(
    target: FlowTarget,
    session: WarehouseSession,
    stage: StagingTable,
    batch_data: BatchRows,
    room: PreparedTarget | None,
    aside: str | None,
) -> StagingTable:
    """The staging table to commit: one with only the last row of each key, where keys came more than once.

    In a target that was just made, the engine's own constraint finds a repeated key. Where the INSERT does
    that cheaply (`Warehouse.finds_repeats`), keys are not checked here: the commit checks them if its INSERT
    fails.
    """
    mode, warehouse = target.options.mode, target.warehouse
    several = len(batch_data.splits) > 1 or len(batch_data.files) > 1
    into_fresh = mode in REPEATS_ON_REFUSAL and room is not None and room.fresh
    # What is counted and set aside has to be the last row of each key, and no other.
    into_fresh = into_fresh and aside is None
    unchecked = not mode.needs_key(OutputKind.WAREHOUSE) or (into_fresh and warehouse.finds_repeats)
    if unchecked and not isinstance(batch_data, KeysToDelete):
        return stage
    proven = into_fresh and not several and warehouse.keys_enforced and not warehouse.key_after
    keys = staging.check_keys(warehouse, session, stage, several=several, proven=proven, aside=aside)
    if keys is None or mode.facts.keeps_history:
        return stage
    return staging.keep_last(warehouse, session, stage, keys)


def _make_history(
    target: FlowTarget, session: WarehouseSession, table: TableName, layout: Layout, room: _Room
) -> None:
    """Make the table in which the commit rebuilds the history of the staged keys."""
    assert room.columns is not None
    columns = [
        WarehouseColumn(name, room.columns.held[name].source_type)
        for name in (*(field.name for field in layout.fields), *HISTORY)
    ]
    held = () if room.outgrown else target.warehouse.columns(session, target.table) or ()
    gone = target.find_vanished(session, layout, held)
    columns += [WarehouseColumn(field.name, field.source_type) for field in gone]
    session.rollback()
    session.run(target.warehouse.create(staging.history_of(table), columns))
    session.commit()


def _key_fields(layout: Layout) -> tuple[Field, ...]:
    return tuple(field for field in layout.fields if field.name in layout.key)
