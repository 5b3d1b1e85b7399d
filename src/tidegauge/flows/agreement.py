"""Check that ledger and output agree on what was committed. If not, nothing is planned or resumed."""

from __future__ import annotations

from tidegauge.errors import OutputDisagrees, OutputNotEmpty
from tidegauge.model.delta_flow import DataFlow
from tidegauge.model.plan import Tag
from tidegauge.model.protocols.output import Output
from tidegauge.model.watermark import Watermark


def check_agreement(
    flow: DataFlow, output: Output, watermark: Watermark | None, *, may_be_lost: bool = False
) -> None:
    """Refuse an output that holds batches which the ledger does not know, or lacks batches which it knows.

    Raises OutputNotEmpty or OutputDisagrees. `may_be_lost`: accept a target that is gone, because a person
    has asked to fill it again.
    """
    where = output.place
    epoch, seq = (watermark.epoch, watermark.seq) if watermark else (0, 0)
    if (epoch, seq) == (0, 0) and not output.is_empty():
        raise OutputNotEmpty(
            f"{flow.name}: {where} holds {flow.holds}, and the ledger knows nothing of them",
            hint="point `ledger:` at the ledger that wrote them, or bring its watermarks back with `tidegauge"
            " ledger rebuild`; for a fresh start move them away, or leave what it holds behind with"
            " `tidegauge watermark reset`",
        )
    check_still_there(flow, output, watermark, may_be_lost=may_be_lost)
    # Also where nothing was committed: `receipt` raises if a later epoch was opened, unknown to the ledger.
    if output.receipt(Tag(flow.pipeline, flow.name, epoch, seq + 1)) is not None:
        raise OutputDisagrees(
            f"{flow.name}: {where} holds more batches than the ledger knows ({seq})",
            hint="the ledger is an older copy: bring back the newest one, or its watermarks from the outputs"
            " with `tidegauge ledger rebuild`",
        )


def check_still_there(
    flow: DataFlow, output: Output, watermark: Watermark | None, *, may_be_lost: bool = False
) -> None:
    """Refuse an output that lacks the watermark's epoch or batch. Can also be asked while a plan runs."""
    where = output.place
    epoch, seq = (watermark.epoch, watermark.seq) if watermark else (0, 0)
    hint = (
        "bring back what is gone, or begin again at the beginning with `tidegauge run --select"
        f" {flow.refresh_name} --full-refresh`"
    )
    if not output.is_open(epoch, kept=not may_be_lost):
        raise OutputDisagrees(
            f"{flow.name}: the ledger says that epoch {epoch} was opened, and {where} does not have it",
            hint=hint,
        )
    if seq and output.receipt(Tag(flow.pipeline, flow.name, epoch, seq)) is None:
        raise OutputDisagrees(
            f"{flow.name}: the ledger says batch {seq} was committed, and {where} does not have it",
            hint=hint,
        )
