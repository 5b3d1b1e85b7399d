"""Claim a plan and walk it: every change is a compare-and-set on the fence.

Each function runs inside one transaction: it loads the plan's row, lets the state machine decide, and changes
the row only if nobody moved it since. `Moved` says that somebody did; the caller rolls back and tries again,
and then sees who it was.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, insert, select, update
from sqlalchemy.sql.dml import Update

from tidegauge.errors import FlowHeld, LeaseLost, WrongState
from tidegauge.ledger.clock import store_now
from tidegauge.ledger.journal import clean, entry, error_text, position_text
from tidegauge.ledger.keys import flow_key, input_key
from tidegauge.ledger.reader import owner_of
from tidegauge.ledger.tables import flows, history, plans, runs, watermarks
from tidegauge.model.plan import Plan, Receipt
from tidegauge.model.position import Position, decode
from tidegauge.model.protocols import Claim, Owner
from tidegauge.model.state import Event, State, step

_ENDINGS = {State.SUCCESS: Event.FINISH, State.FAILED: Event.FAIL, State.PLANNED: Event.RELEASE}
_WORDS = {Event.FINISH: "finished", Event.FAIL: "failed", Event.RELEASE: "released"}
_NOBODY = {
    "owner_actor": None,
    "owner_host": None,
    "owner_pid": None,
    "owner_started": None,
    "lease_until": None,
}

_LOADED: Select[Any] = select(
    plans.c.active,
    plans.c.state,
    plans.c.fence,
    plans.c.attempt,
    plans.c.batches,
    plans.c.done,
    plans.c.begun,
    plans.c.owner_actor,
    plans.c.owner_host,
    plans.c.owner_pid,
    plans.c.owner_started,
    plans.c.lease_until,
    store_now().label("now"),
)


# Statements are made once: putting one together costs more than running it.
_PLAN = _LOADED.where(plans.c.plan_id == bindparam("of_plan"))
_SAME_PLAN = update(plans).where(
    plans.c.plan_id == bindparam("of_plan"),
    plans.c.active == 1,
    plans.c.fence == bindparam("of_fence"),
    plans.c.state == bindparam("of_state"),
    plans.c.done == bindparam("of_done"),
)
"""Nothing that decides anything has moved since the row was loaded."""
_UNRENEWED_PLAN = _SAME_PLAN.where(
    plans.c.lease_until.is_not_distinct_from(bindparam("of_lease", type_=plans.c.lease_until.type))
)
_SAME_FLOW = update(flows).where(
    flows.c.flow_key == bindparam("of_flow"), flows.c.fence == bindparam("of_fence")
)
_ATTEMPT = update(runs).where(
    runs.c.plan_id == bindparam("of_plan"), runs.c.attempt == bindparam("of_attempt")
)
_COUNT = _ATTEMPT.values(
    batches=runs.c.batches + 1,
    rows_read=runs.c.rows_read + bindparam("more"),
    rows_written=runs.c.rows_written + bindparam("more"),
)
_MARK = select(watermarks.c.position).where(
    watermarks.c.flow_key == bindparam("of_flow"), watermarks.c.input_key == bindparam("of_input")
)
_NEXT_MARK = update(watermarks).where(
    watermarks.c.flow_key == bindparam("of_flow"),
    watermarks.c.input_key == bindparam("of_input"),
    # In order within an epoch, and never in one that a reset has closed.
    watermarks.c.epoch == bindparam("of_epoch"),
    watermarks.c.seq < bindparam("of_seq"),
)
_RUN, _HISTORY = insert(runs), insert(history)


class Moved(Exception):
    """The row is not any more what was loaded."""


def claim(
    connection: Connection, plan: Plan, *, owner: Owner, run_id: str, lease: timedelta, dead: Owner | None
) -> Claim:
    pipeline, flow = plan.draft.pipeline, plan.draft.flow
    row = _load(connection, plan)
    if row is None or row.active is None:
        raise WrongState(
            f"{flow}: this plan has ended, or another has taken its place",
            hint="another runner was faster; run again to see what is left",
            retryable=True,
        )
    state, holder = State(row.state), owner_of(row)
    if state is State.RUNNING:
        _refuse_if_held(flow, row, holder, dead)
    event = Event.TAKE_OVER if state is State.RUNNING else Event.CLAIM
    after = step(state, event)
    fence, attempt, until = row.fence + 1, row.attempt + 1, row.now + lease
    # The flow's row first, as all do who change both: two who wait for each other would wait for ever.
    key = flow_key(pipeline, flow)
    _set(
        connection,
        _SAME_FLOW,
        {"of_flow": key, "of_fence": row.fence, "fence": fence, "updated_at": row.now},
    )
    # With the lease, too: a holder that renewed it just now is alive.
    _set(
        connection,
        _UNRENEWED_PLAN,
        _same(plan, row)
        | {
            "of_lease": row.lease_until,
            "state": after,
            "fence": fence,
            "attempt": attempt,
            "owner_actor": clean(owner.actor),
            "owner_host": clean(owner.host),
            "owner_pid": owner.pid,
            "owner_started": clean(owner.started),
            "lease_until": until,
            "updated_at": row.now,
        },
    )
    if event is Event.TAKE_OVER:
        # The run that was taken over never says itself that it has ended.
        error = {"type": LeaseLost.__name__, "message": f"taken over by {_named(owner)}", "retryable": True}
        _close(connection, plan, row.attempt, State.FAILED, row.now, error)
    connection.execute(
        _RUN,
        {
            "run_id": run_id,
            "flow_key": key,
            "pipeline": pipeline,
            "flow": flow,
            "plan_id": plan.plan_id,
            "attempt": attempt,
            "state": after,
            "started_at": row.now,
            "batches": 0,
            "rows_read": 0,
            "rows_written": 0,
        },
    )
    claimed = Claim(replace(plan, done=row.done), owner, run_id, fence, attempt, until)
    reason = None
    if event is Event.TAKE_OVER:
        why = "is gone" if row.now < row.lease_until else f"let its lease run out at {row.lease_until}"
        reason = f"{_named(holder)} {why}"
    _note(connection, "claimed" if event is Event.CLAIM else "taken_over", claimed, at=row.now, reason=reason)
    return claimed


def renew(connection: Connection, held: Claim, lease: timedelta) -> None:
    row = _held(connection, held, Event.RENEW)
    _set(connection, _SAME_PLAN, _same(held.plan, row) | {"lease_until": row.now + lease})


def begin(connection: Connection, held: Claim, index: int) -> None:
    row = _held(connection, held, Event.BEGIN, index)
    _set(connection, _SAME_PLAN, _same(held.plan, row) | {"begun": index, "updated_at": row.now})


def advance(connection: Connection, held: Claim, index: int, receipt: Receipt) -> None:
    row = _held(connection, held, Event.ADVANCE, index)
    plan, batch = held.plan, held.plan.draft.batches[index]
    if row.begun != index or receipt.tag != plan.tag(index):
        raise WrongState(
            f"{plan.draft.flow}: batch {index} cannot advance before it was begun and its receipt is there",
            hint="begin it, write it, and ask the output for the receipt of its tag",
        )
    _set(connection, _SAME_PLAN, _same(plan, row) | {"done": index + 1, "updated_at": row.now})
    before: list[Position | None] = []
    for part, window in zip(plan.draft.inputs, batch.windows, strict=True):
        mark = {"of_flow": flow_key(plan.draft.pipeline, plan.draft.flow), "of_input": input_key(part.input)}
        position = connection.execute(_MARK, mark).scalar_one()
        before.append(None if position is None else decode(position))
        seq = plan.first_seq + index
        upto = position if batch.again else position_text(window.upto)
        order = {"of_epoch": plan.epoch, "of_seq": seq}
        moved = {"position": upto, "checked": upto, "seq": seq, "updated_at": row.now}
        _set(connection, _NEXT_MARK, mark | order | moved)
    counted = {"of_plan": plan.plan_id, "of_attempt": held.attempt, "more": receipt.rows}
    _set(connection, _COUNT, counted)
    after = before[0] if batch.again else batch.windows[0].upto
    _note(connection, "advanced", held, at=row.now, before=before[0], after=after)


def finish(connection: Connection, held: Claim, state: State, error: dict[str, Any] | None) -> None:
    event = _ENDINGS.get(state)
    if event is None:
        raise WrongState(
            f"{held.plan.draft.flow}: an attempt cannot end as {state}",
            hint=f"it can end as: {', '.join(_ENDINGS)}",
        )
    row = _held(connection, held, event)
    plan = held.plan
    after = step(State(row.state), event)
    if event is Event.FINISH and row.done != row.batches:
        raise WrongState(
            f"{plan.draft.flow}: {row.done} of {row.batches} batches are done, so the plan is not",
            hint="advance past every batch first, or end the attempt as FAILED",
        )
    ended = after is State.SUCCESS
    flow = {"of_flow": flow_key(plan.draft.pipeline, plan.draft.flow), "of_fence": held.fence}
    _set(connection, _SAME_FLOW, flow | {"updated_at": row.now} | ({"idle_state": after} if ended else {}))
    free = {"state": after, "active": None if ended else 1, "updated_at": row.now}
    _set(connection, _SAME_PLAN, _same(plan, row) | free | _NOBODY)
    _close(connection, plan, held.attempt, after, row.now, error)
    _note(connection, _WORDS[event], held, at=row.now, error=error)


def _load(connection: Connection, plan: Plan) -> Row[Any] | None:
    return connection.execute(_PLAN, {"of_plan": plan.plan_id}).one_or_none()


def _held(connection: Connection, held: Claim, event: Event, index: int | None = None) -> Row[Any]:
    """The plan's row, while it is this claim's and the event has a place; `index` must be the next batch."""
    flow = held.plan.draft.flow
    row = _load(connection, held.plan)
    if row is None or row.fence != held.fence:
        by = owner_of(row) if row is not None else None
        raise LeaseLost(
            f"{flow} was taken over by {_named(by)}" if by else f"{flow} was taken over by another runner",
            hint="nothing is lost: the other runner goes on with the same windows",
        )
    step(State(row.state), event)
    if index is not None and index != row.done:
        raise WrongState(
            f"{flow}: batch {index} cannot {event} while {row.done} of {row.batches} are done",
            hint="batches go one after the other",
        )
    return row


def _refuse_if_held(flow: str, row: Row[Any], holder: Owner | None, dead: Owner | None) -> None:
    lease_until: datetime | None = row.lease_until
    if lease_until is None or row.now >= lease_until or (dead is not None and dead == holder):
        return
    raise FlowHeld(
        f"{flow} is held by {_named(holder)} until {lease_until:%Y-%m-%d %H:%M:%S} UTC",
        hint="wait for it with `--wait`; if that process is gone, its lease ends by itself",
    )


def _named(owner: Owner | None) -> str:
    return f"{owner.actor} (process {owner.pid})" if owner else "another runner"


def _same(plan: Plan, row: Row[Any]) -> dict[str, Any]:
    return {"of_plan": plan.plan_id, "of_fence": row.fence, "of_state": row.state, "of_done": row.done}


def _set(connection: Connection, change: Update, values: dict[str, Any]) -> None:
    if connection.execute(change, values).rowcount != 1:
        raise Moved


def _close(
    connection: Connection,
    plan: Plan,
    attempt: int,
    state: State,
    at: datetime,
    error: dict[str, Any] | None,
) -> None:
    attempted = {"of_plan": plan.plan_id, "of_attempt": attempt}
    ended = {"state": state, "ended_at": at, "error": error_text(error)}
    _set(connection, _ATTEMPT, attempted | ended)


def _note(connection: Connection, event: str, held: Claim, *, at: datetime, **more: Any) -> None:
    draft = held.plan.draft
    connection.execute(
        _HISTORY,
        entry(
            event,
            at=at,
            pipeline=draft.pipeline,
            flow=draft.flow,
            actor=held.owner.actor,
            run_id=held.run_id,
            plan_id=held.plan.plan_id,
            **more,
        ),
    )
