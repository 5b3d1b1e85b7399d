"""Finds the flows that a selection means: `NAME`, a pattern, `tag:WORD`, `+WORD` or `WORD+`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Protocol, TypeVar

TAG = "tag:"


class SelectableFlow(Protocol):
    """The attributes of a flow that a selection uses."""

    @property
    def name(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def tags(self) -> tuple[str, ...]: ...
    @property
    def upstreams(self) -> tuple[str, ...]: ...


_F = TypeVar("_F", bound=SelectableFlow)


def is_called(flow: SelectableFlow, word: str) -> bool:
    """Whether a word without `+` means the flow: by its tag, its name, or the table that it writes."""
    if word.startswith(TAG):
        return word.removeprefix(TAG) in flow.tags
    return any(name == word or fnmatchcase(name, word) for name in (flow.name, flow.target))


def select_by(
    flows: Sequence[_F], selection: Sequence[str], is_meant: Callable[[_F, str], bool]
) -> tuple[list[_F], list[str]]:
    """Return the selected flows (all if `selection` is empty), and the words that match no flow."""
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
