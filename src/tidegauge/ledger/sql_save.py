"""Save what rules decided, for one flow or a thousand, at about the price of writing the rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, DateTime, Executable, Table, bindparam, delete, update

from tidegauge.ledger.flow_state import ActivePlan, FlowState, StateChange
from tidegauge.ledger.journal import event_columns
from tidegauge.ledger.keys import flow_key, input_key
from tidegauge.ledger.sql_bulk import insert_rows, moment
from tidegauge.ledger.sql_rows import (
    head_values,
    mark_values,
    plan_changes,
    plan_values,
    run_changes,
    run_values,
)
from tidegauge.ledger.sql_tables import flows, history, plans, runs, watermarks
from tidegauge.model.run import RunRecord

Change = tuple[FlowState, StateChange]
"""A state and what a rule made of it."""

_HEAD = ("idle_state", "fence", "epoch", "seq", "override_body", "undo_body", "tally_body")
_MARK_KEY = ("flow_key", "input_key", "pipeline_key", "pipeline", "flow", "input")

_PLAN = update(plans).where(plans.c.plan_id == bindparam("of_plan"))
_RUN = update(runs).where(runs.c.plan_id == bindparam("of_plan"), runs.c.attempt == bindparam("of_attempt"))
_FORGET = delete(watermarks).where(
    watermarks.c.flow_key == bindparam("of_flow"),
    watermarks.c.input_key.in_(bindparam("inputs", expanding=True)),
)
_FLOWS = update(flows).where(flows.c.flow_key.in_(bindparam("keys", expanding=True)))


def save(connection: Connection, changes: Iterable[Change], now: datetime) -> None:
    """Save all changes, each with the state it began from. Changes are taken one by one and not kept, so that
    of a thousand flows only the rows are in memory at once."""
    rows = _Rows()
    for old, change in changes:
        rows.take(old, change)
    for head, keys in rows.heads.items():
        connection.execute(_FLOWS, {"keys": keys, **dict(head), "updated_at": now})
    for statement, values in rows.updates:
        connection.execute(statement, values)
    _insert(connection, plans, rows.plans)
    if rows.marks:
        replaced = [name for name in rows.marks[0] if name not in _MARK_KEY]
        _insert(connection, watermarks, rows.marks, replace=replaced)
    _insert(connection, runs, rows.runs)
    _insert(connection, history, rows.history)


class _Rows:
    """The rows to insert and the statements to execute for all changes."""

    def __init__(self) -> None:
        self.heads: dict[tuple[Any, ...], list[str]] = {}
        """By the values to set: the keys of the flows that get them."""
        self.updates: list[tuple[Executable, dict[str, Any]]] = []
        self.plans: list[dict[str, Any]] = []
        self.marks: list[dict[str, Any]] = []
        self.runs: list[dict[str, Any]] = []
        self.history: list[dict[str, Any]] = []

    def take(self, old: FlowState, change: StateChange) -> None:
        """Add what a change of this state has to write."""
        self._take_head(old, change)
        self._take_plans(old, change)
        self._take_marks(old, change)
        for run in change.runs:
            if old.run is not None and _is_same_attempt(old.run, run):
                key = {"of_plan": run.plan_id, "of_attempt": run.attempt}
                self.updates.append((_RUN, key | run_changes(run)))
            else:
                self.runs.append(run_values(run))
        self.history += [{"at": event.at, **event_columns(event)} for event in change.events]

    def _take_head(self, old: FlowState, change: StateChange) -> None:
        if _head(old) == _head(change.flow_state) and not change.ended:
            return
        before, after = head_values(old, None), head_values(change.flow_state, None)
        changed = tuple((name, after[name]) for name in _HEAD if before[name] != after[name])
        self.heads.setdefault(changed, []).append(before["flow_key"])

    def _take_plans(self, old: FlowState, change: StateChange) -> None:
        touched: list[tuple[ActivePlan, str | None]] = [(ended.active, ended.word) for ended in change.ended]
        if change.flow_state.active is not None and change.flow_state.active is not old.active:
            touched.append((change.flow_state.active, None))
        for active, word in touched:
            values = plan_changes(change.flow_state, active, word)
            if old.active is not None and old.active.plan.plan_id == active.plan.plan_id:
                before = plan_changes(old, old.active, None)
                changed = {name: value for name, value in values.items() if value != before[name]}
                if changed:
                    self.updates.append((_PLAN, {"of_plan": active.plan.plan_id, **changed}))
            else:
                self.plans.append(plan_values(change.flow_state, active) | values)

    def _take_marks(self, old: FlowState, change: StateChange) -> None:
        marks = change.flow_state.marks
        self.marks += [
            mark_values(change.flow_state, mark)
            for name, mark in marks.items()
            if old.marks.get(name) is not mark
        ]
        gone = [input_key(name) for name in old.marks if name not in marks]
        if gone:
            forgotten = {"of_flow": flow_key(old.pipeline, old.flow), "inputs": gone}
            self.updates.append((_FORGET, forgotten))


def _head(flow_state: FlowState) -> tuple[object, ...]:
    parts = (
        flow_state.idle,
        flow_state.fence,
        flow_state.epoch,
        flow_state.seq,
        flow_state.override,
        flow_state.undo,
    )
    return *parts, flow_state.tally, flow_state.tally_before, flow_state.suspended, flow_state.ticks


def _is_same_attempt(one: RunRecord, other: RunRecord) -> bool:
    return (one.plan_id, one.attempt) == (other.plan_id, other.attempt)


def _insert(
    connection: Connection,
    table: Table,
    rows: Sequence[dict[str, Any]],
    *,
    replace: Sequence[str] | None = None,
) -> None:
    """As `insert_rows`, with moments as the driver wants them."""
    if rows and connection.dialect.name == "sqlite":
        texts: dict[datetime, Any] = {}
        for name in [column.name for column in table.c if isinstance(column.type, DateTime)]:
            for row in rows:
                value = row.get(name)
                if value is not None:
                    row[name] = texts.get(value) or texts.setdefault(value, moment(connection, value))
    insert_rows(connection, table, rows, replace=replace)
