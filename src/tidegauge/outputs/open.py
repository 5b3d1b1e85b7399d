"""Opens the output of a table's flow: lake, Delta table or warehouse."""

from __future__ import annotations

from tidegauge.model.protocols.output import Output
from tidegauge.model.spec import DeltaFolder, LakeTable, TableFlow
from tidegauge.outputs.lake.output import LakeOutput
from tidegauge.outputs.warehouse.output import WarehouseOutput


def open_output(flow: TableFlow) -> Output:
    """Make the flow's output without connecting to it: `prepare` connects."""
    if isinstance(flow.output, LakeTable):
        return LakeOutput(flow.output.lake, flow.output.folder)
    if isinstance(flow.output, DeltaFolder):
        from tidegauge.outputs.delta.synced import SyncedDeltaOutput

        return SyncedDeltaOutput(flow)
    return WarehouseOutput(flow)
