"""What is wrong, and what will be soon: by the ledger, the outputs, and the logs of Delta inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tidegauge.errors import TidegaugeError
from tidegauge.flows.agreement import check_agreement, check_still_there
from tidegauge.flows.delta_places import Places
from tidegauge.flows.flow import FlowResources
from tidegauge.flows.known_sources import KnownSources
from tidegauge.flows.missing_tables import find_remembered, refuse_forgotten
from tidegauge.flows.open import open_flow
from tidegauge.flows.select import Selection, Sources, choose
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import is_gone
from tidegauge.model.delta_flow import AnyFlow
from tidegauge.model.health import HealthCheck, HealthFinding, HealthLevel, HealthLimits, HealthReport
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.run import FlowStatus, HistoryEvent, RunRecord
from tidegauge.model.spec import Project
from tidegauge.model.state import State
from tidegauge.operations.health_checks import check_flow, check_tracker
from tidegauge.operations.health_facts import PipelineFacts, read_facts
from tidegauge.operations.retention import Notice, current_session, has_session, notices
from tidegauge.operations.stats import seconds_of
from tidegauge.operations.status import is_wanted, iso

_PARALLEL = 8
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
        known = read_facts(ledger, project.pipeline)
        trackers = _examine_trackers(project, ledger, selection)
        words = [word for word in selection if word not in {one.flow for one in trackers}]
        if selection and not words:
            return known.now, trackers
        with KnownSources(project, find_remembered(known.statuses.values())) as sources:
            recorded = {flow: marks[0].source_id for flow, marks in known.marks.items()}
            choice = choose(project, words, sources, recorded=recorded)
        retained = notices(project, ledger, choice.delta_flows)
    resources = FlowResources(Sources(), Places(current_session), known.marks)

    def one(flow: AnyFlow) -> Health:
        status, lost = known.statuses.get(flow.name), choice.missing.get(flow.name)
        disagreement = str(lost) if lost else _find_disagreement(flow, status, resources)
        found = _one(flow.name, known, retained.get(flow.name, []), disagreement)
        if lost:
            return replace(found, state=State.FAILED)
        facts = known.of(flow.name)
        if facts is None:
            return found
        findings = list(check_flow(facts, limits_of(project, flow)))
        return replace(found, runs=tuple(facts.runs)).adding(findings)

    if not choice.all_flows:
        return known.now, [*_faults(choice), *trackers]
    with ThreadPoolExecutor(min(_PARALLEL, len(choice.all_flows))) as pool:
        return known.now, [*_faults(choice), *pool.map(one, choice.all_flows), *trackers]


def _examine_trackers(project: Project, ledger: LedgerReader, selection: Sequence[str]) -> list[Health]:
    """The pipelines that a WatermarkTracker keeps in the same ledger: each is its own only flow."""
    found: list[Health] = []
    for name in ledger.pipelines():
        if name == project.pipeline or not is_wanted(name, selection):
            continue
        known = read_facts(ledger, name)
        if name not in known.statuses:
            continue
        health, facts = _one(name, known, (), None), known.of(name)
        if facts is not None:
            facts = replace(facts, rows_at=known.tallies[name].advanced_at)
            findings = list(check_tracker(facts, limits_named(project, name, ())))
            health = replace(health, runs=tuple(facts.runs)).adding(findings)
        found.append(health)
    return found


def limits_of(project: Project, flow: AnyFlow) -> HealthLimits:
    return limits_named(project, flow.name, flow.tags)


def limits_named(project: Project, name: str, tags: Collection[str]) -> HealthLimits:
    for word, limits in project.health.override.items():
        if word.removeprefix("tag:") in tags if word.startswith("tag:") else is_wanted(name, [word]):
            return limits
    return project.health.limits


def _one(flow: str, known: PipelineFacts, retained: Sequence[Notice], disagreement: str | None) -> Health:
    status, events = known.statuses.get(flow), known.events.get(flow, [])
    state = status.shown_state if status else State.READY
    problems = [notice.text for notice in retained if notice.over]
    if status is not None and state is not State.RUNNING:
        problems = [*_find_failure(status.last_run), *problems]
    if disagreement is not None and disagreement not in problems:
        problems.append(disagreement)
    warnings = [*(notice.text for notice in retained if not notice.over), *_warn_of(status, known.now)]
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
