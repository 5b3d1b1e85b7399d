"""The flows of a project as a graph: what each one reads and writes, and which flows write what it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegauge.model.optimize_flow import OPTIMIZE, OptimizeFlow
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import TableFlow
from tidegauge.model.state import tell_state
from tidegauge.model.view_flow import VIEW, GraphFlow, ViewFlow


@dataclass(frozen=True)
class GraphNode:
    flow: str
    target: str | None
    """The name of the table that the flow writes; None: it writes no table of its own."""
    upstreams: tuple[str, ...]
    """The flows of the graph that the flow reads from."""
    sources: tuple[str, ...]
    """The tables that the flow reads and that no flow of the graph writes."""
    state: str
    """The state in the ledger, with the batches left; `view` or `optimize` for flows without a state."""


def make_graph(flows: Sequence[GraphFlow], statuses: Mapping[str, FlowStatus]) -> list[GraphNode]:
    """The nodes, in an order in which the flows can run."""
    targets = {flow.name: flow.target for flow in flows}
    nodes = [
        GraphNode(
            flow.name,
            None if isinstance(flow, OptimizeFlow) else flow.target,
            tuple(name for name in flow.upstreams if name in targets),
            tuple(_sources(flow, targets)),
            _kind(flow) or _state(statuses.get(flow.name)),
        )
        for flow in flows
    ]
    layers = find_layers(nodes)
    return sorted(nodes, key=lambda node: layers[node.flow])


def find_layers(nodes: Sequence[GraphNode]) -> dict[str, int]:
    """By flow, the length of the longest chain of flows that it reads from."""
    above = {node.flow: node.upstreams for node in nodes}
    found: dict[str, int] = {}
    while len(found) < len(above):
        ready = [name for name in above if name not in found and all(one in found for one in above[name])]
        found |= {name: 1 + max((found[one] for one in above[name]), default=-1) for name in ready}
    return found


def _kind(flow: GraphFlow) -> str | None:
    return VIEW if isinstance(flow, ViewFlow) else OPTIMIZE if isinstance(flow, OptimizeFlow) else None


def _sources(flow: GraphFlow, targets: Mapping[str, str]) -> list[str]:
    if isinstance(flow, OptimizeFlow):
        return [one.target for one in flow.looks_after if one.name not in targets]
    if not isinstance(flow, TableFlow):
        written = {targets[name].casefold() for name in flow.upstreams if name in targets}
        tables = dict.fromkeys(str(part.table) for part in flow.inputs)
        return [table for table in tables if table.casefold() not in written]
    if flow.reads is not None:
        return [] if flow.upstream in targets else [str(flow.reads)]
    return [f"{flow.source.name}: {flow.table}"]


def _state(status: FlowStatus | None) -> str:
    if status is None:
        return "READY"
    left = len(status.plan.draft.batches) - status.plan.done if status.plan else 0
    more = f", {left:,} {'batch' if left == 1 else 'batches'} left" if left else ""
    state = tell_state(status.shown_state, suspended=status.suspended is not None, prevented=True)
    return f"{state}{more}"
