"""The rule that restores a flow's state from what its output recorded. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from tidegauge.errors import FlowHeld, WrongState
from tidegauge.ledger.claim_rules import refuse_override
from tidegauge.ledger.flow_state import FlowState, InputWatermark, StateChange
from tidegauge.ledger.rule_records import make_event
from tidegauge.model.claim import Owner
from tidegauge.model.state import State
from tidegauge.model.watermark import Recalled


def rebuild(
    flow_state: FlowState,
    marks: Mapping[str, Recalled],
    epoch: int,
    seq: int,
    *,
    owner: Owner,
    reason: str,
    now: datetime,
) -> StateChange | None:
    """See LedgerWriter.rebuild. None if the flow stands there already."""
    refuse_override(flow_state)
    if flow_state.active is not None:
        raise active_plan_error(flow_state.flow, flow_state.active.state, flow_state.active.owner)
    if (flow_state.epoch, flow_state.seq) == (epoch, seq) and not flow_state.forgotten:
        return None
    if (flow_state.epoch, flow_state.seq) > (epoch, seq):
        raise ledger_ahead_error(flow_state.flow, (flow_state.epoch, flow_state.seq), (epoch, seq))
    known = {name: replace(mark, epoch=epoch, seq=seq) for name, mark in flow_state.marks.items()}
    found = {
        name: InputWatermark(
            input=name,
            cursor=one.cursor,
            position=one.position,
            checked=one.position,
            epoch=epoch,
            seq=seq,
            pending=one.pending,
            source_id=one.source_id,
            fingerprint=one.fingerprint,
            stamp=one.stamp,
            updated_at=now,
        )
        for name, one in marks.items()
    }
    events = tuple(
        make_event(
            flow_state,
            "rebuilt",
            now,
            owner.actor,
            reason=reason,
            input=name,
            before=flow_state.marks[name].position if name in flow_state.marks else None,
            after=mark.position,
        )
        for name, mark in found.items()
    )
    # No undo: it would lead back to a state that this ledger never recorded.
    changed = replace(
        flow_state,
        fence=flow_state.fence + 1,
        epoch=epoch,
        seq=seq,
        marks={**known, **found},
        undo=None,
        tally_before=None,
    )
    return StateChange(changed, events)


def active_plan_error(flow: str, state: State, owner: Owner | None) -> FlowHeld:
    by = f" by {owner.actor}" if owner else ""
    return FlowHeld(
        f"{flow} has a plan that is {state}{by}, and may have committed more than is counted",
        hint="`tidegauge run` asks the output and ends it; then rebuild, if there is still need to",
    )


def ledger_ahead_error(flow: str, ledger: tuple[int, int], output: tuple[int, int]) -> WrongState:
    """`ledger` and `output`: the epoch and the last batch of each."""
    return WrongState(
        f"{flow}: the ledger is ahead of the output: it counts batch {ledger[1]} of epoch {ledger[0]}, and"
        f" the output ends with batch {output[1]} of epoch {output[0]}",
        hint="bring back what is gone from the output; to begin again use `tidegauge watermark reset`",
    )
