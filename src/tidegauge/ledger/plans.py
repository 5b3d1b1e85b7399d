"""Keep plans: many flows in one transaction, at about the price of writing their rows."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select, update

from tidegauge.ledger.bulk import insert_rows, moment
from tidegauge.ledger.clock import store_now
from tidegauge.ledger.journal import entry, error_text, position_text
from tidegauge.ledger.keys import flow_key, input_key, pipeline_key
from tidegauge.ledger.reader import plan_of
from tidegauge.ledger.tables import flows, history, plans, runs, watermarks
from tidegauge.model.plan import Draft, Plan, draft_to_json
from tidegauge.model.protocols import Owner
from tidegauge.model.secret import mask
from tidegauge.model.state import Event, State, step

FIRST_EPOCH = 0
_MAY_CHANGE = ("cursor_kind", "checked", "pending", "source_id", "updated_at")
"""Of a watermark, in planning. Position and sequence move only when a batch is committed."""


def keep(connection: Connection, drafts: Sequence[Draft], *, owner: Owner, run_id: str) -> dict[str, Plan]:
    """See LedgerWriter.plan."""
    sheet = _Sheet(connection, owner, run_id)
    by_key = {flow_key(draft.pipeline, draft.flow): draft for draft in drafts}
    heads = sheet.lock({key: (draft.pipeline, draft.flow) for key, draft in by_key.items()})
    active = _active(connection, list(heads))
    marks = _marks(connection, [key for key in heads if key not in active])
    answer: dict[str, Plan] = {}
    for key, draft in by_key.items():
        known = marks.get(key, {})
        if key in active:
            answer[draft.flow] = plan_of(active[key])
        elif draft.seen is not None and draft.seen != _standing(known):
            continue
        elif draft.batches:
            assert step(State(heads[key].idle_state), Event.PLAN) is State.PLANNED
            answer[draft.flow] = sheet.planned(key, draft, heads[key].fence, known)
        else:
            sheet.skipped(key, draft, known, step(State(heads[key].idle_state), Event.SKIP))
    sheet.write()
    return answer


def refuse(
    connection: Connection, pipeline: str, flow: str, error: dict[str, Any], *, owner: Owner, run_id: str
) -> None:
    sheet = _Sheet(connection, owner, run_id)
    key = flow_key(pipeline, flow)
    head = sheet.lock({key: (pipeline, flow)})[key]
    active = _active(connection, [key]).get(key)
    state = State(active.state if active else head.idle_state)
    sheet.refused(key, pipeline, flow, step(state, Event.REFUSE), error)
    sheet.write()


def note(connection: Connection, pipeline: str, flow: str, event: str, *, owner: Owner, reason: str) -> None:
    sheet = _Sheet(connection, owner, None)
    sheet.noted(event, pipeline, flow, reason)
    sheet.write()


def _standing(known: dict[str, Row[Any]]) -> tuple[int, int]:
    """Epoch, and last sequence number committed in it."""
    return max(((mark.epoch, mark.seq) for mark in known.values()), default=(FIRST_EPOCH, 0))


class _Sheet:
    """Rows to be written, gathered flow by flow and written table by table."""

    def __init__(self, connection: Connection, owner: Owner, run_id: str | None) -> None:
        self._connection = connection
        self._owner = owner
        self._run_id = run_id
        self._now: datetime = connection.execute(select(store_now())).scalar_one()
        self._at = moment(connection, self._now)
        # One random part and a number: the rows of a call stand side by side in the primary key.
        self._token = uuid.uuid4().hex
        self._idle: dict[State, list[str]] = {}
        self._plans: list[dict[str, Any]] = []
        self._marks: list[dict[str, Any]] = []
        self._runs: list[dict[str, Any]] = []
        self._history: list[dict[str, Any]] = []

    def lock(self, names: dict[str, tuple[str, str]]) -> dict[str, Row[Any]]:
        """The flows' rows, made where they are missing, and ours until the transaction ends.

        Always in the order of the keys, first all that are made and then all that are locked, so that two
        who plan the same flows wait for each other and never crosswise.
        """
        keys = sorted(names)
        mine = flows.c.flow_key.in_(keys)
        known = set(self._connection.execute(select(flows.c.flow_key).where(mine)).scalars())
        missing = [self._head(key, *names[key]) for key in keys if key not in known]
        insert_rows(self._connection, flows, missing, replace=())
        query = select(flows).where(mine).order_by(flows.c.flow_key).with_for_update()
        return {row.flow_key: row for row in self._connection.execute(query)}

    def planned(self, key: str, draft: Draft, fence: int, known: dict[str, Row[Any]]) -> Plan:
        self._watermarks(key, draft, known, skipped=False)
        epoch, last = _standing(known)
        frozen = replace(draft, notes=tuple(mask(note) for note in draft.notes)) if draft.notes else draft
        plan = Plan(f"{self._token}-{len(self._plans)}", frozen, epoch, last + 1)
        self._plans.append(
            {
                "plan_id": plan.plan_id,
                "flow_key": key,
                "active": 1,
                "pipeline": draft.pipeline,
                "flow": draft.flow,
                "state": State.PLANNED.value,
                "epoch": epoch,
                "first_seq": plan.first_seq,
                "batches": len(draft.batches),
                "done": 0,
                "body": draft_to_json(frozen),
                "fence": fence,
                "attempt": 0,
                "created_at": self._at,
                "updated_at": self._at,
            }
        )
        first, last_batch = draft.batches[0].windows[0], draft.batches[-1].windows[0]
        self._note("planned", draft, plan_id=plan.plan_id, before=first.after, after=last_batch.upto)
        return plan

    def skipped(self, key: str, draft: Draft, known: dict[str, Row[Any]], state: State) -> None:
        self._idle.setdefault(state, []).append(key)
        self._watermarks(key, draft, known, skipped=True)
        self._run(key, draft.pipeline, draft.flow, state, None)
        self._note("skipped", draft)

    def refused(self, key: str, pipeline: str, flow: str, state: State, error: dict[str, Any]) -> None:
        self._idle.setdefault(state, []).append(key)
        # The flow is READY again; what was tried has failed.
        self._run(key, pipeline, flow, State.FAILED, error)
        self._note("refused", Draft(pipeline, flow, (), ()), error=error)

    def noted(self, event: str, pipeline: str, flow: str, reason: str) -> None:
        self._note(event, Draft(pipeline, flow, (), ()), reason=reason)

    def write(self) -> None:
        for state, keys in self._idle.items():
            changes = {"idle_state": state, "updated_at": self._now}
            self._connection.execute(update(flows).where(flows.c.flow_key.in_(keys)).values(changes))
        insert_rows(self._connection, plans, self._plans)
        insert_rows(self._connection, watermarks, self._marks, replace=_MAY_CHANGE)
        insert_rows(self._connection, runs, self._runs)
        insert_rows(self._connection, history, self._history)

    def _head(self, key: str, pipeline: str, flow: str) -> dict[str, Any]:
        return {
            "flow_key": key,
            "pipeline_key": pipeline_key(pipeline),
            "pipeline": pipeline,
            "flow": flow,
            "idle_state": State.READY.value,
            "fence": 0,
            "updated_at": self._at,
        }

    def _watermarks(self, key: str, draft: Draft, known: dict[str, Row[Any]], *, skipped: bool) -> None:
        """A row from the first plan on. Positions move only in `advance`; how far we looked, here too."""
        epoch, _ = _standing(known)
        for part in draft.inputs:
            name = input_key(part.input)
            old = known.get(name)
            checked = old.checked if old else None
            if skipped and part.window is not None:
                checked = position_text(part.window.upto)
            same = old and (old.cursor_kind, old.checked, old.pending, old.source_id)
            if same == (part.cursor, checked, part.pending, part.source_id):
                continue
            self._marks.append(
                {
                    "flow_key": key,
                    "input_key": name,
                    "pipeline_key": pipeline_key(draft.pipeline),
                    "pipeline": draft.pipeline,
                    "flow": draft.flow,
                    "input": part.input,
                    "cursor_kind": part.cursor,
                    "position": None,
                    "checked": checked,
                    "epoch": epoch,
                    "seq": 0,
                    "pending": part.pending,
                    "source_id": part.source_id,
                    "updated_at": self._at,
                }
            )

    def _run(self, key: str, pipeline: str, flow: str, state: State, error: dict[str, Any] | None) -> None:
        self._runs.append(
            {
                "run_id": self._run_id,
                "flow_key": key,
                "pipeline": pipeline,
                "flow": flow,
                "plan_id": None,
                "attempt": 0,
                "state": state.value,
                "started_at": self._at,
                "ended_at": self._at,
                "batches": 0,
                "rows_read": 0,
                "rows_written": 0,
                "error": error_text(error),
            }
        )

    def _note(self, event: str, draft: Draft, **more: Any) -> None:
        self._history.append(
            entry(
                event,
                at=self._at,
                pipeline=draft.pipeline,
                flow=draft.flow,
                actor=self._owner.actor,
                run_id=self._run_id,
                **more,
            )
        )


def _active(connection: Connection, keys: list[str]) -> dict[str, Row[Any]]:
    query = select(plans).where(plans.c.flow_key.in_(keys), plans.c.active == 1)
    return {row.flow_key: row for row in connection.execute(query)}


def _marks(connection: Connection, keys: list[str]) -> dict[str, dict[str, Row[Any]]]:
    found: dict[str, dict[str, Row[Any]]] = {}
    for row in connection.execute(select(watermarks).where(watermarks.c.flow_key.in_(keys))):
        found.setdefault(row.flow_key, {})[row.input_key] = row
    return found
