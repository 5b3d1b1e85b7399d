"""What is wrong, and what will be soon: by the ledger, the outputs, and the logs of Delta inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from graphlib import TopologicalSorter
from typing import Any

from tidegauge.errors import ConfigError, OutputDisagrees, OutputNotEmpty, SourceUnreachable, TidegaugeError
from tidegauge.flows.agreement import check_agreement, check_still_there
from tidegauge.flows.delta_places import Places
from tidegauge.flows.flow import FlowResources
from tidegauge.flows.known_sources import KnownSources
from tidegauge.flows.missing_tables import find_remembered, refuse_forgotten
from tidegauge.flows.open import open_flow
from tidegauge.flows.select import Selection, choose
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import is_gone
from tidegauge.model.alert import AlertKind
from tidegauge.model.delta_flow import AnyFlow
from tidegauge.model.health import HealthCheck, HealthFinding, HealthLevel, HealthLimits, HealthReport
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.run import FlowStatus, RunRecord
from tidegauge.model.spec import Project, TableFlow
from tidegauge.model.state import State
from tidegauge.operations.health_checks import check_flow, check_tracker, check_watermark_moved
from tidegauge.operations.health_facts import PipelineFacts, read_facts
from tidegauge.operations.retention import Notice, current_session, has_session, notices
from tidegauge.operations.stats import seconds_of
from tidegauge.operations.status import is_wanted, iso
from tidegauge.operations.tracked import check_pipeline

_PARALLEL = 8
_ENDED_WELL = ("finished", "skipped")


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
    unknown: tuple[AlertKind, ...] = ()
    """What nobody could find out now; that it is not among the findings says nothing."""

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


def examine(
    project: Project, selection: Sequence[str], *, look_at_sources: bool = True
) -> tuple[datetime, list[Health]]:
    """The store's clock, and every flow that is selected. Changes nothing, and starts no Spark.

    `look_at_sources`: whether databases are asked for the columns of each table; who has just run its flow
    knows what has become of it.
    """
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
            resources = FlowResources(sources, Places(current_session), known.marks)
            looks = _Looks(project, known, choice, retained, resources, look_at_sources)
            return known.now, [*_faults(choice), *looks.look(), *trackers]


@dataclass(frozen=True)
class _Looks:
    """At the flows of a choice, several at a time."""

    project: Project
    known: PipelineFacts
    choice: Selection
    retained: Mapping[str, Sequence[Notice]]
    resources: FlowResources
    look_at_sources: bool

    def look(self) -> list[Health]:
        flows = (*self.choice.refused, *self.choice.all_flows)
        if not flows:
            return []
        with ThreadPoolExecutor(min(_PARALLEL, len(flows))) as pool:
            lost = [one for one in pool.map(self._look_at_refused, self.choice.refused) if one is not None]
            barred = dict(pool.map(self._look_at_source, self.choice.all_flows))
            found = pool.map(lambda flow: self._one(flow, barred[flow.name]), self.choice.all_flows)
            return [*lost, *_hold_back(list(found), barred, self.choice.all_flows)]

    def _look_at_refused(self, flow: TableFlow) -> Health | None:
        """Why its table is refused is a fault of its own. Whether the ledger that knew it is lost is not."""
        problems, _ = _find_disagreement(flow, self.known.statuses.get(flow.name), self.resources)
        if not any(one.alert is AlertKind.REGRESSED for one in problems):
            return None
        return replace(_one(flow.name, self.known, (), problems), state=State.FAILED)

    def _look_at_source(self, flow: AnyFlow) -> tuple[str, list[HealthFinding]]:
        """Why the next run could not read what it reads, though the table is there."""
        status, lost = self.known.statuses.get(flow.name), self.choice.missing.get(flow.name)
        if lost is not None:
            return flow.name, [_bad(lost.sentence, AlertKind.FAILED)]
        if not self.look_at_sources or (status and status.undo is not None and status.undo.forgot):
            return flow.name, []
        try:
            open_flow(flow, self.resources).check_source()
        except SourceUnreachable as error:
            return flow.name, [_bad(error.message)]
        except TidegaugeError as error:
            hint = f"; {error.hint}" if error.hint else ""
            return flow.name, [_bad(f"{error.message}{hint}", AlertKind.FAILED)]
        return flow.name, []

    def _one(self, flow: AnyFlow, barred: Sequence[HealthFinding]) -> Health:
        known, lost = self.known, flow.name in self.choice.missing
        problems, asked = list(barred), False
        if not lost:
            disagreement, asked = _find_disagreement(flow, known.statuses.get(flow.name), self.resources)
            problems = [*disagreement, *barred]
        problems += _find_moved(flow.name, known)
        found = _one(flow.name, known, self.retained.get(flow.name, []), problems)
        found = replace(found, unknown=() if asked else (AlertKind.REGRESSED,))
        if lost:
            return replace(found, state=State.FAILED)
        facts = known.of(flow.name)
        if facts is None:
            return found
        findings = list(check_flow(facts, limits_of(self.project, flow)))
        return replace(found, runs=tuple(facts.runs)).adding(findings)


def _hold_back(
    found: Sequence[Health], barred: Mapping[str, Sequence[HealthFinding]], flows: Sequence[AnyFlow]
) -> list[Health]:
    """The same, where a flow that cannot run is named to those that read from it."""
    above = {flow.name: [name for name in flow.upstreams if name in barred] for flow in flows}
    held: dict[str, str] = {name: name for name, problems in barred.items() if problems}
    for name in TopologicalSorter(above).static_order():
        first = next((held[upper] for upper in above[name] if upper in held), None)
        if first is not None:
            held.setdefault(name, first)
    return [
        one
        if held.get(one.flow, one.flow) == one.flow
        else one.adding([_warning(f"held back: {held[one.flow]} cannot run, and it reads from that")])
        for one in found
    ]


def examine_tracker(project: Project, name: str) -> tuple[datetime, list[Health]]:
    """The store's clock, and a pipeline that a WatermarkTracker keeps. Raises ConfigError for another."""
    with open_ledger(project.ledger, create=False) as ledger:
        found = _examine_named(project, ledger, [check_pipeline(ledger, name)])
        if not found:
            raise ConfigError(
                f"the pipeline '{name}' is no tracker's", hint="`tidegauge health` in its project's folder"
            )
        return ledger.now(), found


