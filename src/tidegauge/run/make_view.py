"""Bring one view up to date within a run. The ledger is not involved: a view has no rows to lose."""

from __future__ import annotations

from tidegauge.flows.view import View
from tidegauge.model.state import State
from tidegauge.model.view_flow import ViewFlow
from tidegauge.run.context import RunContext
from tidegauge.run.report import FlowReport


def make_view(run: RunContext, spec: ViewFlow) -> FlowReport:
    """Report SUCCESS if the view was created or replaced, SKIPPED if it already is as the file defines it."""
    began = run.clock()
    why = View(spec, run.delta_tables).bring_up_to_date()
    state = State.SKIPPED if why is None else State.SUCCESS
    noted = () if why is None else (f"made: {why}",)
    return FlowReport(spec.name, state, run.since(began), noted=noted)
