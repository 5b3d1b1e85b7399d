"""Which flows the words of a selection mean, whatever kind they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

from tidegauge.flows.names import matches, stage_of, table_of
from tidegauge.model.delta_flow import AnyFlow, DeltaFlow
from tidegauge.model.spec import TableFlow

_F = TypeVar("_F", bound=TableFlow | DeltaFlow)
_TAG = "tag:"


def select_flows(flows: Sequence[_F], selection: Sequence[str]) -> tuple[list[_F], list[str]]:
    """The flows that are meant, all of them without a selection, and the words that mean none.

    A word is a name, a pattern, `tag:WORD` or the table that is read or written; `+WORD` adds all that those
    flows read from, `WORD+` all that reads from them.
    """
    above = {flow.name: set(flow.upstreams) for flow in flows}
    below = {name: {flow.name for flow in flows if name in flow.upstreams} for name in above}
    wanted: set[str] = set() if selection else set(above)
    unknown: list[str] = []
    for word in selection:
        found = {flow.name for flow in flows if is_meant(flow, word.strip("+"))}
        if not found:
            unknown.append(word)
        wanted |= found
        if word.startswith("+"):
            wanted |= _reach(found, above)
        if word.endswith("+"):
            wanted |= _reach(found, below)
    return [flow for flow in flows if flow.name in wanted], unknown


def is_meant(flow: AnyFlow, word: str) -> bool:
    """By a word without `+`."""
    if word.startswith(_TAG):
        return word.removeprefix(_TAG) in flow.tags
    if isinstance(flow, DeltaFlow):
        return any(name == word or fnmatchcase(name, word) for name in (flow.name, flow.target))
    if flow.name == word or matches(flow.table, word, flow.source):
        return True
    # `settlement.*/load`: one stage of some tables.
    return (
        flow.stage is not None
        and flow.stage is stage_of(word)
        and matches(flow.table, table_of(word), flow.source)
    )


def _reach(names: set[str], steps: Mapping[str, set[str]]) -> set[str]:
    found = set(names)
    while more := {step for name in found for step in steps.get(name, set())} - found:
        found |= more
    return found
