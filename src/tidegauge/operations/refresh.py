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
    project: Project, previews: Sequence[OverridePreview], *, reason: str, tell: Listener | None = None
) -> list[OverrideResult]:
    """Set the previewed flows back, upstream flows first.

    In the other order a runner that comes between could load the lake's old epoch into the target that was
    just emptied. A flow stays as it is if its upstream could not be set back, or if it could not be filled
    again: this is checked once more, because time has passed since the preview.
    """
    done: list[OverrideResult] = []
    why = _find_unfillable(project, previews)
    failed: set[str] = set()
    for one in _sort_by_upstream(previews):
        if one.name in why:
            done.append(OverrideResult(one, None, why[one.name]))
            failed.add(one.name)
            continue
        before = next((name for name in one.flow.upstreams if name in failed), None)
        if before is not None:
            error = WrongState(
                f"{one.name}: left as it is, because {before} could not begin again",
                hint="mend that first, then repeat the full refresh",
                retryable=True,
            )
            done.append(OverrideResult(one, None, error))
            continue
        [result] = run_override(project, [one], reason=reason, tell=tell)
        done.append(result)
        if result.error is not None:
            failed.add(one.name)
    return done


def _sort_by_upstream(previews: Sequence[OverridePreview]) -> list[OverridePreview]:
    """Sort so that each flow comes after those that it reads from."""
    found: list[OverridePreview] = []
    left = list(previews)
    while left:
        names = {one.name for one in left}
        ready = [one for one in left if not names & set(one.flow.upstreams)]
        found += ready
        left = [one for one in left if one not in ready]
    return found


def _find_unfillable(project: Project, previews: Sequence[OverridePreview]) -> dict[str, TidegaugeError]:
    """Return, by flow, why it could not be filled again after being emptied.

    A flow is not checked if its upstream is refreshed too, because the upstream will fill it.
    """
    anew = {one.name for one in previews}
    found: dict[str, TidegaugeError] = {}
    with open_ledger(project.ledger, create=False) as ledger, SourceConnections() as sources:
        marks = ledger.watermarks(project.pipeline)
        statuses = ledger.status(project.pipeline, [*anew, ALL])
        resources = resources_for(project, [one.flow for one in previews], sources, marks)
        for one in previews:
            flow = one.flow
            suspended = find_suspension(statuses, flow.name)
            if suspended is not None:
                found[one.name] = _explain(flow, suspended)
                continue
            if anew & set(flow.upstreams):
                continue
            try:
                open_flow(flow, resources).check_refillable()
            except TidegaugeError as error:
                found[one.name] = _explain(flow, error)
    return found


def _add_notes(project: Project, previews: Sequence[OverridePreview]) -> list[OverridePreview]:
    """Return the previews; one that cannot be carried out gets the reason as its only note."""
    why = _find_unfillable(project, previews)
    return [replace(one, notes=(why[one.name].message,)) if one.name in why else one for one in previews]


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
