"""What is wrong, and what will be soon: by the ledger, the outputs, and the logs of Delta inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tidegauge.errors import TidegaugeError
from tidegauge.flows.agreement import check_agreement, check_still_there
from tidegauge.flows.delta_places import Places
from tidegauge.flows.flow import FlowResources, marks_by_flow
from tidegauge.flows.known_sources import KnownSources
from tidegauge.flows.missing_tables import find_remembered, refuse_forgotten
from tidegauge.flows.open import open_flow
from tidegauge.flows.select import Selection, Sources, choose
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import is_gone
from tidegauge.model.delta_flow import AnyFlow
from tidegauge.model.run import FlowStatus, HistoryEvent, RunRecord
from tidegauge.model.spec import Project
from tidegauge.model.state import State
from tidegauge.model.watermark import Watermark
from tidegauge.operations.retention import Notice, current_session, has_session, notices
from tidegauge.operations.status import iso

_PARALLEL = 8
_EVENTS = 2000
_ENDED_WELL, _ENDED_BADLY = ("finished", "skipped"), ("failed", "refused")


@dataclass(frozen=True)
class Health:
    flow: str
    state: State
    last_success: datetime | None
    failures: int
    """In a row, up to now."""
    problems: tuple[str, ...]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "state": self.state.value,
            "last_success": iso(self.last_success) if self.last_success else None,
            "failures": self.failures,
            "problems": list(self.problems),
            "warnings": list(self.warnings),
        }


def examine(project: Project, selection: Sequence[str]) -> tuple[datetime, list[Health]]:
    """The store's clock, and every flow that is selected. Changes nothing, and starts no Spark."""
    with open_ledger(project.ledger, create=False) as ledger:
        now = ledger.now()
        statuses = {status.flow: status for status in ledger.status(project.pipeline)}
        marks: dict[str, Watermark] = {}
        for mark in ledger.watermarks(project.pipeline):
            marks.setdefault(mark.flow, mark)
        events: dict[str, list[HistoryEvent]] = {}
        for event in ledger.history(project.pipeline, limit=_EVENTS):
            events.setdefault(event.flow, []).append(event)
        with KnownSources(project, find_remembered(statuses.values())) as sources:
            recorded = {flow: mark.source_id for flow, mark in marks.items()}
            choice = choose(project, selection, sources, recorded=recorded)
        retained = notices(project, ledger, choice.delta_flows)
    resources = FlowResources(Sources(), Places(current_session), marks_by_flow(list(marks.values())))

    def one(flow: AnyFlow) -> Health:
        status, lost = statuses.get(flow.name), choice.missing.get(flow.name)
        found = _one(
            flow.name,
            status,
            events.get(flow.name, []),
            retained.get(flow.name, []),
            str(lost) if lost else _find_disagreement(flow, status, resources),
            now,
        )
        return replace(found, state=State.FAILED) if lost else found

    if not choice.all_flows:
        return now, _faults(choice)
    with ThreadPoolExecutor(min(_PARALLEL, len(choice.all_flows))) as pool:
        return now, [*_faults(choice), *pool.map(one, choice.all_flows)]


def _one(
    flow: str,
    status: FlowStatus | None,
    events: Sequence[HistoryEvent],
    retained: Sequence[Notice],
    disagreement: str | None,
    now: datetime,
) -> Health:
    state = status.shown_state if status else State.READY
    problems = [notice.text for notice in retained if notice.over]
    if status is not None and state is not State.RUNNING:
        problems = [*_find_failure(status.last_run), *problems]
    if disagreement is not None and disagreement not in problems:
        problems.append(disagreement)
    warnings = [*(notice.text for notice in retained if not notice.over), *_warn_of(status, now)]
    success = next((event.at for event in events if event.event in _ENDED_WELL), None)
    return Health(flow, state, success, _count_failures(events), tuple(problems), tuple(warnings))


def _find_failure(run: RunRecord | None) -> list[str]:
    if run is None or run.state is not State.FAILED:
        return []
    return [str((run.error or {}).get("message") or "its last run failed")]


def _count_failures(events: Sequence[HistoryEvent]) -> int:
    """Since the last good end; the events come newest first."""
    failures = 0
    for event in events:
        if event.event in _ENDED_WELL:
            break
        failures += event.event in _ENDED_BADLY
    return failures


def _warn_of(status: FlowStatus | None, now: datetime) -> Iterator[str]:
    """What the ledger shows of a flow that will be a problem if nobody runs it."""
    if status is None:
        yield "it has not run yet"
        return
    if status.override is not None:
        yield f"an override ({status.override.kind}) was begun and not ended: the next run ends it"
    if status.shown_state is State.RUNNING and status.lease_until and status.lease_until < now:
        yield "its runner let the lease run out; the next run takes over"


def _is_busy(status: FlowStatus) -> bool:
    """Whether somebody is at it, or was until a moment ago: ledger and output need not say the same then."""
    return status.override is not None or (
        status.state is State.RUNNING and not (status.owner and is_gone(status.owner))
    )


def _find_disagreement(flow: AnyFlow, status: FlowStatus | None, resources: FlowResources) -> str | None:
    """Why ledger and output do not tell the same story; None where they do, or nobody could ask.

    Of a plan that was left half-way the output may have a batch more than the ledger.
    """
    if status is not None and _is_busy(status):
        return None
    if status is not None and status.undo is not None and status.undo.forgot:
        return refuse_forgotten(flow.name, status.undo).message
    if flow.in_catalogue and not has_session():
        return None
    try:
        opened = open_flow(flow, resources)
        check = check_still_there if status and status.plan else check_agreement
        check(flow, opened.output, opened.mark)
    except TidegaugeError as error:
        return error.message
    return None


def _faults(choice: Selection) -> list[Health]:
    return [Health(name, State.FAILED, None, 0, (error.message,), ()) for name, error in choice.faults]
