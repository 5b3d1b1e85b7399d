"""Load the state of flows inside a transaction that will change them. They stay locked until it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Connection, Row, Select, and_, bindparam, select

from tidegauge.ledger.flow_state import ActivePlan, FlowState, InputState
from tidegauge.ledger.keys import flow_key, pipeline_key
from tidegauge.ledger.schedule_json import schedule_of_tally
from tidegauge.ledger.sql_bulk import insert_rows, moment
from tidegauge.ledger.sql_clock import store_now
from tidegauge.ledger.sql_connect import FIRST
from tidegauge.ledger.sql_rows import (
    MARK_COLUMNS,
    RUN_COLUMNS,
    completed_of,
    head_values,
    mark_of,
    override_of,
    owner_of,
    run_of,
    tallies_of,
    undo_of,
)
from tidegauge.ledger.sql_tables import flows, plans, runs, watermarks
from tidegauge.model.plan import Plan, draft_from_json
from tidegauge.model.state import State

# Only what the rules ask for: a driver in Python takes its time for every column.
_LIGHT = (
    flows.c.flow_key,
    flows.c.idle_state,
    flows.c.fence,
    flows.c.epoch,
    flows.c.seq,
    flows.c.override_body,
    flows.c.undo_body,
    flows.c.tally_body,
    plans.c.plan_id,
    plans.c.state,
    plans.c.first_seq,
    plans.c.epoch.label("plan_epoch"),
    plans.c.done,
    plans.c.begun,
    plans.c.completed,
    plans.c.attempt,
    plans.c.owner_actor,
    plans.c.owner_host,
    plans.c.owner_pid,
    plans.c.owner_started,
    plans.c.lease_until,
    plans.c.created_at.label("plan_created_at"),
    plans.c.updated_at.label("plan_updated_at"),
    store_now().label("now"),
)
_RUN = tuple(runs.c[name].label(f"run_{name}") for name in RUN_COLUMNS)
_KEYS: BindParameter[Any] = bindparam("keys", expanding=True)
_KEY: BindParameter[Any] = bindparam("key")


def _flow_states(wanted: ColumnElement[bool], *columns: Any) -> Select[Any]:
    found = flows.outerjoin(plans, and_(plans.c.flow_key == flows.c.flow_key, plans.c.active == 1))
    if _RUN[0] in columns:
        found = found.outerjoin(
            runs, and_(runs.c.plan_id == plans.c.plan_id, runs.c.attempt == plans.c.attempt)
        )
    return select(*columns).select_from(found).where(wanted)


def _of_one(*columns: Any) -> Mapping[str, Select[Any]]:
    """The state of one flow, which is locked first, in one round trip. By dialect."""
    query = _flow_states(flows.c.flow_key == _KEY, *columns)
    return {
        # Its writer has the whole file to itself.
        "sqlite": query,
        # One statement would see everything but the locked row as it was before it waited.
        "postgresql": query.execution_options(
            **{FIRST: "SELECT flow_key FROM flows WHERE flow_key = %(key)s FOR UPDATE"}
        ),
        # A read that locks sees the newest of all it reads; the flow, found by its key, is read before the
        # rest.
        "mysql": query.with_for_update(),
        "mariadb": query.with_for_update(),
    }


# Statements are made once: putting one together costs more than running it.
_LOCK = (
    select(flows.c.flow_key).where(flows.c.flow_key.in_(_KEYS)).order_by(flows.c.flow_key).with_for_update()
)
_LOCK_FIRST = (
    select(flows.c.flow_key)
    .where(flows.c.pipeline_key == bindparam("pipeline"))
    .order_by(flows.c.flow_key)
    .limit(1)
    .with_for_update()
)
_LISTED = select(flows.c.flow_key).where(flows.c.flow_key.in_(_KEYS))
_ALL = _flow_states(flows.c.flow_key.in_(_KEYS), *_LIGHT, *_RUN, plans.c.body)
_ONE = {
    (with_run, with_body): _of_one(
        *_LIGHT, *(_RUN if with_run else ()), *((plans.c.body,) if with_body else ())
    )
    for with_run in (False, True)
    for with_body in (False, True)
}
_MARK = tuple(watermarks.c[name] for name in ("flow_key", *MARK_COLUMNS))
_MARKS = select(*_MARK).where(watermarks.c.flow_key.in_(_KEYS))
_MARKS_OF_ONE = select(*_MARK).where(watermarks.c.flow_key == _KEY)
_NOW = select(store_now())


class LoadedRows:
    """Flow states by flow key, and the store's clock after they were locked."""

    def __init__(self, flow_states: dict[str, FlowState], now: datetime) -> None:
        self.flow_states = flow_states
        self.now = now


