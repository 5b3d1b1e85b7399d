"""Load the state of flows inside a transaction that will change them. They stay locked until it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, bindparam, select

from tidegauge.ledger.flow_state import ActivePlan, FlowState, InputState
from tidegauge.ledger.keys import flow_key, pipeline_key
from tidegauge.ledger.schedule_json import schedule_of_tally
from tidegauge.ledger.sql_bulk import insert_rows, moment
from tidegauge.ledger.sql_clock import store_now
from tidegauge.ledger.sql_rows import (
    completed_of,
    head_values,
    mark_of,
    override_of,
    owner_of,
    plan_of,
    run_of,
    tallies_of,
    undo_of,
)
from tidegauge.ledger.sql_tables import flows, plans, runs, watermarks
from tidegauge.model.plan import Plan
from tidegauge.model.state import State

_LIGHT = (
    flows,
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
    *(column.label(f"run_{column.name}") for column in runs.c),
    store_now().label("now"),
)


def _flow_states(*columns: Any) -> Select[Any]:
    return (
        select(*columns)
        .select_from(flows)
        .outerjoin(plans, and_(plans.c.flow_key == flows.c.flow_key, plans.c.active == 1))
        .outerjoin(runs, and_(runs.c.plan_id == plans.c.plan_id, runs.c.attempt == plans.c.attempt))
        .where(flows.c.flow_key.in_(bindparam("keys", expanding=True)))
    )


# Statements are made once: putting one together costs more than running it.
_LOCK = (
    select(flows.c.flow_key)
    .where(flows.c.flow_key.in_(bindparam("keys", expanding=True)))
    .order_by(flows.c.flow_key)
    .with_for_update()
)
_LOCK_FIRST = (
    select(flows.c.flow_key)
    .where(flows.c.pipeline_key == bindparam("pipeline"))
    .order_by(flows.c.flow_key)
    .limit(1)
    .with_for_update()
)
_WITHOUT_BODY, _WITH_BODY = _flow_states(*_LIGHT), _flow_states(*_LIGHT, plans.c.body)
_MARKS = select(watermarks).where(watermarks.c.flow_key.in_(bindparam("keys", expanding=True)))
_NOW = select(store_now())


class LoadedRows:
    """Flow states by flow key, and the store's clock after they were locked."""

    def __init__(self, flow_states: dict[str, FlowState], now: datetime) -> None:
        self.flow_states = flow_states
        self.now = now


def load(
    connection: Connection,
    names: Sequence[tuple[str, str]],
    *,
    make: bool = False,
    known: Plan | None = None,
    marks: bool = True,
) -> LoadedRows:
    """The states of these (pipeline, flow), locked. A flow that is not there is made, or has an empty state.

    Always in the order of the keys, first all that are made and then all that are locked, so that two who
    want the same flows wait for each other and never crosswise. `known` is a plan the caller holds already:
    its windows are not read again.
    """
    by_key: Mapping[str, tuple[str, str]] = {flow_key(*name): name for name in names}
    keys = {"keys": sorted(by_key)}
    if make:
        _make(connection, by_key)
    if connection.dialect.name != "sqlite":
        # A statement of its own: the next one then sees what the last holder has committed.
        there = set(connection.execute(_LOCK, keys).scalars())
        for pipeline in sorted({name[0] for key, name in by_key.items() if key not in there}):
            # Events of what is not listed need an order too: who writes them waits at one flow of them all.
            connection.execute(_LOCK_FIRST, {"pipeline": pipeline_key(pipeline)})
    gathered: dict[str, dict[str, InputState]] = {}
    if marks:
        for row in connection.execute(_MARKS, keys):
            gathered.setdefault(row.flow_key, {})[row.input] = mark_of(row)
    rows = connection.execute(_WITHOUT_BODY if known else _WITH_BODY, keys).all()
    flow_states = {row.flow_key: _flow_state(row, known, gathered.get(row.flow_key, {})) for row in rows}
    for key, name in by_key.items():
        flow_states.setdefault(key, FlowState(*name))
    now: datetime = rows[0].now if rows else connection.execute(_NOW).scalar_one()
    return LoadedRows(flow_states, now)


def _make(connection: Connection, names: Mapping[str, tuple[str, str]]) -> None:
    query = select(flows.c.flow_key).where(flows.c.flow_key.in_(list(names)))
    known = set(connection.execute(query).scalars())
    missing = [key for key in sorted(names) if key not in known]
    if missing:
        at = moment(connection, connection.execute(_NOW).scalar_one())
        insert_rows(
            connection, flows, [head_values(FlowState(*names[key]), at) for key in missing], replace=()
        )


def _flow_state(row: Row[Any], known: Plan | None, marks: Mapping[str, InputState]) -> FlowState:
    active = None
    if row.plan_id is not None:
        if known is not None and known.plan_id == row.plan_id:
            kept = known if known.done == row.done else replace(known, done=row.done)
        elif known is not None:
            # Another plan than the caller's: that it is another is all that matters.
            kept = Plan(row.plan_id, known.draft, row.plan_epoch, row.first_seq, row.done)
        else:
            kept = replace(plan_of(row), epoch=row.plan_epoch)
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
        pipeline=row.pipeline,
        flow=row.flow,
        idle=State(row.idle_state),
        fence=row.fence,
        epoch=row.epoch,
        seq=row.seq,
        marks=marks,
        active=active,
        run=run_of(row, "run_") if row.run_id is not None else None,
        override=override_of(row.override_body),
        undo=undo_of(row.undo_body),
        tally=tally,
        tally_before=tally_before,
        suspended=suspended,
        ticks=ticks,
    )
