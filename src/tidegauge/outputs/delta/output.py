"""A Delta table as the output of a flow: rows and tag are one commit of its log."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegauge.delta_log.restored import find_restore
from tidegauge.delta_log.snapshot import Snapshot
from tidegauge.errors import OutputDisagrees, OutputError, TidegaugeError
from tidegauge.model.batch_data import BatchData, DeltaBatch
from tidegauge.model.delta_flow import IS_CURRENT, VALID_FROM, VALID_TO, DeltaFlow
from tidegauge.model.plan import Batch, Plan, Receipt, Tag
from tidegauge.model.protocols.output import Capabilities
from tidegauge.model.staged import Staged
from tidegauge.model.table import Field, Layout
from tidegauge.outputs.delta import modes, session
from tidegauge.outputs.delta.commit import check_same, describe_commit, find, receipt_of
from tidegauge.outputs.delta.conflicts import is_conflict, translate_conflict
from tidegauge.outputs.delta.epochs import DeltaEpochOpening, EpochState
from tidegauge.outputs.delta.kept_events import find_events_epoch
from tidegauge.outputs.delta.lost_columns import refuse_lost
from tidegauge.outputs.delta.pending import PendingChange, is_guard_error, last_batch_passed, plan_change
from tidegauge.outputs.delta.place import TargetPlace
from tidegauge.outputs.delta.quarantine import Quarantine
from tidegauge.outputs.delta.remake import remake
from tidegauge.outputs.delta.small_batches import is_small, read_log_ahead, tune_for_small
from tidegauge.outputs.delta.small_target import open_small
from tidegauge.outputs.delta.target import target_of
from tidegauge.outputs.delta.types import as_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TRIES = 6
_WAIT = 0.2
"""Seconds before the second try; twice as long before each that follows."""


class DeltaOutput:
    """`model.protocols.output.Output` for a DeltaFlow.

    `stage` prepares the target and keeps the change in memory. The versions of the inputs are frozen, so
    `commit` can compute the rows, and nothing is written twice. The module `epochs` explains why no commit
    of an older epoch is ever seen.

    `plan`: its facts about the inputs go into the commits, from which a ledger can be rebuilt. `locate` gives
    the table's location, or None while the catalogue does not have it.
    """

    refuses_lost = True
    """Whether a batch is refused that would add a dropped column again, with NULL in other rows."""

    def __init__(
        self,
        delta_flow: DeltaFlow,
        *,
        locate: Callable[[], str | None],
        locate_quarantine: Callable[[], str | None] | None = None,
        plan: Plan | None = None,
    ) -> None:
        self._delta_flow = delta_flow
        self._ref = delta_flow.output.table
        self._table = TargetPlace(delta_flow, locate)
        beside = self._ref.quarantine.path
        self._quarantine = Quarantine(delta_flow, locate_quarantine or (lambda: beside))
        self._plan = plan
        self._pending: dict[str, PendingChange] = {}
        self._ready = False

    @property
    def place(self) -> str:
        return str(self._ref)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    def prepare(self) -> None:
        if self._ready:
            return
        found = self._table.open()
        if found is not None:
            found.check()
        self._ready = True

    def is_empty(self) -> bool:
        now = self._read_standing()
        if now is None or now.look is None:
            return True
        return not now.ours and now.look.is_empty()

    def is_open(self, epoch: int, *, kept: bool = False) -> bool:
        """Rows and tags are in one log and are lost together, except by a RESTORE, which keeps the tags."""
        now = self._read_standing()
        if now is None:
            return True  # the catalogue does not have the table yet: see `epochs`
        if kept and now.ours and now.look is not None:
            self._refuse_restored(now.look)
        if now.epoch == epoch:
            return True
        return now.epoch < epoch and not now.ours and now.marker is None and self._table.by_name

    def _refuse_restored(self, look: Snapshot) -> None:
        version = find_restore(look.commits())
        if version is not None:
            name = self._delta_flow.name
            raise OutputDisagrees(
                f"{self.place} was restored to an earlier version (in version {version}) after its last"
                " batch, so rows that were delivered are gone",
                hint=f"say where to go on with `tidegauge watermark set --select {name}`, or `import` of what"
                f" was exported then; or fill it again: `tidegauge run --select {name} --full-refresh`",
            )

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
        """As `Output` promises. `empty` removes every row in the same commit."""
        assert (pipeline, flow) == (self._delta_flow.pipeline, self._delta_flow.name)
        found = self._table.open()
        opening = DeltaEpochOpening(pipeline, flow, epoch, continues, reason, empty=empty)
        if found is not None:
            found.check_store()
            if empty and self._delta_flow.output.mode.facts.keeps_history:
                found.forget_events(epoch)
            found.epochs.open(opening)
        elif continues is not None and any(continues):
            raise OutputDisagrees(
                f"{opening} cannot be opened: there is no table {self.place}",
                hint="bring the table back, or reset the watermark, which continues nothing",
            )

    def shows_earlier_rows(self, epoch: int) -> bool:  # noqa: ARG002 - the commit that opens an epoch empties it
        return False

    def lacks(self, continues: tuple[int, int]) -> str | None:
        found = self._table.open()
        if found is None:
            return f"epoch {continues[0]}" if any(continues) else None
        return found.epochs.lacks(continues)

    def receipt(self, tag: Tag, *, like: Batch | None = None) -> Receipt | None:
        """As `Output` promises; where the commit is gone from the log, `like` is not compared."""
        now = self._read_standing()
        return None if now is None else self._receipt(now, tag, like)

    def layout(self) -> tuple[Field, ...] | None:
        now = self._read_standing()
        if now is None or now.look is None:
            return None
        output = self._delta_flow.output
        ours = {VALID_FROM, VALID_TO, IS_CURRENT, output.surrogate_key} - {output.sequence_by}
        if not output.mode.facts.keeps_history:
            ours = set()
        return tuple(
            Field(held.name, as_sql(held.type), as_sql(held.type))
            for held in target_of(now.look).columns
            if held.name not in ours
        )

    def stage(self, batch_data: BatchData, spark: Callable[[], SparkSession]) -> Staged:
        """Plans the commit, and creates or alters the target; the rows are computed by `commit`.

        The session is the flow's own: no other flow sees a tag that is set on it.
        """
        assert isinstance(batch_data, DeltaBatch)
        own = spark()
        session.configure(own)
        token = uuid.uuid4().hex
        self._pending[token] = self._plan_pending(batch_data, own, guarded=True)
        return Staged(rows=0, change=token, notes=self._pending[token].notes)

    def commit(
        self,
        tag: Tag,
        batch: Batch,
        staged: Staged,
        *,
        layout: Layout,  # noqa: ARG002 - the rows have their own schema
        run_id: str,
    ) -> Receipt:
        guarded = True
        for attempt in range(1, _TRIES + 1):
            now = self._table.opened().epochs.ensure(tag.epoch, unmarked=self._table.by_name)
            if receipt := self._receipt(now, tag, batch):
                return receipt
            try:
                pending = self._find_pending(staged, tag, again=attempt > 1, guarded=guarded)
                with tune_for_small(pending.session, few=pending.batch_data.reads_little):
                    self._commit(now, pending, tag, batch, run_id)
                break
            except TidegaugeError:
                raise
            except Exception as error:
                # An error proves nothing: the commit may be there all the same.
                if receipt := self.receipt(tag, like=batch):
                    return receipt
                met = self._pending[staged.change].change.guarded and is_guard_error(error)
                # The last try is without a guard, so that no row can end it.
                guarded = guarded and not met and attempt + 1 < _TRIES
                if met:
                    continue
                if attempt == _TRIES or not is_conflict(error):
                    raise translate_conflict(error, self.place) from error
                time.sleep(_WAIT * 2 ** (attempt - 1) * random.uniform(0.5, 1.5))  # noqa: S311
        receipt = self.receipt(tag, like=batch)
        if receipt is None:
            raise OutputError(
                f"batch {tag.seq} was committed to {self.place}, and its log does not have it",
                hint="another Spark driver writes this table, and Delta has no safe log store"
                " (spark.delta.logStore.s3a.impl); run again: nothing of the batch is there",
                retryable=True,
            )
        return receipt

    def discard(self, staged: Staged) -> None:
        pending = self._pending.pop(staged.change, None)
        if pending is not None:
            pending.release()

    def _find_pending(self, staged: Staged, tag: Tag, *, again: bool, guarded: bool) -> PendingChange:
        """The change as it was staged. It is planned once more with `again`, and without a guard where rows
        have to leave the quarantine."""
        pending = self._pending.get(staged.change)
        if pending is None:
            raise OutputError(
                f"batch {tag.seq} for {self.place} was planned by another process",
                hint="run again: it is planned once more",
                retryable=True,
            )
        if again:
            pending = self._plan_again(staged, guarded=guarded)
        if pending.change.guarded and self._quarantine.has_to_replace(tag, whole=pending.whole):
            pending = self._plan_again(staged, guarded=False)
        return pending

    def _plan_again(self, staged: Staged, *, guarded: bool) -> PendingChange:
        before = self._pending[staged.change]
        before.release()
        made = self._plan_pending(before.batch_data, before.session, guarded=guarded)
        self._pending[staged.change] = made
        return made

    def _plan_pending(self, batch_data: DeltaBatch, own: SparkSession, *, guarded: bool) -> PendingChange:
        """Plan the change, and create or alter the target. `guarded`: with a guard, if the change can have
        one and every row of the flow's last batch was as expected."""
        found = self._table.open()
        look = found.log.look() if found else None
        name = session.name_of(self._ref)
        if found is not None and look is not None and not batch_data.reads_little:
            read_log_ahead(own, name, look, remote=found.log.store.remote)
        guarded = guarded and last_batch_passed(look, self._delta_flow)
        target = None if look is None else lambda: own.read.table(name)
        with tune_for_small(own, few=batch_data.reads_little):
            change = plan_change(batch_data, own, target, guarded=guarded)
            schema = change.rows.schema
        try:
            if found is not None and look is not None and not found.epochs.standing().ours:
                look = found.log.look() if remake(found.log, look, schema, self._delta_flow.output) else look
            if look is not None and self.refuses_lost:
                refuse_lost(look, schema, change, self._delta_flow)
            room = session.apply_changes(own, self._ref, look, schema, self._delta_flow)
        except TidegaugeError:
            raise
        except Exception as error:
            raise translate_conflict(error, self.place) from error
        return PendingChange(batch_data, own, change, room, (*change.notes, *room.notes, *self._warnings()))

    def _commit(self, now: EpochState, pending: PendingChange, tag: Tag, batch: Batch, run_id: str) -> None:
        if now.look is None:
            raise OutputError(
                f"the table {self.place} is gone", hint="somebody removed it: run again", retryable=True
            )
        found = self._table.opened()
        job = modes.DeltaWrite(
            session=pending.session,
            flow=self._delta_flow.name,
            table=session.name_of(self._ref),
            location=found.where,
            output=self._delta_flow.output,
            change=pending.change,
            columns=pending.room.columns,
            partition_by=target_of(now.look).partition_by,
            empty=now.look.is_empty(),
            tag=tag,
            events_epoch=find_events_epoch(now, tag),
            vanished=pending.room.vanished,
            small=open_small(found.log, found.lake.path, now.look) if pending.small else None,
        )
        checked, verdict = pending.check(job)
        if verdict is not None and not pending.change.guarded:
            self._quarantine.put(pending.session, verdict, tag, batch, run_id)
        said = describe_commit(
            self._delta_flow,
            self._plan,
            tag,
            batch,
            run_id,
            read=checked.read,
            checks=verdict.checks if verdict else None,
        )
        if modes.is_idle(job, checked) and self._table.opened().put(now.look, tag, said):
            return
        few = job.is_few(checked) and is_small(now.look)
        with tune_for_small(pending.session, few=few):
            modes.apply(replace(job, said=said), checked)

    def _receipt(self, now: EpochState, tag: Tag, like: Batch | None) -> Receipt | None:
        if now.epoch > tag.epoch:
            raise self._table.opened().epochs.ended(tag.epoch, now)
        if now.look is None or now.epoch < tag.epoch:
            return None
        found = find(now.look, tag)
        receipt = receipt_of(found, tag) if found else None
        if found and receipt and like:
            check_same(receipt, found, like, self.place)
        return receipt

    def _read_standing(self) -> EpochState | None:
        found = self._table.open()
        return None if found is None else found.epochs.standing()

    def _warnings(self) -> Iterator[str]:
        found = self._table.open()
        if found is not None and found.log.store.remote:
            yield (
                f"{found.where} is on S3, where two Spark drivers that write one table at once can lose a"
                " commit unless Delta has a safe log store (spark.delta.logStore.s3a.impl); a lost one is"
                " found out, and the batch fails"
            )
