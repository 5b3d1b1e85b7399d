"""Walk one claimed plan through the commit protocol. Recovery is this same code."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from tidegauge.engine.spark_errors import translated
from tidegauge.engine.steps import Step, step
from tidegauge.errors import OutputDisagrees, OutputError, Stopped, TidegaugeError
from tidegauge.model.plan import Batch, Receipt, Tag
from tidegauge.model.protocols import Claim, LedgerWriter, Output, Reader
from tidegauge.model.table import Shape
from tidegauge.observe.events import BatchCommitted, Listener

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Tools:
    """What a walk works with: one output and reader of its own, the rest shared."""

    ledger: LedgerWriter
    output: Output
    reader: Reader
    spark: Callable[[], SparkSession]
    """Started when the first batch is really read, so that a finished plan costs no Spark."""
    stop: threading.Event
    tell: Listener
    lease: timedelta


@dataclass(frozen=True)
class Walked:
    batches: int
    rows: int
    error: TidegaugeError | None


def walk(claim: Claim, shape: Shape, tools: Tools) -> Walked:
    """Commit every batch that is left of the plan, in order, as far as it goes.

    The error says why it went no further: Stopped when asked to, LeaseLost when the flow was taken over.
    """
    batches = rows = 0
    try:
        for index in range(claim.plan.done, len(claim.plan.draft.batches)):
            if tools.stop.is_set():
                raise Stopped(
                    "stopped as asked, after the batch in hand", hint="the next run goes on from here"
                )
            rows += _batch(claim, index, shape, tools)
            batches += 1
    except TidegaugeError as error:
        return Walked(batches, rows, error)
    except Exception as error:
        # One flow's surprise must not take the others down, nor leave its own lease behind.
        surprise = TidegaugeError(
            f"{claim.plan.draft.flow}: unexpected {type(error).__name__}: {error}",
            hint="this is a bug of Tidegauge; please report it with what --debug shows",
            detail=traceback.format_exc(),
        )
        return Walked(batches, rows, surprise)
    return Walked(batches, rows, None)


def _batch(claim: Claim, index: int, shape: Shape, tools: Tools) -> int:
    plan = claim.plan
    batch = plan.draft.batches[index]
    with step(Step.BEGIN, plan.draft.flow, tools.tell):
        tools.ledger.begin(claim, index)
    # A first attempt has written nothing yet; after any other, the output knows better than we do.
    receipt = tools.output.receipt(plan.tag(index)) if claim.attempt > 1 else None
    found = receipt is not None
    if receipt is None:
        receipt = _commit(claim, plan.tag(index), batch, shape, tools)
    if receipt.windows != batch.windows:
        raise OutputDisagrees(
            f"{plan.draft.flow}: the output holds another window as its batch {receipt.tag.seq}"
            " than the ledger planned",
            hint="the ledger was restored or replaced; point `ledger:` at the one that wrote this output",
        )
    with step(Step.ADVANCE, plan.draft.flow, tools.tell):
        tools.ledger.advance(claim, index, receipt)
    tools.tell(BatchCommitted(plan.draft.flow, index + 1, len(plan.draft.batches), receipt.rows, found=found))
    return receipt.rows


def _commit(claim: Claim, tag: Tag, batch: Batch, shape: Shape, tools: Tools) -> Receipt:
    with step(Step.WRITE, tag.flow, tools.tell), translated(shape):
        files = tools.output.write(tools.reader.read(tools.spark(), shape, batch))
    # Whoever lost the flow while it wrote must not be seen; within the moment that is left,
    # the tag itself keeps a second writer out.
    tools.ledger.renew(claim, tools.lease)
    fault: OutputError | None = None
    with step(Step.PUBLISH, tag.flow, tools.tell):
        try:
            tools.output.publish(tag, batch, files, shape=shape, run_id=claim.run_id)
        except OutputDisagrees:
            raise
        except OutputError as error:
            fault = error  # which proves nothing: the answer may have been lost, not the commit
    with step(Step.SETTLE, tag.flow, tools.tell):
        receipt = tools.output.receipt(tag)
    if receipt is None:
        raise fault or OutputError(
            f"{tag.flow}: batch {tag.seq} was written, but the output does not know it",
            hint="run again; if it stays so, something removes files from the lake",
        )
    return receipt