def load_many(connection: Connection, names: Sequence[tuple[str, str]]) -> LoadedRows:
    """The states of these (pipeline, flow), locked. A flow that is not there is made.

    Always in the order of the keys, first all that are made and then all that are locked, so that two who
    want the same flows wait for each other and never crosswise.
    """
    by_key: Mapping[str, tuple[str, str]] = {flow_key(*name): name for name in names}
    keys = {"keys": sorted(by_key)}
    known = set(connection.execute(_LISTED, keys).scalars())
    _make(connection, {key: by_key[key] for key in keys["keys"] if key not in known})
    if connection.dialect.name != "sqlite":
        # A statement of its own: the next one then sees what the last holder has committed.
        connection.execute(_LOCK, keys)
    marks: dict[str, dict[str, InputState]] = {}
    for row in connection.execute(_MARKS, keys):
        marks.setdefault(row.flow_key, {})[row.input] = mark_of(row)
    rows = connection.execute(_ALL, keys).all()
    states = {
        row.flow_key: _flow_state(row, by_key[row.flow_key], None, marks.get(row.flow_key, {}))
        for row in rows
    }
    return LoadedRows(states, rows[0].now if rows else connection.execute(_NOW).scalar_one())


def load_one(
    connection: Connection,
    pipeline: str,
    flow: str,
    *,
    make: bool,
    known: Plan | None,
    marks: bool,
    run: bool,
) -> tuple[FlowState, datetime]:
    """The state of a flow, locked, and the store's clock after that. One that is not there is made, or has an
    empty state. `known` is a plan the caller holds already: its windows are not read again."""
    name = pipeline, flow
    key = {"key": flow_key(*name)}
    query = _ONE[run, known is None][connection.dialect.name]
    row = connection.execute(query, key).one_or_none()
    if row is None and make:
        _make(connection, {key["key"]: name})
        row = connection.execute(query, key).one()
    if row is None:
        if connection.dialect.name != "sqlite":
            # Events of what is not listed need an order too: who writes them waits at one flow of them all.
            connection.execute(_LOCK_FIRST, {"pipeline": pipeline_key(pipeline)})
        return FlowState(*name), connection.execute(_NOW).scalar_one()
    found = connection.execute(_MARKS_OF_ONE, key) if marks else ()
    state = _flow_state(row, name, known, {mark.input: mark_of(mark) for mark in found}, run=run)
    return state, row.now


def _make(connection: Connection, names: Mapping[str, tuple[str, str]]) -> None:
    """Flows that were not there a moment ago, in this order."""
    if names:
        at = moment(connection, connection.execute(_NOW).scalar_one())
        insert_rows(
            connection, flows, [head_values(FlowState(*name), at) for name in names.values()], replace=()
        )


def _flow_state(
    row: Row[Any],
    name: tuple[str, str],
    known: Plan | None,
    marks: Mapping[str, InputState],
    *,
    run: bool = True,
) -> FlowState:
    pipeline, flow = name
    active = None
    if row.plan_id is not None:
        if known is not None and known.plan_id == row.plan_id:
            kept = known if known.done == row.done else replace(known, done=row.done)
        elif known is not None:
            # Another plan than the caller's: that it is another is all that matters.
            kept = Plan(row.plan_id, known.draft, row.plan_epoch, row.first_seq, row.done)
        else:
            draft = draft_from_json(pipeline, flow, row.body)
            kept = Plan(row.plan_id, draft, row.plan_epoch, row.first_seq, row.done)
        active = ActivePlan(
            plan=kept,
            state=State(row.state),
            attempt=row.attempt,
            begun=row.begun,
            completed=completed_of(row),
            owner=owner_of(row),
            lease_until=row.lease_until,
            created_at=row.plan_created_at,
            updated_at=row.plan_updated_at,
        )
    tally, tally_before = tallies_of(row)
    suspended, ticks = schedule_of_tally(row.tally_body)
    return FlowState(
        pipeline=pipeline,
        flow=flow,
        idle=State(row.idle_state),
        fence=row.fence,
        epoch=row.epoch,
        seq=row.seq,
        marks=marks,
        active=active,
        run=None
        if not run or row.run_run_id is None
        else run_of(row, "run_", pipeline=pipeline, flow=flow, plan_id=row.plan_id, attempt=row.attempt),
        override=override_of(row.override_body),
        undo=undo_of(row.undo_body),
        tally=tally,
        tally_before=tally_before,
        suspended=suspended,
        ticks=ticks,
    )
