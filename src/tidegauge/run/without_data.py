"""Bring views and optimize flows up to date within a run. They have no data, so no plan, claim or batches."""

from __future__ import annotations

import traceback

from tidegauge.errors import Stopped, TidegaugeError
from tidegauge.model.state import State
from tidegauge.model.view_flow import ViewFlow, WithoutData
from tidegauge.run.context import RunContext
from tidegauge.run.make_view import make_view
from tidegauge.run.optimize_tables import optimize_tables
from tidegauge.run.report import FlowReport


def bring_up_to_date(run: RunContext, spec: WithoutData) -> list[FlowReport]:
    """Do the work of one view or optimize flow. Errors are reported, and never raised."""
    began = run.clock()
    if run.stop.is_set():
        stopped = Stopped("stopped as asked, before it began", hint="the next run goes on from here")
        return [FlowReport(spec.name, State.READY, 0.0, error=stopped)]
    try:
        run.environment.check_java(run.project.spark)
        found = make_view(run, spec) if isinstance(spec, ViewFlow) else optimize_tables(run, spec)
        return [run.end(found)]
    except TidegaugeError as error:
        return [run.end(FlowReport(spec.name, State.FAILED, run.since(began), error=error))]
    except Exception as fault:
        # An unexpected error of one flow must not end the others.
        surprise = TidegaugeError(
            f"{spec.name}: unexpected {type(fault).__name__}: {fault}",
            hint="this is a bug of Tidegauge; please report it with what --debug shows",
            detail=traceback.format_exc(),
        )
        return [run.end(FlowReport(spec.name, State.FAILED, run.since(began), error=surprise))]
