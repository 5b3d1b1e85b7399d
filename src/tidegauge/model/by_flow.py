"""Watermarks, runs and events, gathered by their flow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar


class OfFlow(Protocol):
    @property
    def flow(self) -> str: ...


Kept = TypeVar("Kept", bound=OfFlow)


def gather_by_flow(kept: Iterable[Kept]) -> dict[str, list[Kept]]:
    """Those of each flow stay in their order."""
    found: dict[str, list[Kept]] = {}
    for one in kept:
        found.setdefault(one.flow, []).append(one)
    return found
