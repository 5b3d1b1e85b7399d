"""What the words of a selection mean in a graph of flows: `NAME`, a pattern, `tag:WORD`, `+WORD`, `WORD+`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Protocol, TypeVar

TAG = "tag:"


class InGraph(Protocol):
    """A flow, as far as words can tell it from others."""

    @property
    def name(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def tags(self) -> tuple[str, ...]: ...
    @property
    def upstreams(self) -> tuple[str, ...]: ...


_F = TypeVar("_F", bound=InGraph)


def is_called(flow: InGraph, word: str) -> bool:
    """By a word without `+`: its tag, its name, or the table that it writes."""
    if word.startswith(TAG):
        return word.removeprefix(TAG) in flow.tags
    return any(name == word or fnmatchcase(name, word) for name in (flow.name, flow.target))


def select_by(
    flows: Sequence[_F], selection: Sequence[str], is_meant: Callable[[_F, str], bool]
) -> tuple[list[_F], list[str]]:
    """The flows that are meant, all of them without a selection, and the words that mean none."""
    above = {flow.name: set(flow.upstreams) for flow in flows}
    below: dict[str, set[str]] = {}
    for name, names in above.items():
        for one in names:
            below.setdefault(one, set()).add(name)
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


def _reach(names: set[str], steps: Mapping[str, set[str]]) -> set[str]:
    found = set(names)
    while more := {step for name in found for step in steps.get(name, set())} - found:
        found |= more
    return found
