"""Load the state of flows inside a transaction that will change them. Flows stay locked until it ends."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Connection, Row, Select, and_, bindparam, select

from tidegauge.ledger.flow_state import ActivePlan, FlowState, InputWatermark
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

# Only the columns that the rules need: each one costs time in a driver that is written in Python.
_HEAD = (
    flows.c.flow_key,
    flows.c.idle_state,
    flows.c.fence,
    flows.c.epoch,
    flows.c.seq,
    flows.c.override_body,
    flows.c.undo_body,
    flows.c.tally_body,
    store_now().label("now"),
)
_PLAN = (
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
)
_RUN = tuple(runs.c[name].label(f"run_{name}") for name in RUN_COLUMNS)
_ATTEMPT = and_(runs.c.plan_id == plans.c.plan_id, runs.c.attempt == plans.c.attempt)
_KEYS: BindParameter[Any] = bindparam("keys", expanding=True)
_KEY: BindParameter[Any] = bindparam("key")


def _select_flow_states(wanted: ColumnElement[bool], *columns: Any) -> Select[Any]:
    found = flows.outerjoin(plans, and_(plans.c.flow_key == flows.c.flow_key, plans.c.active == 1))
    if _RUN[0] in columns:
        found = found.outerjoin(runs, _ATTEMPT)
    return select(*columns).select_from(found).where(wanted)


def _make_queries_of_one(*columns: Any) -> Mapping[str, Select[Any]]:
    """By dialect, the query for the state of one flow, which it locks first, in one round trip."""
    query = _select_flow_states(flows.c.flow_key == _KEY, *columns)
    return {
        # A writer has the whole SQLite file to itself.
        "sqlite": query,
        # The lock is a statement of its own: one that waits sees all rows but the locked one as they were
        # before.
        "postgresql": query.execution_options(
            **{FIRST: "SELECT flow_key FROM flows WHERE flow_key = %(key)s FOR UPDATE"}
        ),
        # A read that locks sees the newest version of every row; the flow, found by its key, is read before
        # the rest.
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
_HEADS = select(*_HEAD).where(flows.c.flow_key.in_(_KEYS))
_ACTIVE = (
    select(plans.c.flow_key, *_PLAN, *_RUN, plans.c.body)
    .select_from(plans.outerjoin(runs, _ATTEMPT))
    .where(plans.c.flow_key.in_(_KEYS), plans.c.active == 1)
)
_ONE = {
    (with_run, with_body): _make_queries_of_one(
        *_HEAD, *_PLAN, *(_RUN if with_run else ()), *((plans.c.body,) if with_body else ())
    )
    for with_run in (False, True)
    for with_body in (False, True)
}
_MARK = tuple(watermarks.c[name] for name in ("flow_key", *MARK_COLUMNS))
_MARKS = select(*_MARK).where(watermarks.c.flow_key.in_(_KEYS))
_MARKS_OF_ONE = select(*_MARK).where(watermarks.c.flow_key == _KEY)
_NOW = select(store_now())


Rows = Sequence[Row[*tuple[Any, ...]]]


class LoadedFlows:
    """What was loaded of locked flows, and the store's time after they were locked."""

    def __init__(self, heads: Rows, active: Rows, marks: Rows, now: datetime) -> None:
        self._heads, self._active = ({row.flow_key: row for row in rows} for rows in (heads, active))
        self._marks: dict[str, list[Row[Any]]] = {}
        for mark in marks:
            self._marks.setdefault(mark.flow_key, []).append(mark)
        self.now = now

    def state(self, pipeline: str, flow: str) -> FlowState:
        """A flow's state, made on request, so that a thousand of them need not be in memory at once."""
        key = flow_key(pipeline, flow)
        head = self._heads.get(key)
        marks = {mark.input: mark_of(mark) for mark in self._marks.get(key, ())}
        if head is None:
            return FlowState(pipeline, flow, marks=marks)
        return _flow_state(head, self._active.get(key), (pipeline, flow), None, marks)


