"""Open a flow from its spec: the one place that tells the kinds of flow apart."""

from __future__ import annotations

from tidegauge.flows.extract import ExtractFlow
from tidegauge.flows.flow import Flow, FlowResources
from tidegauge.flows.load import LoadFlow
from tidegauge.flows.replicate import ReplicateFlow
from tidegauge.model.delta_flow import DataFlow, DeltaFlow


def open_flow(spec: DataFlow, resources: FlowResources) -> Flow:
    """Make the flow that a spec describes. Connects to nothing."""
    if isinstance(spec, DeltaFlow) and spec.by_column is not None:
        from tidegauge.flows.by_column import ByColumnFlow

        return ByColumnFlow(spec, resources)
    if isinstance(spec, DeltaFlow):
        # Imported late, because it loads the SQL parser, which projects of tables alone do not need.
        from tidegauge.flows.delta import TransformFlow

        return TransformFlow(spec, resources)
    if spec.reads is not None:
        return LoadFlow(spec, resources)
    return ExtractFlow(spec, resources) if spec.output.in_lake else ReplicateFlow(spec, resources)
