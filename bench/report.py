"""Writes the kept results into docs/performance.md, between its two marks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.table import HEAD, cells

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
BEGIN = "<!-- results: begin; written by `python -m bench --report` -->"
END = "<!-- results: end -->"


def write(parts: Mapping[str, dict[str, Any]], page: Path = PAGE) -> str:
    """Rewrite the text between the page's marks and nothing else; return the file name of the page."""
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{page.name} lacks one of its marks: {BEGIN} … {END}")
    page.write_text(f"{before}{BEGIN}\n{markdown(parts)}{END}{after}")
    return page.name


def markdown(parts: Mapping[str, dict[str, Any]]) -> str:
    if not parts:
        return "\nNothing has been measured yet.\n\n"
    return "\n" + "\n".join(_part(name, body) for name, body in parts.items()) + "\n"


def _part(name: str, body: dict[str, Any]) -> str:
    machine, versions = body.get("machine", {}), body["versions"]
    lines = [f"### {name}\n"]
    facts = [f"`{body['command']}`", body.get("at", "")[:10]]
    if machine:
        facts.append(
            f"{machine['cores']:g} cores, {machine['memory_gib']:g} GiB, load {machine['load']:g} before"
        )
    facts.append(
        f"Python {versions['python']}, Spark {versions['pyspark']}, SQLAlchemy {versions['sqlalchemy']}"
    )
    lines.append(" · ".join(fact for fact in facts if fact) + "\n")
    lines.append("| " + " | ".join(HEAD) + " |\n|---|---:|---:|---:|---:|---|")
    lines += ["| " + " | ".join(cells(result)) + " |" for result in body["results"]]
    return "\n".join(lines) + "\n"
