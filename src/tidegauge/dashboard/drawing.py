"""Charts as inline SVG, with classes of the stylesheet. Most text is in the HTML around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup, escape

from tidegauge.dashboard.flow_page import MarkLine
from tidegauge.dashboard.gap_map import Lane, Strip
from tidegauge.dashboard.graph_page import DrawnNode
from tidegauge.dashboard.run_pages import RunPage, RunStep
from tidegauge.model.secret import mask
from tidegauge.observe.tables import show_duration

_BARS, _HEIGHT, _STEP = 40, 28, 6
_WIDE = 1000
_BOX_WIDTH, _BOX_HEIGHT, _GAP_X, _GAP_Y = 220, 52, 70, 14


def show_word(word: str) -> str:
    """A told state as pages show it."""
    return word.lower()


def _text(value: object) -> Markup:
    return escape(mask(str(value)))


def draw_bars(values: Sequence[float], unit: str) -> Markup:
    """Bars for the last runs, oldest on the left; the newest is highlighted."""
    shown = list(values)[-_BARS:]
    if not shown:
        return Markup('<span class="none">—</span>')
    top = max(shown) or 1.0
    bars = []
    for index, value in enumerate(shown):
        height = max(1.0, value / top * _HEIGHT)
        newest = " newest" if index == len(shown) - 1 else ""
        bars.append(
            f'<rect class="bar{newest}" x="{index * _STEP}" y="{_HEIGHT - height:.1f}" width="{_STEP - 1}"'
            f' height="{height:.1f}"><title>{_number(value)} {_text(unit)}</title></rect>'
        )
    label = f"the last {len(shown)} runs, newest {_number(shown[-1])} {unit}"
    width = len(shown) * _STEP
    return Markup(  # noqa: S704 - numbers, and text that was escaped
        f'<svg class="bars" width="{width}" height="{_HEIGHT}" viewBox="0 0 {width} {_HEIGHT}" role="img"'
        f' aria-label="{_text(label)}">{"".join(bars)}</svg>'
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.1f}"


def draw_marks(line: MarkLine) -> Markup:
    """Watermark, checked, the plan's end and now as points on one line; the part between what is delivered
    and now is marked as the lag."""
    if line.axis is None:
        return Markup("")
    axis = line.axis
    placed = [(one.name, axis.share(one.place) * _WIDE) for one in line.points if one.place is not None]
    shapes = ['<rect class="rail" x="0" y="10" width="1000" height="4"/>']
    where = dict(placed)
    # Up to `checked` all is delivered, unless a plan still has to bring rows from there.
    ends = [
        where[name] for name in ("watermark", *(() if "plan" in where else ("checked",))) if name in where
    ]
    if ends:
        reached = max(ends)
        shapes.append(f'<rect class="reached" x="0" y="10" width="{reached:.1f}" height="4"/>')
        if "now" in where:
            gap = max(where["now"] - reached, 0.0)
            shapes.append(f'<rect class="behind" x="{reached:.1f}" y="10" width="{gap:.1f}" height="4"/>')
    # The watermark is drawn last, so that it is on top of points at the same place.
    for name, place in reversed(placed):
        shapes.append(f'<rect class="point p-{name}" x="{place - 3:.1f}" y="3" width="6" height="18"/>')
    said = "; ".join(f"{one.name} {one.text}" for one in line.points)
    return Markup(  # noqa: S704
        f'<svg class="marks" viewBox="0 0 {_WIDE} 24" preserveAspectRatio="none" role="img"'
        f' aria-label="{_text(said)}">{"".join(shapes)}</svg>'
    )


def draw_lane(strip: Strip, lane: Lane) -> Markup:
    """One lane of the gap map; each piece links to its row in the list below."""
    shapes = ['<rect class="rail" x="0" y="2" width="1000" height="20"/>']
    for piece in lane.pieces:
        left = piece.left * _WIDE
        width = max((piece.right - piece.left) * _WIDE, 3.0)
        left = min(left, _WIDE - width)
        shapes.append(
            f'<a href="#piece-{piece.number}" aria-label="{_text(piece.says)}">'
            f'<rect class="piece k-{piece.kind.value}" x="{left:.1f}" y="2" width="{width:.1f}" height="20">'
            f"<title>{_text(piece.says)}</title></rect></a>"
        )
    return Markup(  # noqa: S704
        f'<svg class="lane" viewBox="0 0 {_WIDE} 24" preserveAspectRatio="none" role="group"'
        f' aria-label="{_text(strip.input)}">{"".join(shapes)}</svg>'
    )


def draw_step(page: RunPage, step: RunStep) -> Markup:
    left = page.axis.share(step.began) * _WIDE
    width = max(page.axis.share(step.ended) * _WIDE - left, 3.0)
    left = min(left, _WIDE - width)
    state = step.attempt.state.value
    return Markup(  # noqa: S704
        f'<svg class="step" viewBox="0 0 {_WIDE} 14" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="rail" x="0" y="6" width="1000" height="2"/>'
        f'<rect class="bar s-{state}" x="{left:.1f}" y="1" width="{width:.1f}" height="12"/></svg>'
    )


def draw_graph(nodes: Sequence[DrawnNode], address: Callable[[str], str]) -> Markup:
    """The graph with its layers from left to right; each box links to its flow's page."""
    if not nodes:
        return Markup("")
    places = {node.flow: (_x(node.layer), _y(node.row)) for node in nodes}
    wide = max(_x(node.layer) for node in nodes) + _BOX_WIDTH + 4
    high = max(_y(node.row) for node in nodes) + _BOX_HEIGHT + 4
    edges = [
        _draw_edge(places[above], places[node.flow], above, node)
        for node in nodes
        for above in node.upstreams
        if above in places
    ]
    boxes = [_draw_box(node, *places[node.flow], address) for node in nodes]
    return Markup(  # noqa: S704
        f'<svg class="graph" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" role="group"'
        f' aria-label="the flows and what they read from">{"".join(edges)}{"".join(boxes)}</svg>'
    )


