"""Sets tables back to the beginning and empties them: the first half of a full refresh.

The second half is an ordinary run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegauge.errors import TidegaugeError, WrongState
from tidegauge.flows.flow import resources_for
from tidegauge.flows.open import open_flow
from tidegauge.flows.override.preview import OverridePreview, Refresh
from tidegauge.ledger.open import open_ledger
from tidegauge.model.delta_flow import DataFlow
from tidegauge.model.spec import Project, Stage
from tidegauge.model.suspension import ALL
from tidegauge.observe.events import Listener
from tidegauge.operations import override
from tidegauge.operations.override import OverrideResult, run_override
from tidegauge.run.suspended import find_suspension
from tidegauge.sources.connections import SourceConnections


def preview(
    project: Project, selection: Sequence[str], *, stage: Stage | None = None
) -> list[OverridePreview]:
    """Show what would be read again and emptied, for both stages of a table unless `stage` names one."""
    return _add_notes(project, override.preview_override(project, selection, Refresh(), stage=stage))


def refresh(
    project: Project, moves: Sequence[OverridePreview], *, reason: str, tell: Listener | None = None
) -> list[OverrideResult]:
    """Set the previewed flows back, upstream flows first.

    In the other order a runner that comes between could load the lake's old epoch into the target that was
    just emptied. A flow stays as it is if its upstream could not be set back, or if it could not be filled
    again: this is checked once more, because time has passed since the preview.
    """
    done: list[OverrideResult] = []
    why = _find_unfillable(project, moves)
    failed: set[str] = set()
    for move in _sort_by_upstream(moves):
        if move.name in why:
            done.append(OverrideResult(move, None, why[move.name]))
            failed.add(move.name)
            continue
        before = next((name for name in move.flow.upstreams if name in failed), None)
        if before is not None:
            error = WrongState(
                f"{move.name}: left as it is, because {before} could not begin again",
                hint="mend that first, then repeat the full refresh",
                retryable=True,
            )
            done.append(OverrideResult(move, None, error))
            continue
        [one] = run_override(project, [move], reason=reason, tell=tell)
        done.append(one)
        if one.error is not None:
            failed.add(move.name)
    return done


def _sort_by_upstream(moves: Sequence[OverridePreview]) -> list[OverridePreview]:
    """Sort so that each flow comes after those that it reads from."""
    found: list[OverridePreview] = []
    left = list(moves)
    while left:
        names = {move.name for move in left}
        ready = [move for move in left if not names & set(move.flow.upstreams)]
        found += ready
        left = [move for move in left if move not in ready]
    return found


def _find_unfillable(project: Project, moves: Sequence[OverridePreview]) -> dict[str, TidegaugeError]:
    """Return, by flow, why it could not be filled again after being emptied.

    A flow is not checked if its upstream is refreshed too, because the upstream will fill it.
    """
    anew = {move.name for move in moves}
    found: dict[str, TidegaugeError] = {}
    with open_ledger(project.ledger, create=False) as ledger, SourceConnections() as sources:
        marks = ledger.watermarks(project.pipeline)
        statuses = ledger.status(project.pipeline, [*anew, ALL])
        resources = resources_for(project, [move.flow for move in moves], sources, marks)
        for move in moves:
            flow = move.flow
            suspended = find_suspension(statuses, flow.name)
            if suspended is not None:
                found[move.name] = _explain(flow, suspended)
                continue
            if anew & set(flow.upstreams):
                continue
            try:
                open_flow(flow, resources).check_refillable()
            except TidegaugeError as error:
                found[move.name] = _explain(flow, error)
    return found


def _add_notes(project: Project, moves: Sequence[OverridePreview]) -> list[OverridePreview]:
    """Return the previews; one that cannot be carried out gets the reason as its only note."""
    why = _find_unfillable(project, moves)
    return [replace(move, notes=(why[move.name].message,)) if move.name in why else move for move in moves]


def _explain(flow: DataFlow, error: TidegaugeError) -> TidegaugeError:
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
