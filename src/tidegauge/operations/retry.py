"""Finishes plans that failed, and makes no new ones."""

from __future__ import annotations

import threading

from tidegauge.flows.selection.missing_tables import find_recorded
from tidegauge.flows.selection.select import choose
from tidegauge.ledger.holder import find_held
from tidegauge.ledger.owner import this_process
from tidegauge.model.spec import Project
from tidegauge.model.state import State
from tidegauge.observe.events import Listener
from tidegauge.run.options import RunOptions
from tidegauge.run.report import FlowReport, RunReport
from tidegauge.run.runner import open_runner

RETRIED = "retried"
"""The event for a retry that a person started with a reason."""


def retry(
    project: Project, options: RunOptions, *, tell: Listener, stop: threading.Event, reason: str | None = None
) -> RunReport:
    """Run the selected flows' failed or abandoned plans, with their frozen windows.

    Plans that another runner is working on are left alone. A reason is recorded in the history of each flow
    that has a plan to finish.
    """
    with open_runner(project, options, tell=tell, stop=stop) as runner:
        recorded = find_recorded(runner.ledger, project.pipeline)
        choice = choose(project, options.selection, runner.sources, stage=options.stage, recorded=recorded)
        statuses = runner.ledger.status(project.pipeline)
        held = find_held(runner.ledger, statuses)
        left = [flow for flow in choice.all_flows if flow.name not in held]
        planned = {one.flow for one in statuses if one.plan is not None}
        for name in [flow.name for flow in left if reason and flow.name in planned]:
            runner.ledger.note(project.pipeline, name, RETRIED, owner=this_process(), reason=reason or "")
        reports = runner.make_resume_jobs(left, choice.missing).run()
        failed = [FlowReport(name, State.FAILED, 0.0, error=error) for name, error in choice.faults]
        return RunReport(runner.run_id, (*failed, *reports))
