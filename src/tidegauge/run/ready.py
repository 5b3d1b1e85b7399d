"""What stands in the way of a new plan: unended overrides, earlier plans, suspensions, other runners."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegauge.errors import FlowHeld, FlowSuspended, Stopped, TidegaugeError, WrongState
from tidegauge.flows.flow import Flow
from tidegauge.model.delta_flow import DataFlow
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
class ReadyFlows:
    free: list[DataFlow]
    """The flows that no unended override holds, and that nobody has suspended."""
    unfinished_plans: dict[str, Plan]
    """By flow, the plans that earlier runs left unfinished."""
    refused: list[FlowReport]
    """Reports of the flows that are not free."""


def find_ready(run: RunContext, specs: Sequence[DataFlow]) -> ReadyFlows:
    """End the overrides that were begun on these flows, then find what still stands in the way."""
    free, statuses, refused = end_overrides(run, specs)
    left = {
        status.flow: status.plan for status in statuses if status.plan is not None and status.override is None
    }
    return ReadyFlows(free, left, refused)


def end_overrides(
    run: RunContext, specs: Sequence[DataFlow]
) -> tuple[list[DataFlow], list[FlowStatus], list[FlowReport]]:
    """End overrides that were begun and not ended. Suspended flows are left as they are.

    Returns the flows that are free now, the statuses as they were before, and reports of the other flows.
    """
    names = [*(spec.name for spec in specs), ALL]
    statuses = run.ledger.status(run.project.pipeline, names) if specs else []
    begun = {status.flow: status.override for status in statuses if status.override is not None}
    suspended = [status for status in statuses if status.suspended is not None]
    free: list[DataFlow] = []
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
    specs: Sequence[DataFlow],
    left: Mapping[str, Plan],
    missing: Mapping[str, TidegaugeError],
) -> tuple[list[DataFlow], list[FlowReport]]:
    """Return the flows whose table is there, and FAILED reports of those in `missing`.

    The ledger records the errors too.
    """
    reports = []
    for spec in specs:
        error, plan, began = missing.get(spec.name), left.get(spec.name), run.clock()
        if error is None:
            continue
        if plan is None:
            reports.append(run.refuse(spec.name, error, began))
            continue
        # If another runner holds the flow, that runner finds and records the error itself.
        with contextlib.suppress(FlowHeld, FlowSuspended, WrongState, Stopped):
            run.ledger.finish(claim_plan(run, plan), State.FAILED, error_to_json(error))
        report = FlowReport(spec.name, State.FAILED, run.since(began), draft=plan.draft, error=error)
        reports.append(run.end(report))
    return [spec for spec in specs if spec.name not in missing], reports


def find_forgotten(run: RunContext, names: Sequence[str]) -> dict[str, Undo]:
    """By name, the flows that were forgotten after they had delivered rows."""
    statuses = run.ledger.status(run.project.pipeline, names) if names else []
    return {one.flow: one.undo for one in statuses if one.undo is not None and one.undo.forgot}


def find_newer(run: RunContext, flow: Flow) -> tuple[Plan | None, bool]:
    """Find the flow's present plan, and whether its watermark has moved or an override is about to move it.

    Either shows that another runner was at work since the flow was opened.
    """
    spec, mark = flow.spec, flow.mark
    statuses = run.ledger.status(spec.pipeline, [spec.name])
    if any(status.override is not None for status in statuses):
        return None, True
    plans = [status.plan for status in statuses]
    stood = (mark.epoch, mark.seq) if mark else (0, 0)
    stands = [(now.epoch, now.seq) for now in run.ledger.watermarks(spec.pipeline, [spec.name])]
    return next(iter(plans), None), any(now != stood for now in stands)
