"""Find the versions of pinned inputs that a target's rows may come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tidegauge.model.plan import ReadWay
from tidegauge.model.position import VersionPosition
from tidegauge.outputs.delta.batches import BatchReach, CommittedBatch, committed_batches

if TYPE_CHECKING:
    from tidegauge.flows.verify.delta import DeltaProof

_PINS = 8
"""How many earlier sets of pinned versions a target is compared with, newest first."""


def earlier_pins(proof: DeltaProof) -> tuple[list[dict[str, int]], str | None]:
    """The versions that were pinned for earlier batches, newest first, and which of them cannot be read.

    It goes back to the batch that wrote the whole target: no row from before it is left. The second value is
    None if all can be read.
    """
    flow = proof.flow
    pinned = [part for part in flow.inputs if part.snapshot]
    assert proof.standing.look is not None
    if not pinned:
        return [], None
    last = {part.name: proof.versions[part.name] for part in pinned}
    found: list[dict[str, int]] = []
    for batch in committed_batches(proof.standing.look, flow.pipeline, flow.name):
        if isinstance(batch, BatchReach):
            return found, None if batch.whole else "versions that were pinned before its log begins"
        pins = _pins_of(batch, [part.name for part in pinned])
        if pins is None:
            return found, "an earlier form of the flow"
        if pins != last and pins not in found:
            lacking = _find_lacking(proof, pins, len(found))
            if lacking is not None:
                return found, lacking
            found.append(pins)
        if ReadWay.SNAPSHOT in batch.ways.values():
            return found, None
    return found, None


def _pins_of(batches: CommittedBatch, names: Sequence[str]) -> dict[str, int] | None:
    """By input, its pinned version; None if the batch does not have all of them."""
    pins: dict[str, int] = {}
    for name in names:
        window = batches.windows.get(name)
        if window is None or not isinstance(window.upto, VersionPosition):
            return None
        pins[name] = window.upto.version
    return pins


def _find_lacking(proof: DeltaProof, pins: Mapping[str, int], count: int) -> str | None:
    """Which pinned version cannot be read, or that `count` sets are enough; None: these pins can be used."""
    for name, pin in pins.items():
        history = proof.histories[name]
        if pin != history.latest and not history.readable(pin):
            return f"version {pin} of {name}"
    return f"versions that were pinned before the last {_PINS}" if count == _PINS else None
