"""Who reads whose output."""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.model.spec import Flow


def downstream(flow: Flow, flows: Sequence[Flow]) -> tuple[Flow, ...]:
    """The flows that read what this one writes, and those that read theirs, nearest first."""
    found: list[Flow] = []
    ahead = [flow]
    while ahead:
        upper = ahead.pop(0)
        readers = [one for one in flows if _reads(one, upper) and one not in found and one != flow]
        found += readers
        ahead += readers
    return tuple(found)


def _reads(one: Flow, upper: Flow) -> bool:
    return one.upstream == upper.name
