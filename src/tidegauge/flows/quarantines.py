"""The quarantine of each flow that can have one: the one place that tells their kinds apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tidegauge.flows.delta_places import Places
from tidegauge.flows.override import OverrideRequest
from tidegauge.flows.quarantine_shown import SetAside
from tidegauge.model.delta_flow import AnyFlow, DeltaFlow
from tidegauge.model.spec import WarehouseTable
from tidegauge.model.watermark import Watermark


class RowsAside(Protocol):
    """The rows that a flow has set aside."""

    @property
    def flow(self) -> AnyFlow: ...

    def show(self, examples: int) -> SetAside:
        """What is there; nothing where there is no table. Raises OutputDisagrees where it was altered."""

    def discard(self, reason: str, *, before_epoch: int | None = None) -> None:
        """All of them, or those of earlier epochs."""

    def set_back(self, marks: dict[str, Watermark]) -> OverrideRequest | None:
        """From where the flow has to read again, so that each of the rows is looked at again; None where its
        target only grows."""

    def append(self, reason: str) -> int:
        """Append the rows that are as expected today, and take them out of the quarantine: how many."""


def quarantines(flows: Iterable[AnyFlow], places: Places, *, named: bool) -> list[RowsAside]:
    """Of the flows that can have one. Unless they were `named`, a sync that expects nothing is not asked: its
    warehouse need not even be there."""
    found: list[RowsAside] = []
    for flow in flows:
        if isinstance(flow, DeltaFlow):
            from tidegauge.flows.quarantine import FlowQuarantine

            found.append(FlowQuarantine(flow, places))
        elif not (named or flow.options.expect):
            continue
        elif isinstance(flow.output, WarehouseTable):
            from tidegauge.flows.quarantine_synced import SyncQuarantine

            found.append(SyncQuarantine(flow))
        elif flow.uses_delta:
            from tidegauge.flows.quarantine_delta import SyncDeltaQuarantine

            found.append(SyncDeltaQuarantine(flow, places))
    return found
