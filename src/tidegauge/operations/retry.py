"""End the plans that failed, and make no new ones."""

from __future__ import annotations

import threading

from tidegauge.flows.known_sources import sources_for
from tidegauge.flows.missing_tables import known_flows
from tidegauge.flows.select import choose
from tidegauge.ledger.heartbeat import Heartbeat
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import is_gone
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.spec import Project
from tidegauge.model.state import State
from tidegauge.observe.events import Listener
from tidegauge.run.options import RunOptions
from tidegauge.run.report import FlowReport, RunReport
from tidegauge.run.runner import Runner


def retry(project: Project, order: RunOptions, *, tell: Listener, stop: threading.Event) -> RunReport:
    """The selected flows' plans that failed or were left, each with the windows that it froze.

    What another runner is at work on has not failed.
    """
    with (
        open_ledger(project.ledger, create=True) as ledger,
        sources_for(project, ledger, order.stage) as sources,
    ):
        known = known_flows(ledger, project.pipeline)
        choice = choose(project, order.selection, sources, stage=order.stage, known=known)
        held = _held(ledger, project.pipeline)
        with Heartbeat(ledger, project.lease) as heartbeat:
            runner = Runner(project, order, ledger, heartbeat, tell, stop)
            left = [flow for flow in choice.all_flows if flow.name not in held]
            reports = runner.left_behind(left, choice.gone)
        failed = [FlowReport(name, State.FAILED, 0.0, error=error) for name, error in choice.faults]
        return RunReport(runner.run_id, (*failed, *reports))


def _held(ledger: LedgerReader, pipeline: str) -> set[str]:
    now = ledger.now()
    return {
        status.flow
        for status in ledger.status(pipeline)
        if status.state is State.RUNNING
        and status.owner is not None
        and (status.lease_until or now) > now
        and not is_gone(status.owner)
    }
