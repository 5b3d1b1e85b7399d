"""Run flows: finish the plans that earlier runs left, plan what is new, and execute plans side by side."""

from __future__ import annotations

import threading

from tidegauge.flows.selection.missing_tables import find_recorded
from tidegauge.flows.selection.remarks import find_remarks
from tidegauge.flows.selection.select import choose
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.spec import Project
from tidegauge.model.state import State
from tidegauge.model.suspension import ALL
from tidegauge.observe.events import Listener
from tidegauge.run.environment import Environment
from tidegauge.run.options import RunOptions
from tidegauge.run.report import FlowReport, RunReport
from tidegauge.run.runner import open_runner


def run(
    project: Project,
    options: RunOptions,
    *,
    tell: Listener,
    stop: threading.Event,
    environment: Environment | None = None,
) -> RunReport:
    """Bring every selected flow up to date. A flow that fails stops only the flows that read from it."""
    with open_runner(project, options, tell=tell, stop=stop, environment=environment) as runner:
        recorded = find_recorded(runner.ledger, project.pipeline)
        choice = choose(
            project, options.selection, runner.sources, stage=options.stage, recorded=recorded, views=True
        )
        whole = not options.selection and options.stage is None
        whole = whole and options.remarks
        notes = find_remarks(project, choice.flows, runner.sources, recorded) if whole else ()
        without = choice.without_data
        without = () if without and _is_suspended(runner.ledger, project) else without
        reports = runner.make_jobs(choice.all_flows, choice.missing, without).run()
        failed = [FlowReport(name, State.FAILED, 0.0, error=error) for name, error in choice.faults]
        return RunReport(runner.run_id, (*failed, *reports), notes)


def _is_suspended(ledger: LedgerReader, project: Project) -> bool:
    """Whether the whole pipeline is suspended. A view alone cannot be: it is not in the ledger."""
    statuses = ledger.status(project.pipeline, [ALL])
    return any(one.flow == ALL and one.suspended for one in statuses)
