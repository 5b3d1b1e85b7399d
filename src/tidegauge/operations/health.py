"""What is wrong with flows or soon will be, according to the ledger, the outputs and Delta inputs' logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from graphlib import TopologicalSorter
from typing import Any

from tidegauge.errors import ConfigError, OutputDisagrees, OutputNotEmpty, SourceUnreachable, TidegaugeError
from tidegauge.flows.agreement import check_agreement, check_still_there
from tidegauge.flows.delta_locator import DeltaTableLocator
from tidegauge.flows.flow import FlowResources
from tidegauge.flows.open import open_flow
from tidegauge.flows.selection.known_sources import KnownSources
from tidegauge.flows.selection.missing_tables import find_remembered, refuse_forgotten
from tidegauge.flows.selection.select import Selection, choose
from tidegauge.ledger.holder import is_abandoned, is_held
from tidegauge.ledger.open import open_ledger
from tidegauge.model.alert import AlertKind
from tidegauge.model.delta_flow import DataFlow
from tidegauge.model.health import HealthCheck, HealthFinding, HealthLevel, HealthLimits, HealthReport
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.run import FlowStatus, RunRecord
from tidegauge.model.spec import Project, TableFlow
from tidegauge.model.state import State, tell_state
from tidegauge.operations.health_checks import check_flow, check_tracker, check_watermark_moved
from tidegauge.operations.health_facts import PipelineFacts, read_facts
from tidegauge.operations.retention import RetentionNotice, current_session, find_notices, has_session
from tidegauge.operations.stats import seconds_of
from tidegauge.operations.status import is_wanted, iso, limits_named
from tidegauge.operations.tracker_pipelines import check_pipeline

_PARALLEL = 8
_ENDED_WELL = ("finished", "skipped")


@dataclass(frozen=True)
class Health:
    flow: str
    state: State
    last_success: datetime | None
    failures: int
    """Number of failed runs in a row, up to now."""
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    findings: tuple[HealthFinding, ...] = ()
    """The findings of all checks, also of what is well; the others are in `problems` or `warnings` too."""
    runs: tuple[RunRecord, ...] = ()
    """The runs of the last thirty days, newest first."""
    unknown: tuple[AlertKind, ...] = ()
    """Kinds that could not be checked now: without a finding of this kind it may still be wrong."""
    ended_as_skipped: bool = False
    """Whether the last run gave its plan up."""
    suspended: bool = False
    """Whether a person has suspended the flow or its pipeline."""
    abandoned: bool = False
    """Whether it is RUNNING but its runner is gone."""

    @property
    def told_state(self) -> str:
        return tell_state(
            self.state, suspended=self.suspended, prevented=self.ended_as_skipped, gone=self.abandoned
        )

    @property
    def level(self) -> HealthLevel:
        if self.problems:
            return HealthLevel.CRITICAL
        return HealthLevel.WARNING if self.warnings else HealthLevel.HEALTHY

    def adding(self, findings: Sequence[HealthFinding]) -> Health:
        """Return a copy with more findings; critical ones are added to `problems`, warnings to `warnings`."""
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
            self.told_state,
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


def check_health(
    project: Project, selection: Sequence[str], *, look_at_sources: bool = True
) -> tuple[datetime, list[Health]]:
    """Return the time by the store's clock, and the health of every selected flow. Changes nothing, and
    starts no Spark.

    `look_at_sources`: whether to ask databases for the columns of each table; not needed right after a run.
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
            retained = find_notices(project, ledger, choice.delta_flows)
            resources = FlowResources(sources, DeltaTableLocator(current_session), known.marks)
            looks = _Looks(project, known, choice, retained, resources, look_at_sources)
            return known.now, [*_report_faults(choice), *looks.look(), *trackers]


@dataclass(frozen=True)
class _Looks:
    """Checks the chosen flows, several in parallel."""

    project: Project
    known: PipelineFacts
    choice: Selection
    retained: Mapping[str, Sequence[RetentionNotice]]
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
        """Return the flow's health if its output shows that the ledger lost it, else None. That the table is
        refused is reported elsewhere."""
        status = self.known.statuses.get(flow.name)
        problems, _ = _find_disagreement(flow, status, self.resources, self.known.now)
        if not any(one.alert is AlertKind.REGRESSED for one in problems):
            return None
        return replace(_one(flow.name, self.known, (), problems), state=State.FAILED)

    def _look_at_source(self, flow: DataFlow) -> tuple[str, list[HealthFinding]]:
        """Return the flow's name, and why the next run could not read its source."""
        status, lost = self.known.statuses.get(flow.name), self.choice.missing.get(flow.name)
        if lost is not None:
            return flow.name, [_critical(lost.sentence, AlertKind.FAILED)]
        if not self.look_at_sources or (status and status.undo is not None and status.undo.forgot):
            return flow.name, []
        try:
            open_flow(flow, self.resources).check_source()
        except SourceUnreachable as error:
            return flow.name, [_critical(error.message)]
        except TidegaugeError as error:
            hint = f"; {error.hint}" if error.hint else ""
            return flow.name, [_critical(f"{error.message}{hint}", AlertKind.FAILED)]
        return flow.name, []

    def _one(self, flow: DataFlow, barred: Sequence[HealthFinding]) -> Health:
        known, lost = self.known, flow.name in self.choice.missing
        problems, asked = list(barred), False
        if not lost:
            status = known.statuses.get(flow.name)
            disagreement, asked = _find_disagreement(flow, status, self.resources, known.now)
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
    found: Sequence[Health], barred: Mapping[str, Sequence[HealthFinding]], flows: Sequence[DataFlow]
) -> list[Health]:
    """Return `found`, with a warning for each flow that reads, also indirectly, from one that cannot run."""
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
    """Return the store's time and the health of a tracker's pipeline. Raises ConfigError for any other."""
    with open_ledger(project.ledger, create=False) as ledger:
        found = _examine_named(project, ledger, [check_pipeline(ledger, name)])
        if not found:
            raise ConfigError(
                f"the pipeline '{name}' is no tracker's", hint="`tidegauge health` in its project's folder"
            )
        return ledger.now(), found


