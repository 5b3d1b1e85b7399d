"""Bring one view up to date within a run. The ledger has no part in it: a view has no rows to lose."""

from __future__ import annotations

import traceback

from tidegauge.errors import Stopped, TidegaugeError
from tidegauge.flows.view import View
from tidegauge.model.state import State
from tidegauge.model.view_flow import ViewFlow
from tidegauge.run.context import RunContext
from tidegauge.run.report import FlowReport


def make_view(run: RunContext, spec: ViewFlow) -> list[FlowReport]:
    """SUCCESS where it was made, SKIPPED where it is there as it should be."""
    began = run.clock()
    if run.stop.is_set():
        stopped = Stopped("stopped as asked, before it began", hint="the next run goes on from here")
        return [FlowReport(spec.name, State.READY, 0.0, error=stopped)]
    try:
        run.environment.check_java(run.project.spark)
        why = View(spec, run.delta_tables).bring_up_to_date()
    except TidegaugeError as error:
        return [run.end(FlowReport(spec.name, State.FAILED, run.since(began), error=error))]
    except Exception as fault:
        # One flow's surprise must not take the others down.
        surprise = TidegaugeError(
            f"{spec.name}: unexpected {type(fault).__name__}: {fault}",
            hint="this is a bug of Tidegauge; please report it with what --debug shows",
            detail=traceback.format_exc(),
        )
        return [run.end(FlowReport(spec.name, State.FAILED, run.since(began), error=surprise))]
    state = State.SKIPPED if why is None else State.SUCCESS
    noted = () if why is None else (f"made: {why}",)
    return [run.end(FlowReport(spec.name, state, run.since(began), noted=noted))]
