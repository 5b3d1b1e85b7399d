"""The one transaction of a batch: it moves the head, changes the target's rows and keeps the tag."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from tidegauge.errors import OutputDisagrees, OutputError, OutputUnreachable, TidegaugeError
from tidegauge.model.expectation import Checks
from tidegauge.model.marks import FailedCheckBits
from tidegauge.model.mode import Mode
from tidegauge.model.plan import BATCH, NULLS, Batch, Receipt, Tag
from tidegauge.model.position import FilesPosition
from tidegauge.model.spec import DeleteMode, TableName
from tidegauge.model.staged import Staged
from tidegauge.model.table import Field, Layout
from tidegauge.outputs.warehouse import modes, staging
from tidegauge.outputs.warehouse.columns import key_of, shape_of
from tidegauge.outputs.warehouse.commits import show_written
from tidegauge.outputs.warehouse.flow_target import FlowTarget
from tidegauge.outputs.warehouse.heads import Counts
from tidegauge.outputs.warehouse.mode_target import DELETED_AT, ModeTarget, exists
from tidegauge.outputs.warehouse.quarantine import QuarantineBatch
from tidegauge.outputs.warehouse.stage_checks import count_repeated, set_aside
from tidegauge.outputs.warehouse.warehouse import StagingTable, ValueRejected, WarehouseSession


@dataclass(frozen=True)
class StagedBatch:
    tag: Tag
    batch: Batch
    staged: Staged
    layout: Layout
    run_id: str

    @property
    def rows(self) -> int:
        """How many staged rows the batch writes; 0 for a batch of deletes."""
        aside = self.staged.checks.quarantined + self.staged.checks.dropped if self.staged.checks else 0
        return 0 if self.batch.deletes else self.staged.rows - aside

    @property
    def columns(self) -> frozenset[str]:
        """Names of the columns that the batch writes."""
        none = self.batch.deletes or self.batch.empties_output
        return frozenset() if none else frozenset(field.name for field in self.layout.fields)

    @property
    def kind(self) -> str:
        return self.batch.kind


class _RepeatedKeys(Exception):
    """Keys came in more than one split, and only the engine's constraint found them. `keys`: how many rows
    `staging.keep_last` keeps."""

    def __init__(self, stage: StagingTable, keys: int) -> None:
        super().__init__(stage, keys)
        self.stage, self.keys = stage, keys


def commit_batch(target: FlowTarget, what: StagedBatch) -> Receipt:
    """Commit the staged batch; returns the receipt of whoever committed the tag first."""
    try:
        return _commit(target, what)
    except _RepeatedKeys as found:
        with target.session() as session:
            kept = staging.keep_last(target.warehouse, session, found.stage, found.keys)
        return _commit(target, replace(what, staged=replace(what.staged, table=kept.table.table)))


def _commit(target: FlowTarget, what: StagedBatch) -> Receipt:
    with target.session() as session:
        table = TableName(target.table.schema, what.staged.table)
        tag, layout = what.tag, what.layout
        empties = tag.epoch > 0 and tag.seq == 1 and target.check.pending(session, tag.epoch) is not None
        if empties and target.warehouse.ddl_commits:
            target.check.make_alone(session, layout, tag.epoch)
        outgrown = empties and not target.warehouse.ddl_commits and target.check.is_outgrown(session, layout)
        session.rollback()
        known = target.known_written(tag)
        text = None if known is None else show_written(known, what.columns)
        if target.commits.advance(session, tag, text):
            if empties:
                target.check.make(session, layout, outgrown=outgrown)
            receipt = _write(target, session, what, table, anew=empties, noted=known is not None)
            gone = _drop_in_transaction(target, session, what, table)
            session.commit()
            target.pending = False
            if known is not None:
                target.note_written(tag, known.union(what.columns))
            _declare_key(target, session, what)
        else:
            session.rollback()
            receipt, gone = _find_committed(target, session, what), False
        if what.staged.table:
            if not gone:
                staging.drop(target.warehouse, session, table)
            target.dropped = what.staged.table
        return receipt


def _drop_in_transaction(
    target: FlowTarget, session: WarehouseSession, what: StagedBatch, table: TableName
) -> bool:
    """Drop the staging tables in the committing transaction; False where that has to come later."""
    if not (target.warehouse.drops_with_commit and what.staged.table):
        return False
    for one in staging.list_made(table, history=target.options.mode.facts.keeps_history):
        target.warehouse.drop(session, one)
    return True


def _write(
    target: FlowTarget,
    session: WarehouseSession,
    what: StagedBatch,
    table: TableName,
    *,
    anew: bool,
    noted: bool,
) -> Receipt:
    """Write the rows and the tag, inside the transaction that has moved the head. `anew`: this batch has
    removed the rows of earlier epochs. `noted`: the head already keeps the names of the batch's columns."""
    if target.warehouse.forgets_stages:
        _check_there(target, session, table, what.staged)
    if what.staged.checks is not None:
        _put_aside(target, session, what, table, anew=anew)
    counts, checks = _apply(target, session, what, table, anew=anew)
    receipt = Receipt(
        what.tag,
        what.batch.windows,
        what.rows,
        0,
        0,
        what.run_id,
        inserted=counts.inserted,
        updated=counts.updated,
        deleted=counts.deleted,
        read=checks.checked if checks else None,
        checks=checks,
    )
    if not noted and what.columns:
        target.commits.add_written(session, what.tag.epoch, what.columns)
    target.commits.record(session, receipt, what.kind, shape_of(what.layout, target.options))
    return receipt


