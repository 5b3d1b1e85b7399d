"""Save what rules decided, for one flow or a thousand, at about the price of writing the rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, DateTime, Table, bindparam, delete, update

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

_HEAD = ("idle_state", "fence", "epoch", "seq", "override_body", "undo_body", "tally_body")
_MARK_KEY = ("flow_key", "input_key", "pipeline_key", "pipeline", "flow", "input")

_PLAN = update(plans).where(plans.c.plan_id == bindparam("of_plan"))
_RUN = update(runs).where(runs.c.plan_id == bindparam("of_plan"), runs.c.attempt == bindparam("of_attempt"))
_FORGET = delete(watermarks).where(
    watermarks.c.flow_key == bindparam("of_flow"),
    watermarks.c.input_key.in_(bindparam("inputs", expanding=True)),
)
_FLOWS = update(flows).where(flows.c.flow_key.in_(bindparam("keys", expanding=True)))


def save(connection: Connection, changes: Sequence[tuple[FlowState, StateChange]], now: datetime) -> None:
    """All of the changes, each with the state it began from."""
    _save_heads(connection, changes, now)
    _save_plans(connection, changes)
    _save_marks(connection, changes)
    _save_runs(connection, changes)
    events = [{"at": event.at, **event_columns(event)} for _, change in changes for event in change.events]
    _insert(connection, history, events)


def _save_heads(
    connection: Connection, changes: Sequence[tuple[FlowState, StateChange]], now: datetime
) -> None:
    alike: dict[tuple[Any, ...], list[str]] = {}
    for old, change in changes:
        if _head(old) == _head(change.flow_state) and not change.ended:
            continue
        before, after = head_values(old, None), head_values(change.flow_state, None)
        changed = tuple((name, after[name]) for name in _HEAD if before[name] != after[name])
        alike.setdefault(changed, []).append(before["flow_key"])
    for values, keys in alike.items():
        connection.execute(_FLOWS, {"keys": keys, **dict(values), "updated_at": now})


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


def _save_plans(connection: Connection, changes: Sequence[tuple[FlowState, StateChange]]) -> None:
    made: list[dict[str, Any]] = []
    for old, change in changes:
        touched: list[tuple[ActivePlan, str | None]] = [(ended.active, ended.word) for ended in change.ended]
        if change.flow_state.active is not None and change.flow_state.active is not old.active:
            touched.append((change.flow_state.active, None))
        for active, word in touched:
            values = plan_changes(change.flow_state, active, word)
            if old.active is not None and old.active.plan.plan_id == active.plan.plan_id:
                before = plan_changes(old, old.active, None)
                changed = {name: value for name, value in values.items() if value != before[name]}
                if changed:
                    connection.execute(_PLAN, {"of_plan": active.plan.plan_id, **changed})
            else:
                made.append(plan_values(change.flow_state, active) | values)
    _insert(connection, plans, made)


def _save_marks(connection: Connection, changes: Sequence[tuple[FlowState, StateChange]]) -> None:
    marks = [
        mark_values(change.flow_state, mark)
        for old, change in changes
        for name, mark in change.flow_state.marks.items()
        if old.marks.get(name) is not mark
    ]
    if marks:
        _insert(connection, watermarks, marks, replace=[name for name in marks[0] if name not in _MARK_KEY])
    for old, change in changes:
        gone = [input_key(name) for name in old.marks if name not in change.flow_state.marks]
        if gone:
            connection.execute(_FORGET, {"of_flow": flow_key(old.pipeline, old.flow), "inputs": gone})


def _save_runs(connection: Connection, changes: Sequence[tuple[FlowState, StateChange]]) -> None:
    made: list[dict[str, Any]] = []
    for old, change in changes:
        for run in change.runs:
            if old.run is not None and _same(old.run, run):
                key = {"of_plan": run.plan_id, "of_attempt": run.attempt}
                connection.execute(_RUN, key | run_changes(run))
            else:
                made.append(run_values(run))
    _insert(connection, runs, made)


def _same(one: RunRecord, other: RunRecord) -> bool:
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
