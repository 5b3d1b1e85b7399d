"""Open the quarantine of each flow that can have one: the one place that tells their kinds apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tidegauge.flows.delta_locator import DeltaTableLocator
from tidegauge.flows.override.preview import OverrideRequest
from tidegauge.flows.quarantine.summary import QuarantineSummary
from tidegauge.model.delta_flow import DataFlow, DeltaFlow
from tidegauge.model.spec import WarehouseTable
from tidegauge.model.watermark import Watermark


class ReplayableQuarantine(Protocol):
    """The quarantine of a flow."""

    @property
    def flow(self) -> DataFlow: ...

    def show(self, examples: int) -> QuarantineSummary:
        """Count the quarantined rows, and show some as examples; none if there is no quarantine table.

        Raises OutputDisagrees if somebody has altered the table.
        """

    def discard(self, reason: str, *, before_epoch: int | None = None) -> None:
        """Delete all quarantined rows, or only those of earlier epochs. `reason`: for the history."""

    def set_back(self, marks: dict[str, Watermark]) -> OverrideRequest | None:
        """The override after which the flow reads or evaluates each quarantined row again.

        None if the target only grows: then `append` replays the rows.
        """

    def append(self, reason: str) -> int:
        """Move the rows that meet today's expectations from the quarantine to the target; return how many."""


def open_quarantines(
    flows: Iterable[DataFlow], places: DeltaTableLocator, *, named: bool
) -> list[ReplayableQuarantine]:
    """Open the quarantines of these flows. `named`: the user has named the flows.

    Otherwise a sync without expectations is left out, so that its warehouse need not be reachable.
    """
    found: list[ReplayableQuarantine] = []
    for flow in flows:
        if isinstance(flow, DeltaFlow):
            from tidegauge.flows.quarantine.delta_flow import FlowQuarantine

            found.append(FlowQuarantine(flow, places))
        elif not (named or flow.options.expect):
            continue
        elif isinstance(flow.output, WarehouseTable):
            from tidegauge.flows.quarantine.warehouse_sync import SyncQuarantine

            found.append(SyncQuarantine(flow))
        elif flow.uses_delta:
            from tidegauge.flows.quarantine.delta_sync import SyncDeltaQuarantine

            found.append(SyncDeltaQuarantine(flow, places))
    return found
