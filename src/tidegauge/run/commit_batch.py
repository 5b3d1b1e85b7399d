"""Take one batch of a claimed plan through the commit protocol. Recovery runs the same code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from tidegauge.errors import OutputDisagrees, OutputError
from tidegauge.model.batch_data import BatchData, ReadBatch
from tidegauge.model.claim import Claim
from tidegauge.model.expectation import NOT_AS_EXPECTED
from tidegauge.model.plan import Receipt
from tidegauge.model.protocols.ledger import LedgerWriter
from tidegauge.model.protocols.output import Output
from tidegauge.model.staged import Staged
from tidegauge.model.trace import trace_files
from tidegauge.observe.events import BatchCommitted, Listener, NoteAdded
from tidegauge.run.steps import Step, step
from tidegauge.spark.errors import translate_spark_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class CommitResources:
    """What a plan is executed with. The output is the plan's own; the rest is shared with other flows."""

    ledger: LedgerWriter
    output: Output
    spark: Callable[[], SparkSession]
    """Starts Spark. Only called once a batch really needs Spark."""
    tell: Listener
    lease: timedelta
    notes: list[str] = field(default_factory=list)
    """Notes of the output about the batches, each text once."""


def commit_batch(claim: Claim, index: int, read_batch: ReadBatch, tools: CommitResources) -> Receipt:
    """Begin, write, publish, confirm and advance a batch. If the output has it already: only advance."""
    plan = claim.plan
    batch, tag = plan.draft.batches[index], plan.tag(index)
    with step(Step.BEGIN, plan.draft.flow, tools.tell):
        if index != plan.done:  # the claim has begun the first batch already
            tools.ledger.begin(claim, index)
    # The first attempt cannot find its batch in the output. An earlier attempt may have committed it.
    receipt = tools.output.receipt(tag, like=batch) if claim.attempt > 1 else None
    found, layout = receipt is not None, None
    if receipt is not None and not (batch.deletes or batch.repairs):
        receipt = replace(receipt, paths=read_batch(batch).paths)
    if receipt is None:
        with step(Step.WRITE, tag.flow, tools.tell), translate_spark_error(tag.flow):
            batch_data = read_batch(batch)
            layout = batch_data.layout
            staged = tools.output.stage(batch_data, tools.spark)
            trace_files(f"{tag.flow}: reads", batch_data.paths)
            trace_files(f"{tag.flow}: writes", (file.path for file in staged.files))
        receipt = publish_batch(claim, index, batch_data, staged, tools)
    if receipt.windows != batch.windows:  # also where the output no longer knows what the batch held
        raise OutputDisagrees(
            f"{plan.draft.flow}: the output holds another window as its batch {receipt.tag.seq}"
            " than the ledger planned",
            hint="the ledger was restored or replaced; point `ledger:` at the one that wrote this output",
        )
    with step(Step.ADVANCE, plan.draft.flow, tools.tell):
        tools.ledger.advance(claim, index, receipt, ends=True)
    _tell_checks(claim, receipt, tools)
    number, of = index + 1, len(plan.draft.batches)
    tools.tell(BatchCommitted(plan.draft.flow, number, of, receipt.rows, found=found, layout=layout))
    return receipt


def _tell_checks(claim: Claim, receipt: Receipt, tools: CommitResources) -> None:
    """Report rows that fail expectations: as a note of the run, as an event, and in the ledger's history."""
    checks = receipt.checks
    said = checks.tell() if checks else None
    if checks is None or said is None:
        return
    draft = claim.plan.draft
    note = f"batch {receipt.tag.seq}: {said}"
    tools.notes.append(note)
    tools.tell(NoteAdded(draft.flow, note))
    tools.ledger.note(
        draft.pipeline,
        draft.flow,
        NOT_AS_EXPECTED,
        owner=claim.owner,
        reason=note,
        rows=checks.quarantined or None,
    )


def publish_batch(
    claim: Claim, index: int, batch_data: BatchData, staged: Staged, tools: CommitResources
) -> Receipt:
    """Commit what was staged, then ask the output whether the tag is there. Returns the output's receipt.

    The staged rows are discarded in any case. Raises why the batch is not there.
    """
    tag, batch = claim.plan.tag(index), claim.plan.draft.batches[index]
    for note in staged.notes:
        if note not in tools.notes:
            tools.notes.append(note)
            tools.tell(NoteAdded(tag.flow, note))
    fault: OutputError | None = None
    try:
        # A runner that lost the flow while it wrote must not commit. Between this check and the commit,
        # the tag keeps a second writer out. The ledger is not written while half of the lease is left.
        tools.ledger.renew(claim, tools.lease, least=tools.lease / 2)
        with step(Step.PUBLISH, tag.flow, tools.tell):
            try:
                tools.output.commit(tag, batch, staged, layout=batch_data.layout, run_id=claim.run_id)
            except OutputDisagrees:
                raise
            except OutputError as error:
                fault = error  # proves nothing: the commit may have worked and only its answer got lost
        with step(Step.CONFIRM, tag.flow, tools.tell):
            receipt = tools.output.receipt(tag, like=batch)
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