def _put_aside(
    target: FlowTarget, session: WarehouseSession, what: StagedBatch, table: TableName, *, anew: bool
) -> None:
    """Put the rows that are marked for it into the quarantine. `anew`: see `_write`."""
    facts = target.options.mode.facts
    batched = QuarantineBatch(
        what.tag,
        what.batch,
        target.input,
        what.run_id,
        whole=anew or facts.replaces_all,
        again=not facts.only_adds
        and (what.batch.rereads or what.batch.nulls or what.tag.epoch > 0 or target.options.snapshot),
    )
    target.quarantine.put(session, table, FailedCheckBits.of(target.options.expect), batched)


def _apply(
    target: FlowTarget, session: WarehouseSession, what: StagedBatch, table: TableName, *, anew: bool
) -> tuple[Counts, Checks | None]:
    held = _find_columns(target, session, what, anew=anew)
    stage = staging.stage_of(table, what.layout, held or ())
    into = _mode_target(target, session, what, table, held or ())
    mode, batch = target.options.mode, what.batch
    try:
        if batch.empties_output:
            return (Counts() if held is None else modes.empty_target(session, into)), None
        if batch.deletes:
            if mode.facts.keeps_history:
                return modes.close(session, into, stage), None
            # A repair deletes even where runs do not; rows are marked only where the flow asks for it.
            soft = target.options.deletes is DeleteMode.SOFT
            return modes.delete(session, into, stage, DeleteMode.SOFT if soft else DeleteMode.HARD), None
        if what.staged.checks is None:
            return modes.APPLY[mode](session, into, stage), None
        return _apply_checked(target, session, into, stage, what.staged.checks)
    except ValueRejected as error:
        session.rollback()
        aside = (
            set_aside(target.warehouse, FailedCheckBits.of(target.options.expect))
            if what.staged.checks
            else None
        )
        keys = (
            staging.check_keys(target.warehouse, session, stage, several=True, aside=aside)
            if stage.key
            else None
        )
        if keys is not None and mode in modes.REPEATS_ON_REFUSAL:
            raise _RepeatedKeys(stage, keys) from error
        raise OutputError(
            f"{target.place} did not take the batch: {error.message}",
            hint="mend the row at the source or the column in the target; nothing of the batch is there",
        ) from error


def _find_columns(
    target: FlowTarget, session: WarehouseSession, what: StagedBatch, *, anew: bool
) -> tuple[Field, ...] | None:
    known = None if anew else target.recall_columns(what.staged.table)
    return target.warehouse.columns(session, target.table) if known is None else known


def _apply_checked(
    target: FlowTarget, session: WarehouseSession, into: ModeTarget, stage: StagingTable, checks: Checks
) -> tuple[Counts, Checks]:
    """Write the rows that are not set aside. Where a key's row is set aside, the target's row of that key is
    outdated and is deleted; a mode that keeps a history ends its current version instead."""
    mode, warehouse = target.options.mode, target.warehouse
    gone = 0
    if not mode.facts.keeps_history and into.aside is not None:
        if not (mode.facts.only_adds or mode.facts.replaces_all):
            how = DeleteMode.SOFT if into.soft else DeleteMode.HARD
            gone = modes.delete(session, into, stage, how, into.aside).deleted
        session.run(
            warehouse.delete(
                stage.table, set_aside(warehouse, FailedCheckBits.of(target.options.expect), "t.")
            )
        )
    stays = _make_untouched_condition(into, stage, mode)
    repeated = count_repeated(target, session, stage, target.options.expect, stays)
    done = modes.APPLY[mode](session, into, stage)
    return replace(done, deleted=done.deleted + gone), checks.and_also(repeated)


