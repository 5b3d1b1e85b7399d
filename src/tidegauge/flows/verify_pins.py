"""The versions of its pinned inputs that a target may show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.model.plan import ReadWay
from tidegauge.model.position import VersionPosition
from tidegauge.outputs.delta.batches import BatchReach, committed_batches

if TYPE_CHECKING:
    from tidegauge.flows.verify_delta import DeltaProof

_PINS = 8
"""How many earlier pins a target is held against, newest first."""


def earlier_pins(proof: DeltaProof) -> tuple[list[dict[str, int]], str | None]:
    """The versions that were pinned for earlier batches, newest first, and what of them cannot be had.

    Back to the batch that wrote the target whole: what was pinned before it has left nothing.
    """
    flow = proof.flow
    pinned = [part for part in flow.inputs if part.snapshot]
    assert proof.standing.look is not None
    if not pinned:
        return [], None
    last = {part.name: proof.versions[part.name] for part in pinned}
    found: list[dict[str, int]] = []
    for told in committed_batches(proof.standing.look, flow.pipeline, flow.name):
        if isinstance(told, BatchReach):
            return found, None if told.whole else "versions that were pinned before its log begins"
        pins: dict[str, int] = {}
        for part in pinned:
            window = told.windows.get(part.name)
            if window is None or not isinstance(window.upto, VersionPosition):
                return found, "an earlier form of the flow"
            pins[part.name] = window.upto.version
        if pins != last and pins not in found:
            for part in pinned:
                history = proof.histories[part.name]
                if pins[part.name] != history.latest and not history.readable(pins[part.name]):
                    return found, f"version {pins[part.name]} of {part.name}"
            if len(found) == _PINS:
                return found, f"versions that were pinned before the last {_PINS}"
            found.append(pins)
        if any(way is ReadWay.SNAPSHOT for way in told.ways.values()):
            return found, None
    return found, None