def load_many(connection: Connection, names: Sequence[tuple[str, str]]) -> LoadedFlows:
    """Lock and load these (pipeline, flow) names. Flows that do not exist are inserted.

    First all missing flows are inserted, then all are locked, both in the order of their keys, so that two
    writers of the same flows wait for each other and never deadlock.
    """
    by_key: Mapping[str, tuple[str, str]] = {flow_key(*name): name for name in names}
    keys = {"keys": sorted(by_key)}
    if connection.dialect.name == "sqlite":
        # A writer has the whole SQLite file to itself, so the flows inserted below need not be read again:
        # they have the state of a new flow.
        heads = connection.execute(_HEADS, keys).all()
        _make_missing(connection, by_key, {row.flow_key for row in heads})
    else:
        _make_missing(connection, by_key, set(connection.execute(_LISTED, keys).scalars()))
        # A statement of its own: the next one then sees what the last holder has committed.
        connection.execute(_LOCK, keys)
        heads = connection.execute(_HEADS, keys).all()
    # Most flows that are planned have no active plan, so these rows are few.
    active, marks = (connection.execute(query, keys).all() for query in (_ACTIVE, _MARKS))
    return LoadedFlows(heads, active, marks, heads[0].now if heads else connection.execute(_NOW).scalar_one())


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
    """Lock and load a flow: its state, and the store's time after that. One that does not exist has the state
    of a new flow, and is inserted with `make`. `known` is a plan that the caller has already: its windows are
    not read again."""
    name = pipeline, flow
    key = {"key": flow_key(*name)}
    query = _ONE[run, known is None][connection.dialect.name]
    row = connection.execute(query, key).one_or_none()
    if row is None and make:
        _make(connection, {key["key"]: name})
        row = connection.execute(query, key).one()
    if row is None:
        if connection.dialect.name != "sqlite":
            # Events of flows that are not listed need an order too: their writers all wait for the lock of
            # the pipeline's first flow.
            connection.execute(_LOCK_FIRST, {"pipeline": pipeline_key(pipeline)})
        return FlowState(*name), connection.execute(_NOW).scalar_one()
    found = connection.execute(_MARKS_OF_ONE, key) if marks else ()
    active = None if row.plan_id is None else row
    state = _flow_state(row, active, name, known, {mark.input: mark_of(mark) for mark in found}, run=run)
    return state, row.now


def _make_missing(
    connection: Connection, names: Mapping[str, tuple[str, str]], known: Collection[str]
) -> None:
    _make(connection, {key: names[key] for key in sorted(names) if key not in known})


def _make(connection: Connection, names: Mapping[str, tuple[str, str]]) -> None:
    """Insert flows that did not exist a moment ago, in this order."""
    if names:
        at = moment(connection, connection.execute(_NOW).scalar_one())
        insert_rows(
            connection, flows, [head_values(FlowState(*name), at) for name in names.values()], replace=()
        )


def _flow_state(
    head: Row[Any],
    row: Row[Any] | None,
    name: tuple[str, str],
    known: Plan | None,
    marks: Mapping[str, InputWatermark],
    *,
    run: bool = True,
) -> FlowState:
    """A flow's state from its rows. `row` has the active plan, and with `run` the plan's attempt."""
    pipeline, flow = name
    tally, tally_before = tallies_of(head)
    suspended, ticks = schedule_of_tally(head.tally_body)
    return FlowState(
        pipeline=pipeline,
        flow=flow,
        idle=State(head.idle_state),
        fence=head.fence,
        epoch=head.epoch,
        seq=head.seq,
        marks=marks,
        active=None if row is None else _active_plan(row, name, known),
        run=None
        if row is None or not run or row.run_run_id is None
        else run_of(row, "run_", pipeline=pipeline, flow=flow, plan_id=row.plan_id, attempt=row.attempt),
        override=override_of(head.override_body),
        undo=undo_of(head.undo_body),
        tally=tally,
        tally_before=tally_before,
        suspended=suspended,
        ticks=ticks,
    )


def _active_plan(row: Row[Any], name: tuple[str, str], known: Plan | None) -> ActivePlan:
    if known is not None and known.plan_id == row.plan_id:
        kept = known if known.done == row.done else replace(known, done=row.done)
    elif known is not None:
        # Another plan than the caller's: only its id matters, so its windows are not read.
        kept = Plan(row.plan_id, known.draft, row.plan_epoch, row.first_seq, row.done)
    else:
        draft = draft_from_json(*name, row.body)
        kept = Plan(row.plan_id, draft, row.plan_epoch, row.first_seq, row.done)
    return ActivePlan(
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
