"""Finish the plans that failed, and make no new ones."""

from __future__ import annotations

import threading

from tidegauge.flows.missing_tables import find_recorded
from tidegauge.flows.select import choose
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.spec import Project
from tidegauge.model.state import State
from tidegauge.observe.events import Listener
from tidegauge.operations.status import is_held
from tidegauge.run.options import RunOptions
from tidegauge.run.report import FlowReport, RunReport
from tidegauge.run.run import open_runner


def retry(project: Project, options: RunOptions, *, tell: Listener, stop: threading.Event) -> RunReport:
    """The selected flows' plans that failed or were left, each with the windows that it froze.

    A plan that another runner is at work on has not failed.
    """
    with open_runner(project, options, tell=tell, stop=stop) as runner:
        recorded = find_recorded(runner.ledger, project.pipeline)
        choice = choose(project, options.selection, runner.sources, stage=options.stage, recorded=recorded)
        held = _find_held(runner.ledger, project.pipeline)
        left = [flow for flow in choice.all_flows if flow.name not in held]
        reports = runner.schedule_left(left, choice.missing).run()
        failed = [FlowReport(name, State.FAILED, 0.0, error=error) for name, error in choice.faults]
        return RunReport(runner.run_id, (*failed, *reports))


def _find_held(ledger: LedgerReader, pipeline: str) -> set[str]:
    now = ledger.now()
    return {status.flow for status in ledger.status(pipeline) if is_held(status, now)}
