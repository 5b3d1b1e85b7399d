"""The ledger at an address where none has been made yet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tidegauge.ledger.flow_state import FlowState
from tidegauge.ledger.sql_reader import SqlReader
from tidegauge.model.run import EventTotals, FlowStatus, HistoryEvent, RunRecord, RunTotals
from tidegauge.model.ticks import SchedulerRecords
from tidegauge.model.watermark import Tally, Watermark


class EmptyLedger(SqlReader):
    """Answers like a ledger that knows no flow, and leaves the store as it found it."""

    def watermarks(self, pipeline: str, flows: Sequence[str] | None = None) -> list[Watermark]:  # noqa: ARG002
        return []

    def status(self, pipeline: str, flows: Sequence[str] | None = None) -> list[FlowStatus]:  # noqa: ARG002
        return []

    def tallies(self, pipeline: str, flows: Sequence[str]) -> dict[str, Tally]:  # noqa: ARG002
        return {}

    def history(
        self,
        pipeline: str,  # noqa: ARG002
        *,
        flow: str | None = None,  # noqa: ARG002
        failed: bool = False,  # noqa: ARG002
        events: Sequence[str] | None = None,  # noqa: ARG002
        limit: int = 20,  # noqa: ARG002
    ) -> list[HistoryEvent]:
        return []

    def runs(
        self,
        pipeline: str,  # noqa: ARG002
        *,
        since: datetime = datetime.min,  # noqa: ARG002
        flow: str | None = None,  # noqa: ARG002
        run_id: str | None = None,  # noqa: ARG002
        limit: int | None = None,  # noqa: ARG002
    ) -> list[RunRecord]:
        return []

    def run_totals(self, pipeline: str) -> list[RunTotals]:  # noqa: ARG002
        return []

    def event_totals(self, pipeline: str) -> list[EventTotals]:  # noqa: ARG002
        return []

    def pipelines(self) -> list[str]:
        return []

    def ticks(self, pipeline: str) -> SchedulerRecords:  # noqa: ARG002
        return SchedulerRecords()

    def find_plan(self, plan_id: str) -> tuple[str, str, bool] | None:  # noqa: ARG002
        return None

    def table_rows(self, table: str) -> list[dict[str, Any]]:  # noqa: ARG002
        return []

    def flow_states(self, pipeline: str) -> list[FlowState]:  # noqa: ARG002
        return []