def _x(layer: int) -> int:
    return 2 + layer * (_BOX_WIDTH + _GAP_X)


def _y(row: int) -> int:
    return 2 + row * (_BOX_HEIGHT + _GAP_Y)


def _draw_edge(begin: tuple[int, int], end: tuple[int, int], above: str, node: DrawnNode) -> str:
    x1, y1 = begin[0] + _BOX_WIDTH, begin[1] + _BOX_HEIGHT // 2
    x2, y2 = end[0], end[1] + _BOX_HEIGHT // 2
    middle = (x1 + x2) // 2
    read = "; ".join(f"{name} read up to {text}" for name, text in node.reads.items())
    said = _text(f"{above} → {node.flow}" + (f": {read}" if read else ""))
    curve = f"M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}"
    return f'<path class="edge" d="{curve}"><title>{said}</title></path>'


def _draw_box(node: DrawnNode, x: int, y: int, address: Callable[[str], str]) -> str:
    lag = "" if node.lag_seconds is None else f" · {show_duration(node.lag_seconds)} behind"
    reads = f"reads {', '.join(node.sources)}; " if node.sources else ""
    title = _text(f"{node.flow}: {reads}writes {node.target or 'no table of its own'}")
    corner = f'x="{x}" y="{y}" height="{_BOX_HEIGHT}"'
    inner = (
        f"<title>{title}</title>"
        f'<rect class="box" {corner} width="{_BOX_WIDTH}"/>'
        f'<rect class="side s-{_text(node.word)}" {corner} width="5"/>'
        f'<text class="name" x="{x + 14}" y="{y + 21}">{_text(_shorten_name(node.flow))}</text>'
        f'<text class="more" x="{x + 14}" y="{y + 40}">{_text(show_word(node.told) + lag)}</text>'
    )
    where = address(node.flow) if node.linked else ""
    return f'<a href="{_text(where)}">{inner}</a>' if where else f"<g>{inner}</g>"


def _shorten_name(name: str, most: int = 27) -> str:
    """Cut a long name at its beginning, as its end tells more."""
    return name if len(name) <= most else f"…{name[-most + 1 :]}"
