"""Groups watermarks, runs and events by flow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar


class FlowScoped(Protocol):
    @property
    def flow(self) -> str: ...


Kept = TypeVar("Kept", bound=FlowScoped)


def gather_by_flow(kept: Iterable[Kept]) -> dict[str, list[Kept]]:
    """Group by flow; within a flow the order stays."""
    found: dict[str, list[Kept]] = {}
    for one in kept:
        found.setdefault(one.flow, []).append(one)
    return found
