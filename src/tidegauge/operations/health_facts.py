"""What the ledger knows about a pipeline's flows, read once for all health checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegauge.model.by_flow import gather_by_flow
from tidegauge.model.expectation import NOT_AS_EXPECTED
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.run import FlowStatus, HistoryEvent, RunRecord
from tidegauge.model.state import State
from tidegauge.model.watermark import Tally, Watermark
from tidegauge.operations.health_checks import FlowFacts
from tidegauge.operations.status import count_waiting, lag_of, read_statuses

_EVENTS = 2000
_RECENT = timedelta(days=30)


@dataclass(frozen=True)
class PipelineFacts:
    now: datetime
    """The time by the store's clock."""
    statuses: Mapping[str, FlowStatus]
    """The suspension in them is the flow's, or else its pipeline's."""
    marks: Mapping[str, list[Watermark]]
    events: Mapping[str, list[HistoryEvent]]
    """The newest two thousand events of the pipeline by flow, newest first."""
    runs: Mapping[str, list[RunRecord]]
    """The runs of the last thirty days by flow, newest first."""
    tallies: Mapping[str, Tally]

    def of(self, flow: str) -> FlowFacts | None:
        """Return a flow's facts; None if it has neither run nor a plan."""
        status = self.statuses.get(flow)
        if status is None or (status.last_run is None and status.plan is None):
            return None
        mark = next(iter(self.marks.get(flow, ())), None)
        tally, runs = self.tallies.get(flow, Tally()), self.runs.get(flow, [])
        filled = [run.ended_at or run.started_at for run in runs if run.rows_written]
        return FlowFacts(
            now=self.now,
            rows_at=max(filled) if filled else tally.advanced_at,
            rows=None if mark is not None and mark.seq and not tally.batches else tally.rows,
            lag_seconds=lag_of(mark, self.now) if mark else None,
            runs=runs,
            planned_at=status.planned_at if status.plan else None,
            rows_waiting=count_waiting(self.marks.get(flow, ())),
            not_as_expected=_find_unexpected(self.events.get(flow, ())),
        )

    def count_failures(self, flow: str) -> int:
        """Count a flow's failed runs since the last one that ended well."""
        failures = 0
        for run in self.runs.get(flow, ()):
            if run.state in (State.SUCCESS, State.SKIPPED):
                break
            failures += run.state is State.FAILED
        return failures


def _find_unexpected(events: Sequence[HistoryEvent]) -> list[tuple[datetime, str]]:
    return [(one.at, one.reason or "") for one in events if one.event == NOT_AS_EXPECTED]


def read_facts(ledger: LedgerReader, pipeline: str) -> PipelineFacts:
    now = ledger.now()
    statuses = {status.flow: status for status in read_statuses(ledger, pipeline)}
    return PipelineFacts(
        now,
        statuses,
        gather_by_flow(ledger.watermarks(pipeline)),
        gather_by_flow(ledger.history(pipeline, limit=_EVENTS)),
        gather_by_flow(ledger.runs(pipeline, since=now - _RECENT)),
        ledger.tallies(pipeline, list(statuses)),
    )
