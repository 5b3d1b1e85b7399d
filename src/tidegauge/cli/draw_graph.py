"""A graph of flows as text: a tree for terminals, which grows to the right layer by layer, and Mermaid."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tidegauge.flows.graph import find_layers

if TYPE_CHECKING:
    from tidegauge.flows.graph import GraphNode

_GAP = 3
_LEAST = 24


def draw_tree(nodes: Sequence[GraphNode], *, root: str, width: int) -> list[str]:
    """Each flow once, below the table it reads or the last flow that it waits for, with what else it reads.

    `root`: the folder that paths are shown from.
    """
    lines = list(_lines(nodes, root))
    states = max((len(state or "") for _, state in lines), default=0)
    room = max(_LEAST, min(max((len(text) for text, _ in lines), default=0), width - states - _GAP))
    drawn: list[str] = []
    for text, state in lines:
        if state is None:
            drawn += _folded(text, width)
        else:
            drawn.append(f"{_shortened(text, room):<{room + _GAP}}{state}".rstrip())
    return drawn


def draw_mermaid(nodes: Sequence[GraphNode], *, root: str) -> list[str]:
    """A flow chart from left to right: tables as cylinders, flows as boxes."""
    tables: dict[str, str] = {}
    flows = {node.flow: f"f{number}" for number, node in enumerate(nodes, start=1)}
    targets = {node.flow: node.target for node in nodes if node.target is not None}
    lines = ["flowchart LR"]

    def table(text: str) -> str:
        if text not in tables:
            tables[text] = f"t{len(tables) + 1}"
            lines.append(f'  {tables[text]}[("{_escaped(_from(text, root))}")]')
        return tables[text]

    for node in nodes:
        lines.append(f'  {flows[node.flow]}["{_escaped(node.flow)}<br/>{_escaped(node.state)}"]')
        for text in (*(targets[name] for name in node.upstreams), *node.sources):
            lines.append(f"  {table(text)} --> {flows[node.flow]}")
        if node.target is not None:
            lines.append(f"  {flows[node.flow]} --> {table(node.target)}")
    return lines


def _lines(nodes: Sequence[GraphNode], root: str) -> Iterator[tuple[str, str | None]]:
    """Text and state; None for a line that says more of the one above it."""
    layers = find_layers(nodes)
    below: dict[tuple[str, str], list[GraphNode]] = {}
    for node in nodes:
        below.setdefault(_parent(node, layers), []).append(node)

    def grow(at: tuple[str, str], bars: str) -> Iterator[tuple[str, str | None]]:
        children = below.get(at, [])
        for number, node in enumerate(children, start=1):
            last = number == len(children)
            inner = f"{bars}{'   ' if last else '│  '}"
            where = _arrow(node, root)
            yield f"{bars}{'└─ ' if last else '├─ '}{node.flow}{where}", node.state
            others = [name for kind, name in _reads(node) if (kind, name) != at]
            if others:
                bar = "│" if below.get(("flow", node.flow)) else " "
                yield f"{inner}{bar}  with {', '.join(_from(name, root) for name in others)}", None
            yield from grow(("flow", node.flow), inner)

    for kind, name in sorted(at for at in below if at[0] == "table"):
        yield _from(name, root), ""
        yield from grow((kind, name), "")


def _arrow(node: GraphNode, root: str) -> str:
    return "" if node.target in (None, node.flow) else f" ─▶ {_from(str(node.target), root)}"


def _reads(node: GraphNode) -> list[tuple[str, str]]:
    return [*(("flow", name) for name in node.upstreams), *(("table", name) for name in node.sources)]


def _parent(node: GraphNode, layers: dict[str, int]) -> tuple[str, str]:
    if node.upstreams:
        return "flow", max(node.upstreams, key=lambda name: layers[name])
    return "table", node.sources[0]


def _folded(text: str, width: int) -> list[str]:
    """What else a flow reads, over several lines where it has to be."""
    bars, _, names = text.partition("with ")
    return textwrap.wrap(
        names,
        max(width, len(bars) + _LEAST),
        initial_indent=f"{bars}with ",
        subsequent_indent=f"{bars}     ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _shortened(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    head, arrow, target = text.partition(" ─▶ ")
    keep = room - len(head) - len(arrow) - 1
    return f"{head}{arrow}…{target[-keep:]}" if arrow and keep > 0 else text


def _from(text: str, root: str) -> str:
    return text.removeprefix(f"{root}/")


def _escaped(text: str) -> str:
    return text.replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;")
