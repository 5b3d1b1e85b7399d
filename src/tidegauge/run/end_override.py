"""End an override that was begun: in the output, then in the ledger."""

from __future__ import annotations

from tidegauge.model.delta_flow import AnyFlow
from tidegauge.model.override import Override
from tidegauge.model.protocols.ledger import LedgerWriter
from tidegauge.model.protocols.output import Output
from tidegauge.observe.events import Listener
from tidegauge.run.steps import OverrideStep, step


def end_override(
    ledger: LedgerWriter, output: Output, flow: AnyFlow, begun: Override, tell: Listener
) -> None:
    """The two steps that an override begun still needs. Anyone may do them, and do them again.

    The output comes first: once the ledger has moved, the old epoch must be closed already, or a runner that
    woke up could still be confirmed by it.
    """
    with step(OverrideStep.OPEN, flow.name, tell):
        output.open_epoch(
            flow.pipeline,
            flow.name,
            begun.epoch,
            begun.continues,
            begun.reason,
            empty=begun.kind == "refresh",
        )
    with step(OverrideStep.END, flow.name, tell):
        ledger.end_override(flow.pipeline, flow.name, epoch=begun.epoch)
