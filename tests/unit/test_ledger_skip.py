"""A run that ends as SKIPPED: the plan is over, and the watermark is where it was."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.support.drafts import ME, draft, receipt
from tidegauge.errors import LeaseLost, WrongState
from tidegauge.ledger.attempt_rules import advance, begin, finish
from tidegauge.ledger.claim_rules import claim, claim_of
from tidegauge.ledger.flow_state import FlowState
from tidegauge.ledger.plan_rules import plan
from tidegauge.model.state import State

NOW = datetime(2025, 8, 14, 12)
MINUTE = timedelta(minutes=1)


def running() -> FlowState:
    change, _ = plan(
        FlowState("shop", "orders"), draft(batches=2), plan_id="p", owner=ME, run_id="r", now=NOW
    )
    assert change is not None
    return claim(change.flow_state, "p", owner=ME, run_id="r", lease=MINUTE, dead=None, now=NOW).flow_state


def test_a_skip_ends_the_plan_and_moves_nothing() -> None:
    flow_state = running()
    change = finish(
        flow_state, claim_of(flow_state), State.SKIPPED, {"message": "a holiday"}, now=NOW + MINUTE
    )
    assert (change.flow_state.state, change.flow_state.active, change.flow_state.seq) == (
        State.SKIPPED,
        None,
        0,
    )
    assert change.flow_state.marks == flow_state.marks
    assert change.flow_state.marks["orders"].position is None
    [ended] = change.ended
    assert ended.word == "SKIPPED"
    [run] = change.runs
    assert (run.state, run.error, run.ended_at) == (State.SKIPPED, None, NOW + MINUTE)
    [event] = change.events
    assert (event.event, event.reason, event.error) == ("skipped", "a holiday", None)
    # The next plan takes the number that this one never used.
    _, kept = plan(change.flow_state, draft(), plan_id="q", owner=ME, run_id="s", now=NOW)
    assert kept is not None
    assert kept.first_seq == 1


def test_what_was_begun_cannot_be_skipped() -> None:
    flow_state = running()
    held = claim_of(flow_state)
    flow_state = begin(flow_state, held, 0, now=NOW).flow_state
    with pytest.raises(WrongState, match="was begun"):
        finish(flow_state, held, State.SKIPPED, None, now=NOW)
    flow_state = advance(flow_state, held, 0, receipt(held.plan, 0), now=NOW).flow_state
    with pytest.raises(WrongState, match="was begun"):
        finish(flow_state, held, State.SKIPPED, None, now=NOW)


def test_b8_a_skip_by_who_lost_the_lease_is_refused() -> None:
    flow_state = running()
    held = claim_of(flow_state)
    taken = claim(
        flow_state, "p", owner=ME, run_id="s", lease=MINUTE, dead=None, now=NOW + 2 * MINUTE
    ).flow_state
    with pytest.raises(LeaseLost):
        finish(taken, held, State.SKIPPED, None, now=NOW)
