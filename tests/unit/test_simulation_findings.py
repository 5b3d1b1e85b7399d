"""What the simulation has found, each by itself, so that it stays mended."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from tidegauge.errors import WrongState
from tidegauge.ledger import caller_rules, override_rules, plan_rules
from tidegauge.ledger.flow_state import FlowState, StateChange
from tidegauge.model.claim import Owner
from tidegauge.model.plan import Batch, Draft, InputPlan
from tidegauge.model.position import VersionPosition, Window

ME = Owner("me@here", "here", 1, "1")
NOW = datetime(2026, 1, 1)
EMPTY = FlowState("shop", "orders")


def overridden(flow_state: FlowState, kind: str, **positions: int) -> FlowState:
    places = {name: VersionPosition(version) for name, version in positions.items()}
    begun = override_rules.begin_override(
        flow_state, kind, places, owner=ME, reason="why", now=NOW
    ).flow_state
    assert begun.override is not None
    ended = override_rules.end_override(begun, epoch=begun.override.epoch, now=NOW)
    assert ended is not None
    return ended.flow_state


def planned(flow_state: FlowState, *, seen: tuple[int, int], **tops: int) -> StateChange | None:
    windows = tuple(
        Window(flow_state.marks[name].position if name in flow_state.marks else None, VersionPosition(top))
        for name, top in tops.items()
    )
    inputs = tuple(
        InputPlan(name, "version", window, "db", "columns")
        for name, window in zip(tops, windows, strict=True)
    )
    draft = Draft("shop", "orders", inputs, (Batch(windows),), seen=seen)
    return plan_rules.plan(
        flow_state, draft, plan_id=f"plan-{flow_state.seq}", owner=ME, run_id="run", now=NOW
    )[0]


def test_an_undo_of_the_first_set_of_a_flow_that_never_ran_goes_back_to_the_beginning() -> None:
    moved = overridden(EMPTY, "set", orders=5)
    assert moved.marks["orders"].position == VersionPosition(5)
    assert overridden(moved, "undo").marks["orders"].position is None


def test_a_reset_of_a_flow_without_a_watermark_is_refused() -> None:
    """Nobody could tell from the watermarks, of which there are none, that another epoch has begun."""
    with pytest.raises(WrongState, match="no watermark yet"):
        override_rules.begin_override(EMPTY, "reset", {}, owner=ME, reason="why", now=NOW)
    assert overridden(EMPTY, "set", orders=0).epoch == 1


def test_a_look_in_the_middle_of_a_partial_completion_is_no_ground_for_the_next_plan() -> None:
    first = planned(EMPTY, seen=(0, 0), left=1, right=1)
    assert first is not None
    part = caller_rules.complete(
        first.flow_state, "plan-0", owner=ME, run_id="run", rows={"right": 1}, now=NOW
    ).flow_state
    looked = max((mark.epoch, mark.seq) for mark in part.marks.values())
    whole = caller_rules.complete(part, "plan-0", owner=ME, run_id="run", rows=None, now=NOW).flow_state
    assert [mark.seq for mark in whole.marks.values()] == [whole.seq, whole.seq] == [1, 1]
    # It saw `left` where it no longer is.
    stale = replace(whole, marks=part.marks)
    assert planned(stale, seen=looked, left=2, right=2) is None
    assert planned(whole, seen=(0, 1), left=2, right=2) is not None
