"""A ledger's flows as values that any other ledger can import: for copies, and to move to another store."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from tidegauge.errors import WrongState
from tidegauge.ledger.document_store import StoredFlow
from tidegauge.ledger.flow_document import FlowDocument
from tidegauge.ledger.flow_state import ActivePlan, EndedPlan, FlowState, StateChange
from tidegauge.ledger.log_entries import (
    ended_body,
    event_body,
    event_of,
    moment_of,
    run_body,
    run_of,
)
from tidegauge.ledger.stored_flow import document_of, stored_flow_of
from tidegauge.model.by_flow import gather_by_flow
from tidegauge.model.claim import Owner
from tidegauge.model.plan import Plan, draft_from_body
from tidegauge.model.run import HistoryEvent, RunRecord
from tidegauge.model.state import State

IMPORTED = "imported"
"""The event that records an import in the history."""


@dataclass(frozen=True)
class FlowBackup:
    """All that a ledger knows of one flow."""

    flow_state: FlowState
    events: tuple[HistoryEvent, ...] = ()
    """Oldest first, like `runs` and `ended`."""
    runs: tuple[RunRecord, ...] = ()
    ended: tuple[EndedPlan, ...] = ()

    @property
    def name(self) -> tuple[str, str]:
        return self.flow_state.pipeline, self.flow_state.flow

    def to_json(self) -> dict[str, Any]:
        at = self.runs[-1].started_at if self.runs else datetime.min
        stored = stored_flow_of(FlowDocument(self.flow_state, at, at, known=True))
        return {
            "pipeline": stored.pipeline,
            "flow": stored.flow,
            "state": dict(stored.body),
            "history": [event_body(event) for event in self.events],
            "runs": [run_body(run) for run in self.runs],
            "plans": [ended_body(ended) for ended in self.ended],
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> FlowBackup:
        stored = StoredFlow(body["pipeline"], body["flow"], body["state"], {})
        return cls(
            document_of(stored).flow_state,
            tuple(map(event_of, body["history"])),
            tuple(map(run_of, body["runs"])),
            tuple(map(_ended_of, body["plans"])),
        )


class BackupSource(Protocol):
    """What `back_up` reads of a ledger."""

    def pipelines(self) -> list[str]: ...

    def history(self, pipeline: str, *, limit: int) -> list[HistoryEvent]: ...

    def runs(self, pipeline: str, *, since: datetime) -> list[RunRecord]: ...

    def table_rows(self, table: str) -> list[dict[str, Any]]: ...

    def flow_states(self, pipeline: str) -> list[FlowState]: ...


def back_up(ledger: BackupSource, pipelines: Collection[str]) -> list[FlowBackup]:
    """Every flow of these pipelines, in name order."""
    plans = [row for row in ledger.table_rows("plans") if row.get("active") is None]
    found: list[FlowBackup] = []
    for pipeline in sorted(pipelines):
        events = gather_by_flow(reversed(ledger.history(pipeline, limit=2**31 - 1)))
        runs = gather_by_flow(sorted(ledger.runs(pipeline, since=datetime.min), key=_order_of_start))
        for state in ledger.flow_states(pipeline):
            mine = [row for row in plans if (row["pipeline"], row["flow"]) == (pipeline, state.flow)]
            ended = (_ended_of(_body_of(row)) for row in sorted(mine, key=lambda row: row["created_at"]))
            found.append(
                FlowBackup(
                    state, tuple(events.get(state.flow, ())), tuple(runs.get(state.flow, ())), tuple(ended)
                )
            )
    return found


def restore(
    flow_state: FlowState, now: datetime, backup: FlowBackup, owner: Owner, reason: str
) -> StateChange | None:
    """The rule that imports a flow; None if the ledger has it already, exactly as in the backup. Raises
    WrongState if the ledger has it in another state."""
    if flow_state == backup.flow_state:
        return None
    if flow_state != FlowState(*backup.name):
        raise WrongState(
            f"{flow_state.flow} is in this ledger already, and not as the file has it",
            hint="import into a ledger that does not know it; `watermark import` changes watermarks alone",
        )
    imported = HistoryEvent(now, *backup.name, None, IMPORTED, owner.actor, reason, None, None, None)
    return StateChange(backup.flow_state, (*backup.events, imported), backup.runs, backup.ended)


def _ended_of(body: Mapping[str, Any]) -> EndedPlan:
    draft = draft_from_body(body["pipeline"], body["flow"], body["plan"])
    return EndedPlan(
        ActivePlan(
            plan=Plan(body["plan_id"], draft, body["epoch"], body["first_seq"], body["done"]),
            # A log has no state and no owner of a plan that ended; `word`, below, says how it ended.
            state=State.PLANNED,
            attempt=body["attempts"],
            begun=None,
            completed=frozenset(),
            owner=None,
            lease_until=None,
            created_at=moment_of(body["created_at"]),
            updated_at=moment_of(body["at"]),
        ),
        body["kind"],
    )


def _body_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the table `plans` as an entry of the log of plans."""
    return {
        **row,
        "kind": row["state"],
        "attempts": row["attempt"],
        "created_at": row["created_at"].isoformat(),
        "at": row["updated_at"].isoformat(),
        "plan": json.loads(row["body"]),
    }


def _order_of_start(run: RunRecord) -> tuple[datetime, int]:
    return run.started_at, run.attempt
