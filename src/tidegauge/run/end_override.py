"""Carry out an override that was begun: in the output, then in the ledger."""

from __future__ import annotations

from tidegauge.model.delta_flow import DataFlow
from tidegauge.model.override import Override
from tidegauge.model.protocols.ledger import LedgerWriter
from tidegauge.model.protocols.output import Output
from tidegauge.observe.events import Listener
from tidegauge.run.steps import OverrideStep, step


def end_override(
    ledger: LedgerWriter, output: Output, flow: DataFlow, begun: Override, tell: Listener
) -> None:
    """Open the override's epoch in the output, then end the override in the ledger. Safe to repeat by anyone.

    The output comes first: the old epoch must be closed before the ledger moves. Otherwise the output could
    still confirm a batch of a runner that wakes up late.
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
