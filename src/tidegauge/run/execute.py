"""Walk one claimed plan through the commit protocol. Recovery is this same code."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from tidegauge.errors import LimitReached, OutputDisagrees, OutputError, Stopped, TidegaugeError
from tidegauge.model.batch_data import ReadBatch
from tidegauge.model.claim import Claim
from tidegauge.model.plan import Batch, Receipt, Tag
from tidegauge.model.protocols.ledger import LedgerWriter
from tidegauge.model.protocols.output import Output
from tidegauge.observe.events import BatchCommitted, Listener, NoteAdded
from tidegauge.run.steps import Step, step
from tidegauge.spark.errors import translated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Tools:
    """What a walk works with: one output of its own, the rest shared."""

    ledger: LedgerWriter
    output: Output
    spark: Callable[[], SparkSession]
    """Started when the first batch really needs it, so that a finished plan costs no Spark."""
    stop: threading.Event
    tell: Listener
    lease: timedelta
    limit: int | None = None
    """Rows after which it stops, at the end of the batch in hand."""
    notes: list[str] = field(default_factory=list)
    """What outputs said of the batches, each once."""


@dataclass(frozen=True)
class Executed:
    receipts: tuple[Receipt, ...]
    error: TidegaugeError | None


def execute(claim: Claim, read_batch: ReadBatch, tools: Tools) -> Executed:
    """Commit every batch that is left of the plan, in order, as far as it goes.

    The error says why it went no further: Stopped when asked to, LeaseLost when the flow was taken over.
    """
    receipts: list[Receipt] = []
    try:
        for index in range(claim.plan.done, len(claim.plan.draft.batches)):
            if tools.stop.is_set():
                raise Stopped(
                    "stopped as asked, after the batch in hand", hint="the next run goes on from here"
                )
            if tools.limit is not None and sum(one.rows for one in receipts) >= tools.limit:
                raise LimitReached(
                    f"stopped at the limit of {tools.limit:,} rows", hint="the next run goes on from here"
                )
            receipts.append(_batch(claim, index, read_batch, tools))
    except TidegaugeError as error:
        return Executed(tuple(receipts), error)
    except Exception as error:
        # One flow's surprise must not take the others down, nor leave its own lease behind.
        surprise = TidegaugeError(
            f"{claim.plan.draft.flow}: unexpected {type(error).__name__}: {error}",
            hint="this is a bug of Tidegauge; please report it with what --debug shows",
            detail=traceback.format_exc(),
        )
        return Executed(tuple(receipts), surprise)
    return Executed(tuple(receipts), None)


def _batch(claim: Claim, index: int, read_batch: ReadBatch, tools: Tools) -> Receipt:
    plan = claim.plan
    batch = plan.draft.batches[index]
    with step(Step.BEGIN, plan.draft.flow, tools.tell):
        tools.ledger.begin(claim, index)
    # A first attempt has written nothing yet; after any other, the output knows better than we do.
    receipt = tools.output.receipt(plan.tag(index)) if claim.attempt > 1 else None
    found = receipt is not None
    if receipt is not None and not batch.deletes:
        receipt = replace(receipt, paths=read_batch(batch).paths)
    if receipt is None:
        receipt = _commit(claim, plan.tag(index), batch, read_batch, tools)
    if receipt.windows != batch.windows:
        raise OutputDisagrees(
            f"{plan.draft.flow}: the output holds another window as its batch {receipt.tag.seq}"
            " than the ledger planned",
            hint="the ledger was restored or replaced; point `ledger:` at the one that wrote this output",
        )
    with step(Step.ADVANCE, plan.draft.flow, tools.tell):
        tools.ledger.advance(claim, index, receipt)
    tools.tell(BatchCommitted(plan.draft.flow, index + 1, len(plan.draft.batches), receipt.rows, found=found))
    return receipt


def _commit(claim: Claim, tag: Tag, batch: Batch, read_batch: ReadBatch, tools: Tools) -> Receipt:
    with step(Step.WRITE, tag.flow, tools.tell), translated(tag.flow):
        batch_data = read_batch(batch)
        staged = tools.output.stage(batch_data, tools.spark)
    for note in staged.notes:
        if note not in tools.notes:
            tools.notes.append(note)
            tools.tell(NoteAdded(tag.flow, note))
    fault: OutputError | None = None
    try:
        # Whoever lost the flow while it wrote must not be seen; within the moment that is left,
        # the tag itself keeps a second writer out.
        tools.ledger.renew(claim, tools.lease)
        with step(Step.PUBLISH, tag.flow, tools.tell):
            try:
                tools.output.commit(tag, batch, staged, layout=batch_data.layout, run_id=claim.run_id)
            except OutputDisagrees:
                raise
            except OutputError as error:
                fault = error  # which proves nothing: the answer may have been lost, not the commit
        with step(Step.SETTLE, tag.flow, tools.tell):
            receipt = tools.output.receipt(tag)
    finally:
        tools.output.discard(staged)
    if receipt is None:
        better = (
            batch_data.explain(fault.__cause__ or fault) if fault is not None and batch_data.explain else None
        )
        if better is not None:
            raise better from fault
        raise fault or OutputError(
            f"{tag.flow}: batch {tag.seq} was written, but the output does not know it",
            hint="run again; if it stays so, something removes what was committed",
        )
    return replace(receipt, paths=batch_data.paths)