def _examine_trackers(project: Project, ledger: LedgerReader, selection: Sequence[str]) -> list[Health]:
    """Check the pipelines of WatermarkTrackers in the same ledger: each has one flow, with its own name."""
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


def limits_of(project: Project, flow: DataFlow) -> HealthLimits:
    return limits_named(project, flow.name, flow.tags)


def _one(
    flow: str, known: PipelineFacts, retained: Sequence[RetentionNotice], problems: Sequence[HealthFinding]
) -> Health:
    """Return a flow's health by the ledger; `problems` are those found elsewhere already."""
    status, events = known.statuses.get(flow), known.events.get(flow, [])
    state = status.shown_state if status else State.READY
    failure = _find_failure(status.last_run) if status and state is not State.RUNNING else []
    found = [*failure, *(_critical(notice.text, AlertKind.LATE) for notice in retained if notice.over)]
    # Leave out what `problems` say in more detail.
    found = [one for one in found if not any(more.says.startswith(one.says) for more in problems)]
    found += problems
    found += [_warning(notice.text, AlertKind.LATE) for notice in retained if not notice.over]
    found += _find_warnings(status, known.now)
    success = next((event.at for event in events if event.event in _ENDED_WELL), None)
    made = Health(flow, state, success, known.count_failures(flow), (), ())
    if status is not None:
        suspended, gone = status.suspended is not None, is_abandoned(status, known.now)
        made = replace(made, ended_as_skipped=status.ended_as_skipped, suspended=suspended, abandoned=gone)
    well = HealthFinding(HealthCheck.STATUS, HealthLevel.HEALTHY, f"{made.told_state}, as it should be")
    return made.adding(found or [well])


def _critical(says: str, alert: AlertKind | None = None) -> HealthFinding:
    return HealthFinding(HealthCheck.STATUS, HealthLevel.CRITICAL, says, alert)


def _warning(says: str, alert: AlertKind | None = None) -> HealthFinding:
    return HealthFinding(HealthCheck.STATUS, HealthLevel.WARNING, says, alert)


def _find_failure(run: RunRecord | None) -> list[HealthFinding]:
    if run is None or run.state is not State.FAILED:
        return []
    return [_critical(str((run.error or {}).get("message") or "its last run failed"), AlertKind.FAILED)]


def _find_warnings(status: FlowStatus | None, now: datetime) -> Iterator[HealthFinding]:
    """Yield warnings about what the next run of the flow will mend."""
    if status is None:
        yield _warning("it has not run yet")
        return
    if status.override is not None:
        ends = "it ends once the flow is resumed" if status.suspended else "the next run ends it"
        yield _warning(f"an override ({status.override.kind}) was begun and not ended: {ends}")
    if is_abandoned(status, now):
        late = status.lease_until is not None and status.lease_until <= now
        why = "let the lease run out" if late else "is gone"
        then = "it goes on once it is resumed" if status.suspended else "the next run takes over"
        yield _warning(f"its runner {why}; {then}", AlertKind.STUCK)


def _find_moved(flow: str, known: PipelineFacts) -> list[HealthFinding]:
    """Find watermarks that no batch or override set. Not checked during a plan or override."""
    status = known.statuses.get(flow)
    if status is None or status.plan is not None or status.override is not None:
        return []
    return list(check_watermark_moved(known.marks.get(flow, ()), known.events.get(flow, ())))


def _can_be_asked(flow: DataFlow, status: FlowStatus | None, now: datetime) -> bool:
    """Whether nothing is changing the flow now: while a runner or an override does, its ledger and its output
    may differ."""
    if status is not None and (status.override is not None or is_held(status, now)):
        return False
    forgotten = status is not None and status.undo is not None and status.undo.forgot
    return forgotten or not flow.in_catalogue or has_session()


def _find_disagreement(
    flow: DataFlow, status: FlowStatus | None, resources: FlowResources, now: datetime
) -> tuple[list[HealthFinding], bool]:
    """Return why ledger and output disagree, and whether the output could be asked.

    During an unfinished plan the output may have one batch more than the ledger.
    """
    if not _can_be_asked(flow, status, now):
        return [], False
    if status is not None and status.undo is not None and status.undo.forgot:
        return [_critical(refuse_forgotten(flow.name, status.undo).message)], True
    try:
        opened = open_flow(flow, resources)
        check = check_still_there if status and status.plan else check_agreement
        check(flow, opened.output, opened.mark)
    except (OutputDisagrees, OutputNotEmpty) as error:
        return [_critical(error.message, AlertKind.REGRESSED)], True
    except TidegaugeError as error:
        return [_critical(error.message)], False
    return [], True


def _report_faults(choice: Selection) -> list[Health]:
    nothing = Health("", State.FAILED, None, 0, (), ())
    return [
        replace(nothing, flow=name).adding([_critical(error.message, AlertKind.FAILED)])
        for name, error in choice.faults
    ]
