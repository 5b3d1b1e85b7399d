"""Find out what is new for one flow, after making sure that ledger and output tell the same story."""

from __future__ import annotations

from dataclasses import replace

from tidegauge.errors import OutputDisagrees, OutputNotEmpty
from tidegauge.model.plan import Draft, Tag
from tidegauge.model.position import RowPosition
from tidegauge.model.protocols import Output, Source, Watermark
from tidegauge.model.spec import Flow
from tidegauge.model.table import Shape
from tidegauge.plan.draft import batch_step, check_identity, draft, start


def prepare(flow: Flow, source: Source, output: Output, watermark: Watermark | None) -> tuple[Shape, Draft]:
    """What a plan of this flow would be. Reads only."""
    agree(flow, output, watermark)
    shape = source.shape(flow.table, flow.options)
    check_identity(flow, shape, watermark.source_id if watermark else None)
    position = watermark.position if watermark else None
    assert position is None or isinstance(position, RowPosition)
    after = start(flow, shape, position)
    survey = source.survey(shape, after, batch_step(flow), watermark.pending if watermark else None)
    seen = (watermark.epoch, watermark.seq) if watermark else (0, 0)
    return shape, replace(draft(flow, shape, after, survey), seen=seen)


def agree(flow: Flow, output: Output, watermark: Watermark | None) -> None:
    """Refuse when the output holds what the ledger does not know, or lacks what the ledger is sure of."""
    where = f"{flow.output.path}/{flow.folder}"
    epoch, seq = (watermark.epoch, watermark.seq) if watermark else (0, 0)
    if (epoch, seq) == (0, 0) and not output.is_empty():
        raise OutputNotEmpty(
            f"{flow.name}: {where} holds batches, and the ledger knows nothing of them",
            hint="point `ledger:` at the ledger that wrote them; for a fresh start move the folder away, or"
            " leave what it holds behind with `tidegauge watermark reset`",
        )
    if not output.is_open(epoch):
        raise OutputDisagrees(
            f"{flow.name}: the ledger says that epoch {epoch} was opened, and {where} does not have it",
            hint="bring the files back, or start afresh there with `tidegauge watermark reset`",
        )
    last = Tag(flow.pipeline, flow.name, epoch, seq)
    if seq and output.receipt(last) is None:
        raise OutputDisagrees(
            f"{flow.name}: the ledger says batch {seq} was committed, and {where} does not have it",
            hint="bring the files back, or start afresh there with `tidegauge watermark reset`",
        )
    # Also where nothing was committed: asking refuses a ledger that missed the opening of a later epoch.
    if output.receipt(Tag(flow.pipeline, flow.name, epoch, seq + 1)) is not None:
        raise OutputDisagrees(
            f"{flow.name}: {where} holds more batches than the ledger knows ({seq})",
            hint="the ledger is an older copy; bring back the newest one",
        )
