"""One table's place in a warehouse: staged rows, and one transaction for rows and tag."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegauge.errors import KeyUnsuitable, OutputDisagrees, OutputError, OutputUnreachable, TidegaugeError
from tidegauge.model.batch_data import BatchData, BatchRows, EmptyTarget, KeysToDelete
from tidegauge.model.mode import Mode
from tidegauge.model.plan import Batch, Receipt, Tag
from tidegauge.model.position import FilesPosition
from tidegauge.model.protocols.output import Capabilities
from tidegauge.model.spec import Deletes, TableFlow, TableName, WarehouseTable
from tidegauge.model.staged import Staged
from tidegauge.model.table import Field, Layout
from tidegauge.outputs.warehouse import modes, staging
from tidegauge.outputs.warehouse import target_rows as shown
from tidegauge.outputs.warehouse.columns import (
    RoomInWarehouse,
    arrange,
    check_names,
    foreseen,
    key_of,
    shape_of,
)
from tidegauge.outputs.warehouse.commits import BATCH, NULLS, Commits, Counts, Head, kind_of
from tidegauge.outputs.warehouse.fit import Verdict
from tidegauge.outputs.warehouse.modes import DELETED_AT, HISTORY, IS_CURRENT, OURS, ModeTarget
from tidegauge.outputs.warehouse.open import open_warehouse
from tidegauge.outputs.warehouse.target_check import TargetCheck
from tidegauge.outputs.warehouse.warehouse import (
    Locked,
    Refused,
    StagingTable,
    Warehouse,
    WarehouseColumn,
    WarehouseSession,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


class _Repeated(Exception):
    """Keys that came in more than one stretch, of which only the engine's own constraint knew."""

    def __init__(self, stage: StagingTable, keys: int) -> None:
        super().__init__(stage, keys)
        self.stage, self.keys = stage, keys


