"""The graph of the selected flows, with where each stands by the ledger. No Spark is started."""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.errors import TidegaugeError
from tidegauge.flows.graph import GraphNode, make_graph
from tidegauge.flows.known_sources import sources_for
from tidegauge.flows.missing_tables import find_recorded
from tidegauge.flows.select import choose
from tidegauge.ledger.open import open_ledger
from tidegauge.model.spec import Project, Stage


def find_graph(
    project: Project, selection: Sequence[str], *, stage: Stage | None = None
) -> tuple[list[GraphNode], list[TidegaugeError]]:
    """Databases are asked for their tables alone; one that cannot be is an error beside the graph."""
    with open_ledger(project.ledger, create=False) as ledger, sources_for(project, ledger, stage) as sources:
        recorded = find_recorded(ledger, project.pipeline)
        choice = choose(project, selection, sources, stage=stage, recorded=recorded, views=True)
        names = [flow.name for flow in choice.all_flows]
        statuses = {status.flow: status for status in ledger.status(project.pipeline, names)}
    return make_graph((*choice.all_flows, *choice.without_data), statuses), [
        error for _, error in choice.faults
    ]
