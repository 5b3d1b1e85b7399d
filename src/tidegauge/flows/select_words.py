"""Which flows the words of a selection mean, whatever kind they are."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

from tidegauge.errors import ConfigError
from tidegauge.flows.names import matches, stage_of, table_of
from tidegauge.model.delta_flow import DeltaFlow
from tidegauge.model.spec import Stage, TableFlow
from tidegauge.model.view_flow import GraphFlow, ViewFlow

_F = TypeVar("_F", bound=TableFlow | DeltaFlow | ViewFlow)
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


def is_meant(flow: GraphFlow, word: str) -> bool:
    """By a word without `+`."""
    if word.startswith(_TAG):
        return word.removeprefix(_TAG) in flow.tags
    if not isinstance(flow, TableFlow):
        return any(name == word or fnmatchcase(name, word) for name in (flow.name, flow.target))
    if flow.name == word or matches(flow.table, word, flow.source):
        return True
    # `settlement.*/load`: one stage of some tables.
    return (
        flow.stage is not None
        and flow.stage is stage_of(word)
        and matches(flow.table, table_of(word), flow.source)
    )


def nothing_selected(selection: Sequence[str], stage: Stage | None, names: Sequence[str]) -> ConfigError:
    words = (*selection, *([f"--stage {stage}"] if stage else []))
    near = difflib.get_close_matches(words[0].strip("+"), names, n=3, cutoff=0.4)
    return ConfigError(
        f"nothing is selected by {', '.join(words)}",
        hint=f"did you mean {', '.join(near)}?" if near else f"there are: {', '.join(sorted(names)[:10])}",
    )


def only_views(names: Sequence[str]) -> ConfigError:
    return ConfigError(
        f"{', '.join(names)}: a view has no data and no watermark of its own, so there is nothing to do here",
        hint="select the tables that it reads; `tidegauge run` makes a view again when it has changed",
    )


def _reach(names: set[str], steps: Mapping[str, set[str]]) -> set[str]:
    found = set(names)
    while more := {step for name in found for step in steps.get(name, set())} - found:
        found |= more
    return found