class WarehouseOutput:
    """`model.protocols.output.Output` for a flow whose output is a Landing.

    Why no writer of an older epoch can advance: `commits` tells it. `receipt` reads the batch's row first and
    then looks whether a later life began, for the reason that `write.parquet.ParquetOutput` gives.
    """

    def __init__(self, flow: TableFlow, *, warehouse: Warehouse | None = None) -> None:
        assert isinstance(flow.output, WarehouseTable)
        self._landing = flow.output
        self._options = flow.options
        self._pipeline, self._flow = flow.pipeline, flow.name
        self._house = warehouse or open_warehouse(flow.output.warehouse)
        self._table = flow.output.table
        self._commits = Commits(self._house, self._table, flow.pipeline, flow.name)
        self._held = TargetCheck(flow, self._house, self._table, self._commits)
        self._ready = False
        self._pending = False
        """When it was made ready, what is there was still of an earlier life than the newest."""

    @property
    def place(self) -> str:
        return f"{self._house.place}: {self._table}"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(deletes_keys=True, table=self)

    def prepare(self) -> None:
        if not self._ready:
            with self._session() as session:
                self._make_ready(session)

    def is_empty(self) -> bool:
        if not self._house.is_there():
            return True
        with self._session() as session:
            if self._commits.is_there(session) and self._commits.any_batch(session):
                return False
            return self._house.columns(session, self._table) is None or not self._held.is_filled(session)

    def is_open(self, epoch: int, *, kept: bool = False) -> bool:
        if not self._house.is_there():
            return epoch == 0
        with self._session() as session:
            heads = self._commits.heads(session) if self._commits.is_there(session) else ()
            if kept:
                self._held.check(session, heads, epoch)
        head = next((head for head in heads if head.epoch == epoch), None)
        return not head.closed if head else epoch == 0 and not heads

    def open_epoch(
        self,
        pipeline: str,
        flow: str,
        epoch: int,
        continues: tuple[int, int] | None,
        reason: str,
        *,
        empty: bool = False,
    ) -> None:
        """As the protocol promises. `empty`: what is there goes with the first batch, and not before."""
        assert (pipeline, flow) == (self._pipeline, self._flow)
        self.prepare()
        with self._session() as session:
            self._commits.open(
                session, Head(epoch, 0, closed=False, continues=continues, reason=reason, empties=empty)
            )
            session.commit()
            self._pending = self._held.pending(session) is not None

    def is_pending(self, epoch: int) -> bool:
        if not self._house.is_there():
            return False
        with self._session() as session:
            if self._held.pending(session, epoch) is None:
                return False
            return self._house.columns(session, self._table) is not None and self._held.is_filled(session)

    def lacks(self, continues: tuple[int, int]) -> str | None:
        if not self._house.is_there():
            return f"epoch {continues[0]}" if any(continues) else None
        with self._session() as session:
            if not self._commits.is_there(session):
                return f"epoch {continues[0]}" if any(continues) else None
            return self._commits.lacking(session, continues)

    def receipt(self, tag: Tag) -> Receipt | None:
        if not self._house.is_there():
            return None
        with self._session() as session:
            return self._receipt(session, tag)

    def layout(self) -> tuple[Field, ...] | None:
        if not self._house.is_there():
            return None
        with self._session() as session:
            held = self._house.columns(session, self._table)
            if held is None or (self._held.pending(session) and self._held.is_of_another_mode(session)):
                return None
        return tuple(field for field in held if field.name not in self._ours)

    def written(self) -> frozenset[str]:
        """Columns of the target that this flow is known to have written."""
        if not self._house.is_there():
            return frozenset()
        with self._session() as session:
            if not self._commits.keeps_written(session):
                return frozenset()
            return self._commits.written(session)

    def named(self, name: str) -> str:
        """What a column's name is told apart by."""
        return name.lower() if self._house.folds_case else name

    def fit(self, held: Field, field: Field, *, key: bool) -> str:
        """Whether a column that is there holds what comes, in the words of `fit.Verdict`."""
        found = self._house.fit(held, field, key=key)
        if found.verdict is Verdict.WIDEN and found.type.casefold() == held.source_type.casefold():
            return Verdict.HOLDS.value
        return found.verdict.value

    def stage(self, batch_data: BatchData, spark: Callable[[], SparkSession]) -> Staged:
        if isinstance(batch_data, EmptyTarget):
            return Staged(rows=0)
        assert isinstance(batch_data, BatchRows)
        layout, mode = batch_data.layout, self._options.mode
        deletes = isinstance(batch_data, KeysToDelete)
        if mode is not Mode.APPEND and not layout.key:
            raise KeyUnsuitable(
                f"{layout.table} has no key, and mode {mode} needs one", hint="name one with `key:`"
            )
        with self._session() as session:
            self._make_ready(session)
            outgrown = self._pending and self._held.is_outgrown(session, layout)
            session.rollback()
            room: RoomInWarehouse | None
            if outgrown and not deletes:
                room = foreseen(self._house, layout, self._options)
            elif deletes:
                check_names(self._house, replace(layout, fields=_key_fields(layout)), self._options)
                if self._options.deletes is Deletes.SOFT and mode is not Mode.SCD2:
                    # Marking may be asked for long after the target was made.
                    arrange(self._house, session, self._table, layout, self._options, self._held.check_new)
                room = None
            else:
                made = None if batch_data.anew else self._held.check_new
                room = arrange(self._house, session, self._table, layout, self._options, made)
                if room.fresh and self._pending:
                    self._commits.note_shape(session, shape_of(layout, self._options))
                    session.commit()
            table = staging.fresh(self._house, session, self._table.schema)
            session.rollback()
            try:
                stage = staging.stage_of(table, layout)
                rows = self._house.load(session, stage, batch_data, spark)
                # At a live source rows leave the window after they were counted; in a lake they cannot.
                if (batch_data.files or batch_data.paths) and batch_data.rows not in (None, rows):
                    raise OutputDisagrees(
                        f"{rows} rows came for {self.place}, and {batch_data.rows} should have",
                        hint="somebody changes the files of the lake: run again; nothing was loaded",
                    )
                if room is not None:
                    staging.check_values(self._house, session, stage, room.narrow)
                # In a table that was made just now the engine itself finds a key that is there twice. One
                # that finds it in the INSERT need not be asked before: `publish` looks when that fails.
                several = len(batch_data.splits) > 1 or len(batch_data.files) > 1
                ours = mode is Mode.MERGE and room is not None and room.fresh
                if deletes or (mode is not Mode.APPEND and not (ours and self._house.finds_repeats)):
                    proven = ours and not several and self._house.keys_enforced
                    proven = proven and not self._house.key_after
                    keys = staging.check_keys(self._house, session, stage, several=several, proven=proven)
                    if keys is not None and mode is not Mode.SCD2:
                        stage = staging.keep_last(self._house, session, stage, keys)
                if room is not None and mode is Mode.SCD2:
                    assert layout.cursor_column is not None
                    staging.check_filled(self._house, session, stage, layout.cursor_column)
                    columns = [
                        WarehouseColumn(name, room.held[name].source_type)
                        for name in (*(field.name for field in layout.fields), *HISTORY)
                    ]
                    held = () if outgrown else self._house.columns(session, self._table) or ()
                    gone = self._vanished(session, layout, held)
                    columns += [WarehouseColumn(field.name, field.source_type) for field in gone]
                    session.rollback()
                    session.run(self._house.create(staging.history_of(table), columns))
                    session.commit()
                return Staged(rows=rows, table=stage.table.table)
            except BaseException:
                session.rollback()
                staging.drop(self._house, session, table)
                raise

    def commit(self, tag: Tag, batch: Batch, staged: Staged, *, layout: Layout, run_id: str) -> Receipt:
        try:
            return self._publish(tag, batch, staged, layout, run_id)
        except _Repeated as found:
            with self._session() as session:
                kept = staging.keep_last(self._house, session, found.stage, found.keys)
            return self._publish(tag, batch, replace(staged, table=kept.table.table), layout, run_id)

    def _publish(self, tag: Tag, batch: Batch, staged: Staged, layout: Layout, run_id: str) -> Receipt:
        rows = 0 if batch.deletes else staged.rows
        kind = kind_of(batch)
        with self._session() as session:
            table = TableName(self._table.schema, staged.table)
            anew = tag.epoch > 0 and tag.seq == 1 and self._held.pending(session, tag.epoch) is not None
            if anew and self._house.ddl_commits:
                self._held.make_alone(session, layout, tag.epoch)
            outgrown = anew and not self._house.ddl_commits and self._held.is_outgrown(session, layout)
            session.rollback()
            ours = Receipt(tag, batch.windows, rows, 0, 0, run_id)
            if self._commits.advance(session, tag):
                if anew:
                    self._held.make(session, layout, outgrown=outgrown)
                self._check_there(session, table, staged)
                counts = self._apply(session, tag, batch, table, layout, run_id)
                receipt = Receipt(
                    tag,
                    batch.windows,
                    rows,
                    0,
                    0,
                    run_id,
                    inserted=counts.inserted,
                    updated=counts.updated,
                    deleted=counts.deleted,
                )
                if not (batch.deletes or batch.empties):
                    names = [field.name for field in layout.fields]
                    self._commits.add_written(session, tag.epoch, names)
                self._commits.record(session, receipt, kind, shape_of(layout, self._options))
                session.commit()
                self._pending = False
                if self._house.key_after and kind in (BATCH, NULLS):
                    with suppress(TidegaugeError):  # the batch is there, and the next one tries again
                        self._house.declare_key(session, self._table, key_of(layout, self._options))
                    session.rollback()
            else:
                session.rollback()
                receipt = self._committed(session, ours, kind)
            if staged.table:
                staging.drop(self._house, session, table)
            return receipt

    def discard(self, staged: Staged) -> None:
        if not staged.table:
            return
        with suppress(TidegaugeError), self._session() as session:
            staging.drop(self._house, session, TableName(self._table.schema, staged.table))

    def count(self) -> int:
        """How many rows there are, of whatever kind."""
        if not self._house.is_there():
            return 0
        with self._session() as session:
            if self._house.columns(session, self._table) is None:
                return 0
            ((rows,),) = session.rows(f"SELECT COUNT(*) FROM {self._house.table(self._table)}")
            return int(rows)

    def rows(self, layout: Layout, *, block: int = shown.BLOCK) -> Iterator[pa.RecordBatch]:
        """What the target shows of a layout's columns, as `schema_of` says of those that it has.

        Rows that are marked as deleted, and versions that are not current, are left out. For the keys alone
        give the layout of the keys. Each block is read in a transaction of its own.
        """
        with self._session() as session:
            there = {self.named(field.name) for field in self._house.columns(session, self._table) or ()}
        if not there:
            return
        where = []
        if self._options.mode is Mode.SCD2:
            where.append(f"{self._house.name(IS_CURRENT)} = {self._house.true}")
        elif self.named(DELETED_AT) in there:
            where.append(f"{self._house.name(DELETED_AT)} IS NULL")
        fields = [field for field in layout.fields if self.named(field.name) in there]
        yield from shown.read(
            self._house, self._session, self._table, fields, key=layout.key, where=where, block=block
        )

    def _apply(
        self, session: WarehouseSession, tag: Tag, batch: Batch, table: TableName, layout: Layout, run_id: str
    ) -> Counts:
        held = self._house.columns(session, self._table)
        history = self._options.mode is Mode.SCD2
        target = ModeTarget(
            self._house,
            self._table,
            # In a history, the end of its last version says that a row was deleted.
            soft=not history and any(field.name == DELETED_AT for field in held or ()),
            run_id=run_id if self._options.metadata_columns else None,
            vanished=() if batch.deletes else self._vanished(session, layout, held or ()),
            live=not history or self._is_live(session, tag, batch),
            history=staging.history_of(table),
            cursor=layout.cursor_column,
        )
        stage = staging.stage_of(table, layout)
        try:
            if batch.empties:
                return Counts() if held is None else modes.empty_target(session, target)
            if batch.deletes and self._options.mode is Mode.SCD2:
                return modes.close(session, target, stage)
            if batch.deletes:
                return modes.delete(session, target, stage, self._options.deletes)
            return modes.APPLY[self._options.mode](session, target, stage)
        except Refused as error:
            session.rollback()
            keys = staging.check_keys(self._house, session, stage, several=True) if stage.key else None
            if keys is not None and self._options.mode is Mode.MERGE:
                raise _Repeated(stage, keys) from error
            raise OutputError(
                f"{self.place} did not take the batch: {error.message}",
                hint="mend the row at the source or the column in the target; nothing of the batch is there",
            ) from error

    def _check_there(self, session: WarehouseSession, table: TableName, staged: Staged) -> None:
        """A server that keeps no log of staging tables empties them when it comes back from a crash."""
        if staged.rows and not session.rows(f"SELECT 1 FROM {self._house.table(table)} LIMIT 1"):
            raise OutputUnreachable(
                f"the rows staged for {self.place} are gone: its server was started anew",
                hint="run again: the batch is loaded once more; nothing of it is visible",
            )

    def _committed(self, session: WarehouseSession, ours: Receipt, kind: str) -> Receipt:
        """Why the head did not move: the batch is there already, or it cannot come now."""
        tag = ours.tag
        found = self._commits.find(session, tag)
        theirs = self._receipt(session, tag)
        if found is None or theirs is None:
            stands = next((head for head in self._commits.heads(session) if head.epoch == tag.epoch), None)
            told = f"its last batch there is {stands.last_seq}" if stands else "which was never opened there"
            raise OutputDisagrees(
                f"batch {tag.seq} of epoch {tag.epoch} cannot be the next one in {self.place}: {told}",
                hint="this ledger is an older copy, or another one writes here; nothing was changed",
            )
        if (theirs.windows, found[1]) != (ours.windows, kind):
            raise OutputDisagrees(
                f"{self.place} holds another window than the ledger's batch {tag.seq} of epoch {tag.epoch}",
                hint="this ledger is an older copy, or another one writes here; nothing was changed",
            )
        return theirs

    def _receipt(self, session: WarehouseSession, tag: Tag) -> Receipt | None:
        if not self._commits.is_there(session):
            return None
        session.rollback()
        found = self._commits.find(session, tag)
        session.rollback()  # a look of its own: see the class
        later = next((head for head in self._commits.heads(session) if head.epoch > tag.epoch), None)
        session.rollback()
        if later is not None:
            raise OutputDisagrees(
                f"a later life of this table was opened in {self.place}: {later}; batch {tag.seq} of epoch"
                f" {tag.epoch} is no part of it",
                hint="nothing is lost: run again, and the flow goes on from where its watermark was set",
            )
        return found[0] if found else None

    def _is_live(self, session: WarehouseSession, tag: Tag, batch: Batch) -> bool:
        """False for batches of a lake that an earlier life of the target has loaded already."""
        (window,) = batch.windows
        if not isinstance(window.upto, FilesPosition):
            return True
        after = window.after.sequence if isinstance(window.after, FilesPosition) else 0
        for head in self._commits.heads(session):
            last = replace(tag, epoch=head.epoch, seq=head.last_seq)
            found = self._commits.find(session, last) if head.epoch < tag.epoch and head.last_seq else None
            upto = found[0].windows[0].upto if found else None
            if isinstance(upto, FilesPosition) and upto.sequence > after:
                return False
        return True

    def _make_ready(self, session: WarehouseSession) -> None:
        if not self._ready:
            self._pending = self._commits.make(session).is_pending
            staging.clear_leftovers(self._house, session, self._table.schema)
            session.rollback()
            self._ready = True

    def _vanished(
        self, session: WarehouseSession, layout: Layout, held: Sequence[Field]
    ) -> tuple[Field, ...]:
        """Columns of the target that this flow wrote and that rows of this layout do not have."""
        known = {self.named(field.name) for field in layout.fields} | self._ours
        rest = [field for field in held if self.named(field.name) not in known]
        if not rest:
            return ()
        written = {self.named(name) for name in self._commits.written(session)}
        return tuple(field for field in rest if self.named(field.name) in written)

    @property
    def _ours(self) -> frozenset[str]:
        return OURS | (frozenset(HISTORY) if self._options.mode is Mode.SCD2 else frozenset())

    @contextmanager
    def _session(self) -> Iterator[WarehouseSession]:
        session = self._house.connect()
        try:
            yield session
        except Locked as error:
            raise OutputUnreachable(
                f"{self.place} is held by another session: {error.message}",
                hint="run again when it is done; nothing was changed",
            ) from error
        finally:
            session.close()


def _key_fields(layout: Layout) -> tuple[Field, ...]:
    return tuple(field for field in layout.fields if field.name in layout.key)
