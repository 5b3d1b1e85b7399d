"""What is wrong, and what will be soon: by the ledger, the outputs, and the logs of Delta inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
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
from tidegauge.model.health import HealthCheck, HealthFinding, HealthLevel, HealthLimits, HealthReport
from tidegauge.model.run import FlowStatus, HistoryEvent, RunRecord
from tidegauge.model.spec import Project
from tidegauge.model.state import State
from tidegauge.model.watermark import Tally, Watermark
from tidegauge.operations.health_checks import FlowFacts, check_flow
from tidegauge.operations.retention import Notice, current_session, has_session, notices
from tidegauge.operations.stats import seconds_of
from tidegauge.operations.status import is_wanted, iso, lag_of

_PARALLEL = 8
_EVENTS = 2000
_RECENT = timedelta(days=30)
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
    findings: tuple[HealthFinding, ...] = ()
    """Of all checks, also what is well; what is not well is in `problems` or `warnings` too."""
    runs: tuple[RunRecord, ...] = ()
    """Of the last thirty days, newest first."""

    @property
    def level(self) -> HealthLevel:
        if self.problems:
            return HealthLevel.CRITICAL
        return HealthLevel.WARNING if self.warnings else HealthLevel.HEALTHY

    def adding(self, findings: Sequence[HealthFinding]) -> Health:
        """The same with more findings, each also among the problems or warnings if it is one."""
        said = {level: tuple(one.says for one in findings if one.level is level) for level in HealthLevel}
        return replace(
            self,
            problems=(*self.problems, *said[HealthLevel.CRITICAL]),
            warnings=(*self.warnings, *said[HealthLevel.WARNING]),
            findings=(*self.findings, *findings),
        )

    def to_report(self, layer: str) -> HealthReport:
        good = [run for run in reversed(self.runs) if run.state is State.SUCCESS]
        took = [(seconds, run.rows_written) for run in good if (seconds := seconds_of(run)) is not None]
        return HealthReport(
            self.flow,
            layer,
            self.state.value,
            self.level,
            self.findings,
            tuple(seconds for seconds, _ in took),
            tuple(rows for _, rows in took),
        )

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
        runs: dict[str, list[RunRecord]] = {}
        for run in ledger.runs(project.pipeline, since=now - _RECENT):
            runs.setdefault(run.flow, []).append(run)
        tallies = ledger.tallies(project.pipeline, list(statuses))
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
        if lost:
            return replace(found, state=State.FAILED)
        if status is None or status.last_run is None:
            return found
        facts = _facts(
            status, marks.get(flow.name), tallies.get(flow.name, Tally()), runs.get(flow.name, []), now
        )
        limits = limits_of(project, flow)
        return replace(found, runs=tuple(facts.runs)).adding(list(check_flow(facts, limits)))

    if not choice.all_flows:
        return now, _faults(choice)
    with ThreadPoolExecutor(min(_PARALLEL, len(choice.all_flows))) as pool:
        return now, [*_faults(choice), *pool.map(one, choice.all_flows)]


def limits_of(project: Project, flow: AnyFlow) -> HealthLimits:
    for word, limits in project.health.override.items():
        if (
            word.removeprefix("tag:") in flow.tags
            if word.startswith("tag:")
            else is_wanted(flow.name, [word])
        ):
            return limits
    return project.health.limits


def _facts(
    status: FlowStatus, mark: Watermark | None, tally: Tally, runs: Sequence[RunRecord], now: datetime
) -> FlowFacts:
    filled = [run.ended_at or run.started_at for run in runs if run.rows_written]
    return FlowFacts(
        now=now,
        rows_at=max(filled) if filled else tally.advanced_at,
        rows=None if mark is not None and mark.seq and not tally.batches else tally.rows,
        lag_seconds=lag_of(mark, now) if mark else None,
        runs=runs,
        planned_at=status.planned_at if status.plan else None,
    )


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
    findings = [
        *(HealthFinding(HealthCheck.STATUS, HealthLevel.CRITICAL, text) for text in problems),
        *(HealthFinding(HealthCheck.STATUS, HealthLevel.WARNING, text) for text in warnings),
    ]
    well = [HealthFinding(HealthCheck.STATUS, HealthLevel.HEALTHY, f"{state}, as it should be")]
    return Health(
        flow,
        state,
        success,
        _count_failures(events),
        tuple(problems),
        tuple(warnings),
        tuple(findings or well),
    )


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
    nothing = Health("", State.FAILED, None, 0, (), ())
    return [
        replace(nothing, flow=name).adding(
            [HealthFinding(HealthCheck.STATUS, HealthLevel.CRITICAL, error.message)]
        )
        for name, error in choice.faults
    ]
