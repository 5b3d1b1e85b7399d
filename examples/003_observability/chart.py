"""Draws what each department costs, day by day: `python chart.py` writes pictures/cost_by_department.svg."""

from __future__ import annotations

import sys
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

WIDTH, HEIGHT, LEFT, BOTTOM = 860, 320, 64, 36
COLOURS = ("#2f6f8f", "#d98032", "#5b8c5a", "#a2557b", "#8a7fb5", "#b9b4a7")
Costs = dict[int, dict[str, Decimal]]


def read_costs(fact: Path) -> Costs:
    """By day and department; what has no department's tag is `untagged`, whatever default stands there."""
    query = "SELECT date_sk, department, tagged, list_cost FROM fact"
    found = QueryBuilder().register("fact", DeltaTable(fact)).execute(query).read_all()
    costs: Costs = defaultdict(lambda: defaultdict(Decimal))
    for row in pa.table(found).to_pylist():
        department = row["department"] if "department" in row["tagged"].split(",") else "untagged"
        costs[row["date_sk"]][department] += row["list_cost"]
    return costs


def draw(costs: Costs) -> str:
    names = [*sorted({name for day in costs.values() for name in day if name != "untagged"}), "untagged"]
    colours = dict(zip(names, (*COLOURS[: len(names) - 1], COLOURS[-1]), strict=True))
    top = max(sum(day.values()) for day in costs.values())
    plot = HEIGHT - BOTTOM - 40
    step = (WIDTH - LEFT - 10) / len(costs)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
        ' font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    ]
    for number, name in enumerate(names):
        x = LEFT + number * 125
        parts.append(f'<rect x="{x}" y="10" width="11" height="11" fill="{colours[name]}"/>')
        parts.append(f'<text x="{x + 16}" y="20">{name}</text>')
    for quarter in range(5):
        y = HEIGHT - BOTTOM - plot * quarter / 4
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{y:.0f}" y2="{y:.0f}" stroke="#ddd"/>')
        parts.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.0f}" text-anchor="end">${top * quarter / 4:,.0f}</text>'
        )
    for place, (day, own) in enumerate(sorted(costs.items())):
        x, y = LEFT + place * step, float(HEIGHT - BOTTOM)
        for name in names:
            height = plot * float(own.get(name, Decimal(0)) / top)
            y -= height
            parts.append(
                f'<rect x="{x + 2:.1f}" y="{y:.1f}" width="{step - 4:.1f}" height="{height:.1f}"'
                f' fill="{colours[name]}"/>'
            )
        if place % 5 == 0:
            text = f"{str(day)[4:6]}-{str(day)[6:]}"
            parts.append(f'<text x="{x + 2:.1f}" y="{HEIGHT - BOTTOM + 18}">{text}</text>')
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    here = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    picture = here / "pictures" / "cost_by_department.svg"
    picture.parent.mkdir(exist_ok=True)
    picture.write_text(draw(read_costs(here / "lake" / "gold" / "gld_fact_usage_priced_day")))
    print(f"wrote {picture}")
