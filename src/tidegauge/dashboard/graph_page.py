"""The graph page: which flow reads from which, with the state and the lag of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegauge.dashboard.fleet import WORDS
from tidegauge.dashboard.snapshot import FleetSnapshots, SeenFlow
from tidegauge.errors import TidegaugeError
from tidegauge.flows.selection.graph import GraphNode, find_layers, make_graph
from tidegauge.model.position import to_text

_MOST = 150
"""How many nodes are in one drawing, unless one family alone has more."""


@dataclass(frozen=True)
class DrawnNode:
    flow: str
    target: str
    word: str
    """The flow's state; `view` or `optimize` for flows that have no state."""
    told: str
    """The same as people read it."""
    lag_seconds: float | None
    layer: int
    row: int
    upstreams: tuple[str, ...]
    sources: tuple[str, ...]
    reads: Mapping[str, str]
    """How far each input is read, by its name."""
    linked: bool
    """Whether the flow has a page."""


@dataclass(frozen=True)
class GraphPage:
    at: datetime
    nodes: tuple[DrawnNode, ...]
    total: int
    focus: str
    errors: tuple[str, ...]


def make_graph_page(snapshots: FleetSnapshots, focus: str = "") -> GraphPage:
    """The graph; with `focus` only the flows that are connected to this one, however far."""
    snapshot, found = snapshots.read(), snapshots.structure()
    if isinstance(found, TidegaugeError):
        return GraphPage(snapshot.at, (), 0, focus, (found.sentence,))
    seen = {one.flow: one for one in snapshot.flows if one.pipeline == snapshots.project.pipeline}
    nodes = make_graph((*found.all_flows, *found.without_data), {})
    families = _sort_families(_find_families(nodes), seen)
    if focus:
        families = [family for family in families if any(node.flow == focus for node in family)]
    shown: list[GraphNode] = []
    for family in families:
        if shown and len(shown) + len(family) > _MOST:
            break
        shown += family
    return GraphPage(snapshot.at, tuple(_place(shown, seen)), len(nodes), focus, ())


def _find_families(nodes: Sequence[GraphNode]) -> list[list[GraphNode]]:
    """The groups of nodes that are connected with each other."""
    family = {node.flow: node.flow for node in nodes}

    def head(name: str) -> str:
        while family[name] != name:
            name = family[name]
        return name

    for node in nodes:
        for above in node.upstreams:
            family[head(node.flow)] = head(above)
    found: dict[str, list[GraphNode]] = {}
    for node in nodes:
        found.setdefault(head(node.flow), []).append(node)
    return list(found.values())


def _sort_families(families: list[list[GraphNode]], seen: Mapping[str, SeenFlow]) -> list[list[GraphNode]]:
    """The families in order: the one with the worst state first, then the largest."""

    def worst(family: Sequence[GraphNode]) -> tuple[int, int, str]:
        words = [WORDS.index(seen[node.flow].word) for node in family if node.flow in seen]
        return min(words, default=len(WORDS)), -len(family), family[0].flow

    return sorted(families, key=worst)


def _place(nodes: Sequence[GraphNode], seen: Mapping[str, SeenFlow]) -> list[DrawnNode]:
    """Give each node its column, one for each layer, and a row close to what it reads from."""
    layers = find_layers(nodes)
    rows: dict[str, int] = {}
    used: dict[int, int] = {}
    made = []
    for node in nodes:
        layer = layers[node.flow]
        beside = [rows[name] for name in node.upstreams]
        row = max(used.get(layer, -1) + 1, min(beside, default=0))
        rows[node.flow] = used[layer] = row
        one = seen.get(node.flow)
        kind = node.state if node.state in ("view", "optimize") else "READY"
        marks = one.summary.watermarks if one else {}
        made.append(
            DrawnNode(
                node.flow,
                node.target or "",
                one.word if one else kind,
                one.told if one else kind,
                one.summary.lag_seconds if one else None,
                layer,
                row,
                node.upstreams,
                node.sources,
                {name: to_text(position) for name, position in marks.items()},
                linked=one is not None,
            )
        )
    return made
