"""Which flows read the output of a flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from tidegauge.model.delta_flow import DataFlow, DeltaFlow
from tidegauge.model.spec import TableFlow

_H = TypeVar("_H", bound=TableFlow | DeltaFlow)


def find_downstream(flow: _H, flows: Sequence[_H]) -> tuple[_H, ...]:
    """The flows that read this flow's output, directly or through other flows; the nearest first."""
    found: list[_H] = []
    ahead = [flow]
    while ahead:
        upper = ahead.pop(0)
        readers = [one for one in flows if _reads(one, upper) and one not in found and one != flow]
        found += readers
        ahead += readers
    return tuple(found)


def _reads(one: DataFlow, upper: DataFlow) -> bool:
    return upper.name in one.upstreams