def _examine_trackers(project: Project, ledger: LedgerReader, selection: Sequence[str]) -> list[Health]:
    """The pipelines that a WatermarkTracker keeps in the same ledger: each is its own only flow."""
    others = [name for name in ledger.pipelines() if name != project.pipeline and is_wanted(name, selection)]
    return _examine_named(project, ledger, others)


def _examine_named(project: Project, ledger: LedgerReader, names: Sequence[str]) -> list[Health]:
    found: list[Health] = []
    for name in names:
        known = read_facts(ledger, name)
        if name not in known.statuses:
            continue
        health, facts = _one(name, known, (), ()), known.of(name)
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


def _one(
    flow: str, known: PipelineFacts, retained: Sequence[Notice], problems: Sequence[HealthFinding]
) -> Health:
    """`problems`: what is known of it already, beside how its last run ended."""
    status, events = known.statuses.get(flow), known.events.get(flow, [])
    state = status.shown_state if status else State.READY
    failure = _find_failure(status.last_run) if status and state is not State.RUNNING else []
    found = [*failure, *(_bad(notice.text, AlertKind.LATE) for notice in retained if notice.over)]
    # What a look says again, and says more of, is said once.
    found = [one for one in found if not any(more.says.startswith(one.says) for more in problems)]
    found += problems
    found += [_warning(notice.text, AlertKind.LATE) for notice in retained if not notice.over]
    found += _warn_of(status, known.now)
    success = next((event.at for event in events if event.event in _ENDED_WELL), None)
    well = [HealthFinding(HealthCheck.STATUS, HealthLevel.HEALTHY, f"{state}, as it should be")]
    failures = _count_failures(known.runs.get(flow, ()))
    return Health(flow, state, success, failures, (), ()).adding(found or well)


def _bad(says: str, alert: AlertKind | None = None) -> HealthFinding:
    return HealthFinding(HealthCheck.STATUS, HealthLevel.CRITICAL, says, alert)


def _warning(says: str, alert: AlertKind | None = None) -> HealthFinding:
    return HealthFinding(HealthCheck.STATUS, HealthLevel.WARNING, says, alert)


def _find_failure(run: RunRecord | None) -> list[HealthFinding]:
    if run is None or run.state is not State.FAILED:
        return []
    return [_bad(str((run.error or {}).get("message") or "its last run failed"), AlertKind.FAILED)]


def _count_failures(runs: Sequence[RunRecord]) -> int:
    """Since the last good end; the runs come newest first."""
    failures = 0
    for run in runs:
        if run.state in (State.SUCCESS, State.SKIPPED):
            break
        failures += run.state is State.FAILED
    return failures


def _warn_of(status: FlowStatus | None, now: datetime) -> Iterator[HealthFinding]:
    """What the ledger shows of a flow that will be a problem if nobody runs it."""
    if status is None:
        yield _warning("it has not run yet")
        return
    if status.override is not None:
        yield _warning(f"an override ({status.override.kind}) was begun and not ended: the next run ends it")
    if status.shown_state is State.RUNNING and status.lease_until and status.lease_until < now:
        yield _warning("its runner let the lease run out; the next run takes over", AlertKind.STUCK)


def _find_moved(flow: str, known: PipelineFacts) -> list[HealthFinding]:
    """Watermarks that are where nobody put them; while somebody is at the flow that cannot be told."""
    status = known.statuses.get(flow)
    if status is None or status.plan is not None or status.override is not None:
        return []
    return list(check_watermark_moved(known.marks.get(flow, ()), known.events.get(flow, ())))


def _is_busy(status: FlowStatus) -> bool:
    """Whether somebody is at it, or was until a moment ago: ledger and output need not say the same then."""
    return status.override is not None or (
        status.state is State.RUNNING and not (status.owner and is_gone(status.owner))
    )


def _can_be_asked(flow: AnyFlow, status: FlowStatus | None) -> bool:
    if status is not None and _is_busy(status):
        return False
    forgotten = status is not None and status.undo is not None and status.undo.forgot
    return forgotten or not flow.in_catalogue or has_session()


def _find_disagreement(
    flow: AnyFlow, status: FlowStatus | None, resources: FlowResources
) -> tuple[list[HealthFinding], bool]:
    """Why ledger and output do not tell the same story, and whether the output was asked and did answer.

    Of a plan that was left half-way the output may have a batch more than the ledger.
    """
    if not _can_be_asked(flow, status):
        return [], False
    if status is not None and status.undo is not None and status.undo.forgot:
        return [_bad(refuse_forgotten(flow.name, status.undo).message)], True
    try:
        opened = open_flow(flow, resources)
        check = check_still_there if status and status.plan else check_agreement
        check(flow, opened.output, opened.mark)
    except (OutputDisagrees, OutputNotEmpty) as error:
        return [_bad(error.message, AlertKind.REGRESSED)], True
    except TidegaugeError as error:
        return [_bad(error.message)], False
    return [], True


def _faults(choice: Selection) -> list[Health]:
    nothing = Health("", State.FAILED, None, 0, (), ())
    return [
        replace(nothing, flow=name).adding([_bad(error.message, AlertKind.FAILED)])
        for name, error in choice.faults
    ]
