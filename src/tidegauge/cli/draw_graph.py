"""Draws a graph of flows as text: a tree for terminals, with a layer in each indent, or Mermaid."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tidegauge.flows.selection.graph import find_layers

if TYPE_CHECKING:
    from tidegauge.flows.selection.graph import GraphNode

_GAP = 3
_LEAST = 24


def draw_tree(nodes: Sequence[GraphNode], *, root: str, width: int) -> list[str]:
    """The lines of the tree. Each flow is drawn once, below the table it reads or the last flow it waits for.

    A line `with …` below it names its other inputs. Paths are shown relative to `root`.
    """
    lines = list(_lines(nodes, root))
    states = max((len(state or "") for _, state in lines), default=0)
    room = max(_LEAST, min(max((len(text) for text, _ in lines), default=0), width - states - _GAP))
    drawn: list[str] = []
    for text, state in lines:
        if state is None:
            drawn += _fold(text, width)
        else:
            drawn.append(f"{_shorten(text, room):<{room + _GAP}}{state}".rstrip())
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
            lines.append(f'  {tables[text]}[("{_escape(_from(text, root))}")]')
        return tables[text]

    for node in nodes:
        lines.append(f'  {flows[node.flow]}["{_escape(node.flow)}<br/>{_escape(node.state)}"]')
        for text in (*(targets[name] for name in node.upstreams), *node.sources):
            lines.append(f"  {table(text)} --> {flows[node.flow]}")
        if node.target is not None:
            lines.append(f"  {flows[node.flow]} --> {table(node.target)}")
    return lines


def _lines(nodes: Sequence[GraphNode], root: str) -> Iterator[tuple[str, str | None]]:
    """Each line's text and state; the state is None for a `with …` line, which belongs to the line above."""
    layers = find_layers(nodes)
    below: dict[tuple[str, str], list[GraphNode]] = {}
    for node in nodes:
        below.setdefault(_find_parent(node, layers), []).append(node)

    def grow(at: tuple[str, str], bars: str) -> Iterator[tuple[str, str | None]]:
        children = below.get(at, [])
        for number, node in enumerate(children, start=1):
            last = number == len(children)
            inner = f"{bars}{'   ' if last else '│  '}"
            where = _describe_target(node, root)
            yield f"{bars}{'└─ ' if last else '├─ '}{node.flow}{where}", node.state
            others = [name for kind, name in _find_inputs(node) if (kind, name) != at]
            if others:
                bar = "│" if below.get(("flow", node.flow)) else " "
                yield f"{inner}{bar}  with {', '.join(_from(name, root) for name in others)}", None
            yield from grow(("flow", node.flow), inner)

    for kind, name in sorted(at for at in below if at[0] == "table"):
        yield _from(name, root), ""
        yield from grow((kind, name), "")


def _describe_target(node: GraphNode, root: str) -> str:
    return "" if node.target in (None, node.flow) else f" ─▶ {_from(str(node.target), root)}"


def _find_inputs(node: GraphNode) -> list[tuple[str, str]]:
    """All that the flow reads: `flow` or `table`, and its name."""
    return [*(("flow", name) for name in node.upstreams), *(("table", name) for name in node.sources)]


def _find_parent(node: GraphNode, layers: dict[str, int]) -> tuple[str, str]:
    """What the node is drawn below: the upstream in the highest layer; without upstreams its first table."""
    if node.upstreams:
        return "flow", max(node.upstreams, key=lambda name: layers[name])
    return "table", node.sources[0]


def _fold(text: str, width: int) -> list[str]:
    """Fold a `with …` line into several lines if it is wider than the terminal."""
    bars, _, names = text.partition("with ")
    return textwrap.wrap(
        names,
        max(width, len(bars) + _LEAST),
        initial_indent=f"{bars}with ",
        subsequent_indent=f"{bars}     ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _shorten(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    head, arrow, target = text.partition(" ─▶ ")
    keep = room - len(head) - len(arrow) - 1
    return f"{head}{arrow}…{target[-keep:]}" if arrow and keep > 0 else text


def _from(text: str, root: str) -> str:
    """The path relative to `root`, if it is below it."""
    return text.removeprefix(f"{root}/")


def _escape(text: str) -> str:
    return text.replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;")
