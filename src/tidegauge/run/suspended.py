"""Flows that a person has suspended: no run takes them, and a run that selects one by name reports why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegauge.errors import FlowSuspended
from tidegauge.flows.names import is_pattern
from tidegauge.ledger.schedule_rules import suspended_error
from tidegauge.model.delta_flow import DataFlow
from tidegauge.model.run import FlowStatus
from tidegauge.model.state import State
from tidegauge.model.suspension import ALL
from tidegauge.observe.events import NoteAdded
from tidegauge.run.context import RunContext
from tidegauge.run.report import FlowReport


def find_suspension(statuses: Iterable[FlowStatus], flow: str) -> FlowSuspended | None:
    """Find the error that says why the flow may not run; None if it may.

    `statuses` should include those of the flow and of `*`, which stands for the whole pipeline.
    """
    found = {one.flow: one for one in statuses if one.suspended is not None}
    one = found.get(flow) or found.get(ALL)
    if one is None or one.suspended is None:
        return None
    return suspended_error(flow, one.suspended, pipeline=one.pipeline if one.flow == ALL else None)


def report_suspended(run: RunContext, spec: DataFlow, why: FlowSuspended) -> FlowReport:
    """Report a suspended flow as SKIPPED. It is an error only if the selection names the flow itself."""
    if is_named(spec, run.options.selection):
        return run.end(FlowReport(spec.name, State.SKIPPED, 0.0, error=why, suspended=True))
    said = f"{why.message}; {why.hint}"
    run.tell(NoteAdded(spec.name, said))
    return FlowReport(spec.name, State.SKIPPED, 0.0, reason=said, suspended=True)


def is_named(spec: DataFlow, selection: Sequence[str]) -> bool:
    """Whether the selection has the flow's own name or its table's; a pattern or a tag does not count."""
    words = [word.strip("+") for word in selection if not is_pattern(word)]
    return any(word in (spec.name, spec.label) or spec.label.endswith(f".{word}") for word in words)
