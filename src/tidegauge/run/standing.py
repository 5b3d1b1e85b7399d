"""What stands in the way of a new plan: overrides that were begun, plans that were left, other runners."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegauge.errors import FlowHeld, FlowSuspended, Stopped, TidegaugeError, WrongState
from tidegauge.flows.flow import Flow
from tidegauge.model.delta_flow import AnyFlow
from tidegauge.model.error_json import error_to_json
from tidegauge.model.override import Undo
from tidegauge.model.plan import Plan
from tidegauge.model.run import FlowStatus
from tidegauge.model.state import State
from tidegauge.model.suspension import ALL
from tidegauge.run.claim import claim_plan
from tidegauge.run.context import RunContext
from tidegauge.run.end_override import end_override
from tidegauge.run.report import FlowReport
from tidegauge.run.suspended import find_suspension, report_suspended


@dataclass(frozen=True)
class Standing:
    free: list[AnyFlow]
    """The flows that no override holds, and that nobody has suspended."""
    left: dict[str, Plan]
    """By flow, the plans that earlier runs left."""
    refused: list[FlowReport]


def find_standing(run: RunContext, specs: Sequence[AnyFlow]) -> Standing:
    """What stands in the way of these flows, after the overrides that were begun have been ended."""
    free, statuses, refused = end_overrides(run, specs)
    left = {
        status.flow: status.plan for status in statuses if status.plan is not None and status.override is None
    }
    return Standing(free, left, refused)


def end_overrides(
    run: RunContext, specs: Sequence[AnyFlow]
) -> tuple[list[AnyFlow], list[FlowStatus], list[FlowReport]]:
    """End the overrides that somebody began and did not end; suspended flows are left as they are.

    Returns the flows that are free now, the statuses from before, and reports of the other flows.
    """
    names = [*(spec.name for spec in specs), ALL]
    statuses = run.ledger.status(run.project.pipeline, names) if specs else []
    begun = {status.flow: status.override for status in statuses if status.override is not None}
    suspended = [status for status in statuses if status.suspended is not None]
    free: list[AnyFlow] = []
    refused: list[FlowReport] = []
    for spec in specs:
        began = run.clock()
        why = find_suspension(suspended, spec.name)
        if why is not None:
            refused.append(report_suspended(run, spec, why))
            continue
        try:
            if spec.name in begun:
                end_override(run.ledger, run.open_output(spec), spec, begun[spec.name], run.tell)
            free.append(spec)
        except TidegaugeError as error:
            refused.append(run.refuse(spec.name, error, began))
    return free, statuses, refused


def drop_missing(
    run: RunContext,
    specs: Sequence[AnyFlow],
    left: Mapping[str, Plan],
    missing: Mapping[str, TidegaugeError],
) -> tuple[list[AnyFlow], list[FlowReport]]:
    """The flows whose table is there, and the reports of the others."""
    reports = []
    for spec in specs:
        error, plan, began = missing.get(spec.name), left.get(spec.name), run.clock()
        if error is None:
            continue
        if plan is None:
            reports.append(run.refuse(spec.name, error, began))
            continue
        # Another runner that holds it finds out by itself; it is not ours to say.
        with contextlib.suppress(FlowHeld, FlowSuspended, WrongState, Stopped):
            run.ledger.finish(claim_plan(run, plan), State.FAILED, error_to_json(error))
        report = FlowReport(spec.name, State.FAILED, run.since(began), draft=plan.draft, error=error)
        reports.append(run.end(report))
    return [spec for spec in specs if spec.name not in missing], reports


def find_forgotten(run: RunContext, names: Sequence[str]) -> dict[str, Undo]:
    statuses = run.ledger.status(run.project.pipeline, names) if names else []
    return {one.flow: one.undo for one in statuses if one.undo is not None and one.undo.forgot}


def find_newer(run: RunContext, flow: Flow) -> tuple[Plan | None, bool]:
    """The plan that another runner has made since, and whether the watermark moved or is going to."""
    spec, mark = flow.spec, flow.mark
    statuses = run.ledger.status(spec.pipeline, [spec.name])
    if any(status.override is not None for status in statuses):
        return None, True
    plans = [status.plan for status in statuses]
    stood = (mark.epoch, mark.seq) if mark else (0, 0)
    stands = [(now.epoch, now.seq) for now in run.ledger.watermarks(spec.pipeline, [spec.name])]
    return next(iter(plans), None), any(now != stood for now in stands)
