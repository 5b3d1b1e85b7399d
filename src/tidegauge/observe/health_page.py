"""The health of a project as one self-contained HTML page: no script, no font, no network."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from html import escape

from tidegauge.model.health import OF_FLOWS, HealthFinding, HealthLevel, HealthReport, worst
from tidegauge.model.secret import mask

_COLOURS = {HealthLevel.HEALTHY: "#1a7f4b", HealthLevel.WARNING: "#b26a00", HealthLevel.CRITICAL: "#c0262d"}
_WIDTH, _HEIGHT, _BARS = 132, 30, 24
_STYLE = """
:root { color-scheme: light dark; --line: #8883; --soft: #8881; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 88rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
p.when { color: #888; margin: .2rem 0 1.2rem; }
.pill { border-radius: 1rem; color: #fff; font-size: .78rem; font-weight: 600; padding: .12rem .6rem;
  white-space: nowrap; }
.tiles { display: flex; flex-wrap: wrap; gap: .8rem; }
.tile { background: var(--soft); border-radius: .6rem; min-width: 8rem; padding: .7rem 1rem; }
.tile b { display: block; font-size: 1.6rem; }
table { border-collapse: collapse; table-layout: fixed; width: 100%; }
th:first-child { width: 17.5rem; } th:nth-last-child(-n+2) { width: 8.6rem; }
th { color: #888; font-size: .78rem; font-weight: 600; text-align: left; }
th, td { border-bottom: 1px solid var(--line); padding: .45rem .6rem; vertical-align: top; }
td.flow { font-weight: 600; overflow-wrap: anywhere; }
td.flow p { margin: .15rem 0 0; } td.flow small { color: #888; font-weight: 400; margin-left: .4rem; }
td div { font-size: .85rem; } svg { display: block; } .none { color: #888; }
"""


def health_page(
    pipeline: str, now: datetime, flows: Sequence[HealthReport], findings: Sequence[HealthFinding] = ()
) -> str:
    """Render the page; `findings` are about the pipeline as a whole."""
    overall = worst([*(one.level for one in flows), *(one.level for one in findings)])
    layers = dict.fromkeys(one.layer for one in flows)
    sections = "".join(_section(layer, [one for one in flows if one.layer == layer]) for layer in layers)
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{escape(pipeline)}: {overall}</title><style>{_STYLE}</style></head><body>
<h1>{escape(pipeline)} {_pill(overall)}</h1>
<p class="when">{now:%Y-%m-%d %H:%M} UTC, by the ledger's clock</p>
<div class="tiles">{_tiles(flows)}</div>
{_pipeline_section(findings)}{sections}</body></html>
"""
    return mask(page)


def _tiles(flows: Sequence[HealthReport]) -> str:
    counts = {level.value.lower(): sum(one.level is level for one in flows) for level in HealthLevel}
    shown = {"flows": len(flows), **counts}
    return "".join(f'<div class="tile"><b>{count}</b>{name}</div>' for name, count in shown.items())


def _pipeline_section(findings: Sequence[HealthFinding]) -> str:
    rows = "".join(f"<tr><th>{one.check}</th><td>{_cell([one])}</td></tr>" for one in findings)
    return f"<h2>pipeline</h2><table><tbody>{rows}</tbody></table>\n" if rows else ""


def _section(layer: str, flows: Sequence[HealthReport]) -> str:
    heads = ["flow", *(check.value for check in OF_FLOWS), "seconds", "rows"]
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "".join(_row(one) for one in flows)
    title = f"<h2>{escape(layer)}</h2>" if layer else "<h2>flows</h2>"
    return f"{title}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>\n"


def _row(one: HealthReport) -> str:
    cells = "".join(
        f"<td>{_cell([found for found in one.findings if found.check is check])}</td>" for check in OF_FLOWS
    )
    # A long name may break after an underscore.
    words = escape(one.flow).replace("_", "_<wbr>")
    name = f'<td class="flow">{words}<p>{_pill(one.level)}<small>{escape(one.state)}</small></p></td>'
    return f"<tr>{name}{cells}<td>{_bars(one.seconds, 's')}</td><td>{_bars(one.rows, 'rows')}</td></tr>\n"


def _cell(findings: Sequence[HealthFinding]) -> str:
    if not findings:
        return '<span class="none">—</span>'
    return "".join(
        f'<div><span style="color:{_COLOURS[found.level]}">●</span> {escape(found.says)}</div>'
        for found in findings
    )


def _pill(level: HealthLevel) -> str:
    return f'<span class="pill" style="background:{_COLOURS[level]}">{level}</span>'


def _bars(values: Sequence[float], unit: str) -> str:
    """Draw one bar for each of the last runs, oldest on the left, the newest in full colour."""
    shown = values[-_BARS:]
    if not shown:
        return '<span class="none">—</span>'
    top, step = max(shown) or 1, _WIDTH / _BARS
    bars = []
    for index, value in enumerate(shown):
        height = max(1.0, value / top * _HEIGHT)
        opacity = 1 if index == len(shown) - 1 else 0.45
        bars.append(
            f'<rect x="{index * step:.1f}" y="{_HEIGHT - height:.1f}" width="{step - 1.5:.1f}"'
            f' height="{height:.1f}" rx="1" fill="#3b78c2" opacity="{opacity}">'
            f"<title>{value:,.1f} {unit}</title></rect>"
        )
    label = f"{shown[-1]:,.1f} {unit}" if unit == "s" else f"{shown[-1]:,.0f}"
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img"'
        f' aria-label="last {len(shown)} runs, newest {label}">'
        f"{''.join(bars)}</svg><small>{label}</small>"
    )
