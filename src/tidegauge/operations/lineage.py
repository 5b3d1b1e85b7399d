"""Lineage of a run: a listener that describes each flow and sends OpenLineage events."""

from __future__ import annotations

from tidegauge.flows.delta_locator import DeltaTableLocator
from tidegauge.flows.lineage import describe_lineage
from tidegauge.model.lineage import FlowLineage
from tidegauge.model.spec import Project
from tidegauge.model.table import Layout
from tidegauge.model.view_flow import GraphFlow
from tidegauge.observe.lineage import LineageListener
from tidegauge.observe.openlineage import make_sender
from tidegauge.operations.retention import current_session


def open_lineage(project: Project) -> LineageListener | None:
    """Open the listener; None if the project has no lineage. Raises RuntimeMissing without the library."""
    settings = project.telemetry.lineage
    if settings is None:
        return None

    def describe(flow: GraphFlow, layout: Layout | None) -> FlowLineage | None:
        # New each time, because a table may have been created since. Names need Spark's session.
        return describe_lineage(flow, layout, DeltaTableLocator(current_session))

    return LineageListener(describe, make_sender(settings, project.pipeline))