def _make_untouched_condition(target: ModeTarget, stage: StagingTable, mode: Mode) -> str | None:
    """SQL condition for target rows, called `t`, that a batch leaves as they are; None: it leaves none."""
    if mode.facts.replaces_all:
        return None
    found = ["1 = 1"]
    if not mode.facts.only_adds:
        found.append(f"NOT {exists(target, stage.table, stage.key)}")
    if target.soft:
        found.append(f"t.{target.warehouse.name(DELETED_AT)} IS NULL")
    return " AND ".join(found)


def _mode_target(
    target: FlowTarget,
    session: WarehouseSession,
    what: StagedBatch,
    table: TableName,
    held: tuple[Field, ...],
) -> ModeTarget:
    history = target.options.mode.facts.keeps_history
    return ModeTarget(
        target.warehouse,
        target.table,
        # In a history, the end of its last version says that a row was deleted.
        soft=not history and any(field.name == DELETED_AT for field in held),
        run_id=what.run_id if target.options.metadata_columns else None,
        vanished=() if what.batch.deletes else target.find_vanished(session, what.layout, held),
        live=not history or _is_live(target, session, what),
        history=staging.history_of(table),
        cursor=what.layout.cursor_column,
        aside=_set_aside(target, what),
        checked=what.staged.checks is not None,
    )


def _set_aside(target: FlowTarget, what: StagedBatch) -> str | None:
    marks = FailedCheckBits.of(target.options.expect)
    if what.staged.checks is None or not marks.sets_aside:
        return None
    return set_aside(target.warehouse, marks, "s.")


def _is_live(target: FlowTarget, session: WarehouseSession, what: StagedBatch) -> bool:
    """False where an earlier epoch of the target has already loaded these batches of a lake."""
    (window,) = what.batch.windows
    if not isinstance(window.upto, FilesPosition):
        return True
    after = window.after.sequence if isinstance(window.after, FilesPosition) else 0
    for head in target.commits.heads(session):
        last = replace(what.tag, epoch=head.epoch, seq=head.last_seq)
        loaded = head.epoch < what.tag.epoch and head.last_seq
        found = target.commits.find(session, last) if loaded else None
        upto = found[0].windows[0].upto if found else None
        if isinstance(upto, FilesPosition) and upto.sequence > after:
            return False
    return True


def _check_there(target: FlowTarget, session: WarehouseSession, table: TableName, staged: Staged) -> None:
    """Raises OutputUnreachable where the staged rows are gone: a server that keeps no log of staging tables
    empties them after a crash."""
    if staged.rows and not session.rows(f"SELECT 1 FROM {target.warehouse.table(table)} LIMIT 1"):
        raise OutputUnreachable(
            f"the rows staged for {target.place} are gone: its server was started anew",
            hint="run again: the batch is loaded once more; nothing of it is visible",
        )


def _declare_key(target: FlowTarget, session: WarehouseSession, what: StagedBatch) -> None:
    if target.warehouse.key_after and what.kind in (BATCH, NULLS):
        with suppress(TidegaugeError):  # the batch is there, and the next one tries again
            target.warehouse.declare_key(session, target.table, key_of(what.layout, target.options))
        session.rollback()


def _find_committed(target: FlowTarget, session: WarehouseSession, what: StagedBatch) -> Receipt:
    """The receipt of the batch, where the head did not move because it is there already. Raises
    OutputDisagrees where another batch is there, or this one cannot be the next."""
    tag = what.tag
    theirs = target.receipt(session, tag, what.batch)
    if theirs is None:
        head = next((head for head in target.commits.heads(session) if head.epoch == tag.epoch), None)
        why = f"its last batch there is {head.last_seq}" if head else "which was never opened there"
        raise OutputDisagrees(
            f"batch {tag.seq} of epoch {tag.epoch} cannot be the next one in {target.place}: {why}",
            hint="this ledger is an older copy, or another one writes here; nothing was changed",
        )
    return theirs
