"""Look first: whether the new life of a table will find what it is to be filled with. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegauge.errors import TidegaugeError
from tidegauge.flows.delta_places import places_of
from tidegauge.flows.load import check_whole
from tidegauge.flows.select import Sources
from tidegauge.ledger.open import open_ledger
from tidegauge.model.delta_flow import AnyFlow, DeltaFlow
from tidegauge.model.spec import Project, TableFlow
from tidegauge.operations.override import OverridePreview
from tidegauge.plan.draft import check_history
from tidegauge.sources.direct import check as check_direct
from tidegauge.sources.keys import keys


def find_unfillable(project: Project, moves: Sequence[OverridePreview]) -> dict[str, TidegaugeError]:
    """By flow, why it cannot be filled again; such a one is best left as it is.

    What reads from a flow that begins anew too is filled by that one.
    """
    anew = {move.name for move in moves}
    places = places_of(project, [move.flow for move in moves])
    found: dict[str, TidegaugeError] = {}
    with open_ledger(project.ledger, create=False) as ledger, Sources() as sources:
        marks = {mark.flow: mark for mark in ledger.watermarks(project.pipeline)}
        for move in moves:
            flow = move.flow
            if anew & set(flow.upstreams):
                continue
            try:
                if isinstance(flow, DeltaFlow):
                    from tidegauge.flows.delta import DeltaPreparer  # for a parser of SQL takes its time

                    DeltaPreparer(flow, places.output(flow), (), places).foresee()
                elif flow.reads is None:
                    _check_table(flow, sources)
                else:
                    check_whole(flow, marks.get(flow.upstream or ""))
            except TidegaugeError as error:
                found[move.name] = _told(flow, error)
    return found


def with_notes(project: Project, moves: Sequence[OverridePreview]) -> list[OverridePreview]:
    """The moves; of one that would not be made, that alone and why."""
    why = find_unfillable(project, moves)
    return [replace(move, notes=(why[move.name].message,)) if move.name in why else move for move in moves]


def _told(flow: AnyFlow, error: TidegaugeError) -> TidegaugeError:
    hint = error.hint
    if isinstance(flow, TableFlow) and flow.reads is not None:
        again = f"`tidegauge run --select {flow.table} --full-refresh` reads the source again, too"
        hint = f"{hint}; {again}" if hint else again
    return type(error)(
        f"{flow.name} could not be filled again, so it is left as it is: {error.message}",
        hint=hint,
        place=error.place,
        retryable=error.retryable,
        detail=error.detail,
    )


def _check_table(flow: TableFlow, sources: Sources) -> None:
    source_table = sources.of(flow.source).describe(flow.table, flow.options)
    check_history(flow, source_table.layout)
    check_direct(source_table, flow.source)
    for _ in keys(flow.source, source_table, rows=1):
        break  # one row: the login may read the table
