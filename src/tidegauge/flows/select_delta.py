"""From a selection to some of the flows between Delta tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from tidegauge.model.delta_flow import DeltaFlow


def delta_flows_of(delta_flows: Sequence[DeltaFlow], selection: Sequence[str]) -> tuple[DeltaFlow, ...]:
    """By name, pattern, `tag:WORD` or the table they write; `+NAME` with all that it reads from, `NAME+` with
    all that reads from it."""
    wanted: set[str] = set() if selection else {delta_flow.name for delta_flow in delta_flows}
    for word in selection:
        found = {delta_flow.name for delta_flow in delta_flows if _names(delta_flow, word.strip("+"))}
        wanted |= found
        if word.startswith("+"):
            wanted |= _reached(
                found, {delta_flow.name: set(delta_flow.upstreams) for delta_flow in delta_flows}
            )
        if word.endswith("+"):
            below = {
                delta_flow.name: {other.name for other in delta_flows if delta_flow.name in other.upstreams}
                for delta_flow in delta_flows
            }
            wanted |= _reached(found, below)
    return tuple(
        sorted(
            (delta_flow for delta_flow in delta_flows if delta_flow.name in wanted),
            key=lambda delta_flow: delta_flow.name,
        )
    )


def _names(delta_flow: DeltaFlow, word: str) -> bool:
    if word.startswith("tag:"):
        return word.removeprefix("tag:") in delta_flow.tags
    return any(
        name == word or fnmatchcase(name, word) for name in (delta_flow.name, str(delta_flow.output.table))
    )


def _reached(names: set[str], steps: Mapping[str, set[str]]) -> set[str]:
    found = set(names)
    while more := {step for name in found for step in steps.get(name, set())} - found:
        found |= more
    return found
