"""Look first: whether the new life of a table will find what it is to be filled with. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegauge.errors import TidegaugeError
from tidegauge.flows.flow import resources_for
from tidegauge.flows.open import open_flow
from tidegauge.flows.select import Sources
from tidegauge.ledger.open import open_ledger
from tidegauge.model.delta_flow import AnyFlow
from tidegauge.model.spec import Project
from tidegauge.operations.override import OverridePreview


def find_unfillable(project: Project, moves: Sequence[OverridePreview]) -> dict[str, TidegaugeError]:
    """By flow, why it cannot be filled again; such a one is best left as it is.

    What reads from a flow that begins anew too is filled by that one.
    """
    anew = {move.name for move in moves}
    found: dict[str, TidegaugeError] = {}
    with open_ledger(project.ledger, create=False) as ledger, Sources() as sources:
        marks = ledger.watermarks(project.pipeline)
        resources = resources_for(project, [move.flow for move in moves], sources, marks)
        for move in moves:
            flow = move.flow
            if anew & set(flow.upstreams):
                continue
            try:
                open_flow(flow, resources).check_refillable()
            except TidegaugeError as error:
                found[move.name] = _explain(flow, error)
    return found


def with_notes(project: Project, moves: Sequence[OverridePreview]) -> list[OverridePreview]:
    """The moves; of one that would not be made, that alone and why."""
    why = find_unfillable(project, moves)
    return [replace(move, notes=(why[move.name].message,)) if move.name in why else move for move in moves]


def _explain(flow: AnyFlow, error: TidegaugeError) -> TidegaugeError:
    hint = error.hint
    if flow.upstream is not None:
        again = f"`tidegauge run --select {flow.label} --full-refresh` reads the source again, too"
        hint = f"{hint}; {again}" if hint else again
    return type(error)(
        f"{flow.name} could not be filled again, so it is left as it is: {error.message}",
        hint=hint,
        place=error.place,
        retryable=error.retryable,
        detail=error.detail,
    )
