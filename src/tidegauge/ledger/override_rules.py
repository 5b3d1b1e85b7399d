"""Rules for overrides: begin one, and end it once the output has opened its next epoch; or forget a flow.
Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from tidegauge.errors import WrongState
from tidegauge.ledger.claim_rules import refuse_override
from tidegauge.ledger.flow_state import ActivePlan, EndedPlan, FlowState, InputWatermark, StateChange
from tidegauge.ledger.journal import clean
from tidegauge.ledger.rule_records import close_run, describe_lost_lease, make_event
from tidegauge.ledger.tallies import add_seconds, count_override
from tidegauge.model.claim import Owner
from tidegauge.model.identity import accept_scope
from tidegauge.model.override import FORGET, FlowRevision, Identity, Override, Undo
from tidegauge.model.pending import Pending
from tidegauge.model.position import Position, VersionPosition
from tidegauge.model.run import RunRecord
from tidegauge.model.secret import mask
from tidegauge.model.state import Event, State, step
from tidegauge.model.watermark import Tally

_SUPERSEDED = "SUPERSEDED"
"""How a plan ends whose flow was overridden or forgotten."""


def begin_override(
    flow_state: FlowState,
    kind: str,
    positions: Mapping[str, Position | None],
    *,
    owner: Owner,
    reason: str,
    now: datetime,
    expected: FlowRevision | None = None,
) -> StateChange:
    """See LedgerWriter.begin_override."""
    refuse_override(flow_state)
    _refuse_if_moved(flow_state, expected)
    continues: tuple[int, int] | None = (flow_state.epoch, flow_state.seq)
    identities: Mapping[str, Identity] = {}
    if kind == "undo":
        if flow_state.undo is None:
            raise WrongState(
                f"{flow_state.flow}: there is no override to undo",
                hint="see `tidegauge history` for what was done",
            )
        positions, continues = flow_state.undo.positions, flow_state.undo.continues
        identities = flow_state.undo.identities
    elif kind in ("reset", "refresh"):
        continues = None
        positions = dict.fromkeys(flow_state.marks) | dict(positions)
        # The next plan may find another table under the name: that is what a reset is for.
        identities = {name: (None, None) for name, position in positions.items() if position is None}
    elif kind == "set":
        # A person who sets a position accepts what the flow reads now: its filter and its masks.
        identities = {
            name: (accept_scope(mark.source_id), mark.fingerprint)
            for name, mark in flow_state.marks.items()
            if name in positions
        }
    if not positions and not flow_state.marks:
        # Readers take the epoch from the watermarks, so a new epoch needs at least one.
        raise WrongState(f"{flow_state.flow} has no watermark yet", hint="name the input to give it one")
    override = Override(
        kind=kind,
        positions=dict(positions),
        epoch=flow_state.epoch + 1,
        continues=continues,
        reason=clean(mask(reason)),
        actor=clean(owner.actor),
        at=now,
        identities=identities,
    )
    active: ActivePlan | None = flow_state.active
    runs: tuple[RunRecord, ...] = ()
    if active is not None:
        if active.state is State.RUNNING:
            runs = close_run(
                flow_state, State.FAILED, now, describe_lost_lease(f"superseded by {owner.actor}: {kind}")
            )
        state = State.FAILED if active.state is State.RUNNING else active.state
        active = replace(active, state=state, owner=None, lease_until=None, updated_at=now)
    run = runs[0] if runs else flow_state.run
    changed = replace(
        flow_state,
        fence=flow_state.fence + 1,
        active=active,
        run=run,
        override=override,
        tally=add_seconds(flow_state.tally, runs),
    )
    logged = make_event(flow_state, "override", now, owner.actor, reason=f"{kind}: {reason}")
    return StateChange(changed, (logged,), runs)


def moved_error(flow: str) -> WrongState:
    """The error for a change by hand to a flow that has moved since the person looked at it."""
    return WrongState(
        f"{flow} has moved since what would happen was shown, so nothing was changed",
        hint="look at what would happen now, and decide again",
    )


def _refuse_if_moved(flow_state: FlowState, expected: FlowRevision | None) -> None:
    plan = flow_state.active.plan if flow_state.active else None
    found = FlowRevision(flow_state.fence)
    if plan is not None:
        found = FlowRevision(flow_state.fence, plan.plan_id, plan.done)
    if expected not in (None, found):
        raise moved_error(flow_state.flow)


def end_override(flow_state: FlowState, *, epoch: int, now: datetime) -> StateChange | None:
    """See LedgerWriter.end_override. None if the override has ended already."""
    override = flow_state.override
    if override is None or override.epoch != epoch:
        return None
    ended: tuple[EndedPlan, ...] = ()
    idle = State.READY
    if flow_state.active is not None:
        idle = step(flow_state.active.state, Event.SUPERSEDE)
        ended = (EndedPlan(replace(flow_state.active, updated_at=now), _SUPERSEDED),)
    # An input that no plan has named yet stands at the beginning, and an undo brings it back there.
    before: dict[str, Position | None] = dict.fromkeys(override.positions)
    before |= {name: mark.position for name, mark in flow_state.marks.items()}
    marks = {
        name: replace(mark, epoch=epoch, seq=0, pending=_carry_pending(mark, override), updated_at=now)
        for name, mark in flow_state.marks.items()
    }
    events = []
    for name, position in override.positions.items():
        old = marks.get(name) or _new_mark(name, position, epoch, now)
        source_id, fingerprint = override.identities.get(name, (old.source_id, old.fingerprint))
        marks[name] = replace(
            old,
            position=position,
            checked=position,
            source_id=source_id,
            fingerprint=fingerprint,
            stamp=None,
        )
        logged = make_event(
            flow_state,
            override.kind,
            now,
            override.actor,
            reason=override.reason,
            input=name,
            before=before.get(name),
            after=position,
            plan_id=ended[0].active.plan.plan_id if ended else None,
        )
        events.append(logged)
    undo = None
    if override.kind not in ("undo", "refresh"):  # what a refresh emptied does not come back
        known = {name: (mark.source_id, mark.fingerprint) for name, mark in flow_state.marks.items()}
        undo = Undo(override.kind, before, (flow_state.epoch, flow_state.seq), now, known)
    changed = replace(
        flow_state,
        idle=idle,
        epoch=epoch,
        seq=0,
        marks=marks,
        active=None,
        run=None,
        override=None,
        undo=undo,
        tally=count_override(flow_state.tally, flow_state.tally_before, override.kind),
        tally_before=None if undo is None else flow_state.tally,
    )
    return StateChange(changed, tuple(events), (), ended)


def forget(flow_state: FlowState, *, owner: Owner, reason: str, now: datetime) -> StateChange:
    """See LedgerWriter.forget. The epoch's number stays, so that no tag is ever used again."""
    logged = make_event(flow_state, "forgotten", now, owner.actor, reason=reason)
    untouched = not flow_state.marks and flow_state.active is None and flow_state.override is None
    if untouched and flow_state.undo is not None and flow_state.undo.kind == FORGET:
        # Forgotten a second time: the undo of the first time stays.
        return StateChange(
            replace(flow_state, fence=flow_state.fence + 1, undo=replace(flow_state.undo, at=now)), (logged,)
        )
    ended: tuple[EndedPlan, ...] = ()
    runs: tuple[RunRecord, ...] = ()
    idle = State.READY
    if flow_state.active is not None:
        if flow_state.active.state is State.RUNNING:
            runs = close_run(
                flow_state, State.FAILED, now, describe_lost_lease(f"superseded by {owner.actor}: {FORGET}")
            )
        idle = step(flow_state.active.state, Event.SUPERSEDE)
        ended = (
            EndedPlan(replace(flow_state.active, owner=None, lease_until=None, updated_at=now), _SUPERSEDED),
        )
    positions = {name: mark.position for name, mark in flow_state.marks.items()}
    known = {name: (mark.source_id, mark.fingerprint) for name, mark in flow_state.marks.items()}
    epoch, seq, undo = (
        flow_state.epoch,
        flow_state.seq,
        Undo(FORGET, positions, (flow_state.epoch, flow_state.seq), now, known),
    )
    if flow_state.override is not None:
        # The override may have opened its epoch in the output already and emptied it: nothing can be undone.
        epoch, seq, undo = flow_state.override.epoch, 0, Undo(FORGET, {}, (flow_state.override.epoch, 0), now)
    changed = replace(
        flow_state,
        idle=idle,
        fence=flow_state.fence + 1,
        epoch=epoch,
        seq=seq,
        marks={},
        active=None,
        run=None,
        override=None,
        undo=undo,
        tally=Tally(),
        tally_before=add_seconds(flow_state.tally, runs),
    )
    plan_id = ended[0].active.plan.plan_id if ended else None
    events = tuple(
        make_event(
            flow_state,
            "forgotten",
            now,
            owner.actor,
            reason=reason,
            input=name,
            before=position,
            plan_id=plan_id,
        )
        for name, position in positions.items()
    )
    return StateChange(changed, events or (logged,), runs, ended)


def _carry_pending(mark: InputWatermark, override: Override) -> str | None:
    """What `pending` says after an override. A note on a database's open transactions is dropped, because it
    is no longer true. For Delta inputs it is kept, or says that the watermark was set back."""
    if mark.cursor not in ("version", "snapshot"):
        return None
    before, after = mark.position, override.positions.get(mark.input, mark.position)
    match before, after:
        case VersionPosition(was), VersionPosition(now) if now < was:
            return Pending.SET_BACK
        case _:
            return mark.pending


def _new_mark(name: str, position: Position | None, epoch: int, now: datetime) -> InputWatermark:
    """The state of an input that no plan has named yet. Its cursor is empty until its first plan."""
    return InputWatermark(name, "", position, position, epoch, 0, None, None, None, None, now)
