"""The graph of the selected flows, with the state of each from the ledger. Starts no Spark."""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.errors import TidegaugeError
from tidegauge.flows.selection.graph import GraphNode, make_graph
from tidegauge.flows.selection.known_sources import LedgerSources, sources_for
from tidegauge.flows.selection.missing_tables import find_recorded, find_remembered
from tidegauge.flows.selection.select import Selection, choose
from tidegauge.ledger.open import open_ledger
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import Project, Stage
from tidegauge.model.view_flow import in_flows
from tidegauge.operations.status import read_statuses


def find_graph(
    project: Project, selection: Sequence[str], *, stage: Stage | None = None
) -> tuple[list[GraphNode], list[TidegaugeError]]:
    """Return the graph, and an error for each database that fails. Asks databases only for their tables."""
    with open_ledger(project.ledger, create=False) as ledger, sources_for(project, ledger, stage) as sources:
        recorded = find_recorded(ledger, project.pipeline)
        choice = choose(project, selection, sources, stage=stage, recorded=recorded, views=True)
        statuses = {status.flow: status for status in read_statuses(ledger, project.pipeline)}
    return make_graph((*choice.all_flows, *choice.without_data), statuses), [
        error for _, error in choice.faults
    ]


def remember_flows(project: Project, statuses: Sequence[FlowStatus]) -> Selection:
    """Return the flows that the ledger and the file name. Asks no database, so it is fast and works while
    they are down, but does not include a table that no run has seen yet."""
    written = {flow.name for flow in in_flows(project)} | {flow.name for flow in project.optimizes}
    names = [name for name in find_remembered(statuses) if name not in written]
    with LedgerSources(project, names) as sources:
        return choose(project, (), sources, views=True)
