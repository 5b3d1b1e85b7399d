"""Look at all targets of a warehouse at once, instead of asking for each flow."""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.errors import TidegaugeError
from tidegauge.flows.flow import Flow
from tidegauge.flows.table.base import TableFlowBase
from tidegauge.outputs.warehouse.output import WarehouseOutput
from tidegauge.outputs.warehouse.up_to_date import ExpectedTarget, by_place, find_up_to_date


def check_targets(flows: Sequence[Flow]) -> None:
    """Set `target_checked` on the flows whose targets agree with the ledger. Never raises.

    Planning asks the targets of other flows one by one, and so finds what is wrong with them.
    """
    found = {flow.spec.name: flow for flow in flows if isinstance(flow, TableFlowBase)}
    expected = [
        ExpectedTarget(flow.output.target, *((flow.mark.epoch, flow.mark.seq) if flow.mark else (0, 0)))
        for flow in found.values()
        if isinstance(flow.output, WarehouseOutput)
    ]
    for group in by_place(expected):
        if len(group) == 1:
            continue
        try:
            standing = find_up_to_date(group)
        except TidegaugeError:
            continue
        for name in standing:
            found[name].target_checked = True
