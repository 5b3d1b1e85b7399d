"""What every ledger promises, on every store: planning, claiming, advancing, ending."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import event, insert, select
from sqlalchemy.exc import IntegrityError, OperationalError

from tests.support.drafts import ME, OTHER, THIRD, draft, nothing_new, position, receipt
from tests.support.ledgers import everything
from tidegauge.errors import FlowHeld, LeaseLost, WrongState
from tidegauge.ledger.open import Ledger, open_ledger
from tidegauge.ledger.sql_ledger import SqlLedger
from tidegauge.ledger.sql_tables import plans
from tidegauge.model.claim import Claim, Owner
from tidegauge.model.plan import Draft, Plan
from tidegauge.model.run import FlowStatus
from tidegauge.model.state import State
from tidegauge.model.watermark import Watermark

MINUTE = timedelta(minutes=1)
OVER = timedelta(milliseconds=-1)
"""A lease that has run out before anyone can look."""
ERROR = {"type": "SourceUnreachable", "message": "server down", "hint": "start it", "retryable": True}


@pytest.fixture
def ledger(ledger_address: str) -> Iterator[Ledger]:
    with open_ledger(ledger_address, create=True) as opened:
        yield opened


def planned(ledger: Ledger, one: Draft | None = None) -> Plan:
    one = one or draft()
    return ledger.plan([one], owner=ME, run_id="run")[one.flow]


def claimed(ledger: Ledger, plan: Plan, owner: Owner = ME, *, lease: timedelta = MINUTE) -> Claim:
    return ledger.claim(plan, owner=owner, run_id="run", lease=lease)


def walked(ledger: Ledger, claim: Claim, *, upto: int | None = None) -> None:
    for index in range(claim.plan.done, len(claim.plan.draft.batches) if upto is None else upto):
        ledger.begin(claim, index)
        ledger.advance(claim, index, receipt(claim.plan, index))


def status(ledger: Ledger, flow: str = "orders") -> FlowStatus:
    [one] = ledger.status("shop", [flow])
    return one


def watermark(ledger: Ledger, flow: str = "orders") -> Watermark:
    [one] = ledger.watermarks("shop", [flow])
    return one


def events(ledger: Ledger) -> list[str]:
    return [event.event for event in reversed(ledger.history("shop", limit=1000))]


# --- plan


def test_a_plan_is_kept_exactly(ledger: Ledger) -> None:
    plan = planned(ledger)
    assert plan.draft == draft()
    assert (plan.epoch, plan.first_seq, plan.done) == (0, 1, 0)
    found = status(ledger)
    assert found.plan == plan
    assert (found.state, found.fence, found.owner, found.lease_until) == (State.PLANNED, 0, None, None)
    assert found.last_run is None


@pytest.mark.shown_on("sqlite")
def test_a_watermark_stands_at_the_beginning_from_the_first_plan_on(ledger: Ledger) -> None:
    planned(ledger, draft(pending="seen 42"))
    mark = watermark(ledger)
    assert (mark.position, mark.checked, mark.epoch, mark.seq) == (None, None, 0, 0)
    assert (mark.cursor, mark.pending, mark.source_id) == ("timestamp", "seen 42", "db/orders")
    assert abs(mark.updated_at - ledger.now()) < timedelta(minutes=10)


@pytest.mark.shown_on("sqlite")
def test_b11_a_flow_with_an_active_plan_keeps_it_and_its_windows(ledger: Ledger) -> None:
    first = planned(ledger)
    again = planned(ledger, draft(batches=7, pending="other"))
    assert again == first
    assert planned(ledger, nothing_new()) == first
    assert watermark(ledger).pending is None
    assert events(ledger) == ["planned"]


def test_nothing_new_is_recorded_as_skipped(ledger: Ledger) -> None:
    assert ledger.plan([nothing_new(pending="seen 7")], owner=ME, run_id="run") == {}
    found, mark = status(ledger), watermark(ledger)
    assert (found.state, found.plan) == (State.SKIPPED, None)
    assert found.last_run is not None
    assert (found.last_run.state, found.last_run.run_id, found.last_run.plan_id) == ("SKIPPED", "run", None)
    assert (mark.position, mark.checked, mark.pending) == (None, position(9), "seen 7")
    assert events(ledger) == ["skipped"]


@pytest.mark.shown_on("sqlite")
def test_a_skipped_look_moves_checked_and_never_the_position(ledger: Ledger) -> None:
    claim = claimed(ledger, planned(ledger))
    walked(ledger, claim)
    ledger.finish(claim, State.SUCCESS)
    ledger.plan([nothing_new(upto=50)], owner=ME, run_id="run 2")
    mark = watermark(ledger)
    assert (mark.position, mark.checked, mark.seq) == (position(3), position(50), 3)
    assert status(ledger).state is State.SKIPPED


@pytest.mark.shown_on("sqlite")
def test_a_look_without_a_safe_bound_leaves_checked_alone(ledger: Ledger) -> None:
    ledger.plan([nothing_new(upto=9)], owner=ME, run_id="run")
    blind = nothing_new()
    blind = replace(blind, inputs=(replace(blind.inputs[0], window=None),))
    ledger.plan([blind], owner=ME, run_id="run")
    assert watermark(ledger).checked == position(9)


@pytest.mark.shown_on("sqlite", "postgres", "delta-s3")
def test_a_thousand_flows_are_planned_in_one_transaction(ledger: Ledger) -> None:
    commits: list[object] = []
    if isinstance(ledger, SqlLedger):
        event.listen(ledger._engine, "commit", commits.append)
    drafts = [draft(f"table {number}", batches=2) for number in range(1000)]
    answer = ledger.plan(drafts, owner=ME, run_id="run")
    assert len(commits) == isinstance(ledger, SqlLedger)
    assert [plan.draft for plan in answer.values()] == drafts
    assert len(ledger.status("shop")) == len(ledger.watermarks("shop")) == 1000


@pytest.mark.shown_on("sqlite")
def test_one_transaction_plans_skips_and_finds_active_plans_together(ledger: Ledger) -> None:
    active = planned(ledger, draft("active"))
    answer = ledger.plan([draft("new"), draft("active"), nothing_new("idle")], owner=ME, run_id="run")
    assert set(answer) == {"new", "active"}
    assert answer["active"] == active
    assert [(one.flow, one.state) for one in ledger.status("shop")] == [
        ("active", State.PLANNED),
        ("idle", State.SKIPPED),
        ("new", State.PLANNED),
    ]


def test_b7_two_active_plans_of_one_flow_are_refused_by_the_database_itself(sql_ledger_address: str) -> None:
    ledger = open_ledger(sql_ledger_address, create=True)
    assert isinstance(ledger, SqlLedger)
    planned(ledger)
    with ledger._engine.connect() as connection:
        [row] = connection.execute(select(plans)).mappings()
    for active in (1, 2):
        # MariaDB has a class of its own for a check that failed.
        with pytest.raises((IntegrityError, OperationalError)), ledger._writer.begin() as connection:
            connection.execute(insert(plans), {**row, "plan_id": "second", "active": active})


@pytest.mark.shown_on("sqlite")
def test_a_refused_flow_is_ready_and_its_error_is_kept(ledger: Ledger) -> None:
    ledger.refuse("shop", "orders", ERROR, owner=ME, run_id="run")
    found = status(ledger)
    assert (found.state, found.plan) == (State.READY, None)
    assert found.last_run is not None
    assert (found.last_run.state, found.last_run.error) == (State.FAILED, ERROR)
    [event] = ledger.history("shop", failed=True)
    assert (event.event, event.actor, event.error) == (
        "refused",
        "me@here",
        "SourceUnreachable: server down",
    )
    assert planned(ledger).first_seq == 1


@pytest.mark.shown_on("sqlite")
def test_a_flow_with_an_active_plan_cannot_be_refused(ledger: Ledger) -> None:
    planned(ledger)
    with pytest.raises(WrongState, match="PLANNED cannot take the event 'refuse'"):
        ledger.refuse("shop", "orders", ERROR, owner=ME, run_id="run")
    assert events(ledger) == ["planned"]


# --- claim


def test_a_claim_raises_the_fence_and_runs_on_the_stores_clock(ledger: Ledger) -> None:
    plan = planned(ledger)
    before = ledger.now()
    claim = claimed(ledger, plan)
    after = ledger.now()
    assert (claim.fence, claim.attempt, claim.plan, claim.owner) == (1, 1, plan, ME)
    assert before + MINUTE <= claim.lease_until <= after + MINUTE
    found = status(ledger)
    assert (found.state, found.fence, found.owner) == (State.RUNNING, 1, ME)
    assert found.lease_until == claim.lease_until
    assert found.last_run is not None
    assert (found.last_run.state, found.last_run.plan_id) == (State.RUNNING, plan.plan_id)
    assert found.last_run.ended_at is None


@pytest.mark.shown_on("sqlite")
def test_b7_a_held_flow_is_refused_with_the_holders_name(ledger: Ledger) -> None:
    plan = planned(ledger)
    claim = claimed(ledger, plan)
    before = everything(ledger)
    with pytest.raises(FlowHeld) as caught:
        claimed(ledger, plan, OTHER)
    assert caught.value.retryable
    for part in ("orders", "me@here", "101", f"{claim.lease_until:%Y-%m-%d %H:%M:%S}"):
        assert part in caught.value.message
    assert everything(ledger) == before


def test_b8_a_lease_that_has_run_out_is_taken_over_with_the_same_windows(ledger: Ledger) -> None:
    plan = planned(ledger)
    first = claimed(ledger, plan, lease=OVER)
    second = claimed(ledger, plan, OTHER)
    assert (second.fence, second.attempt) == (first.fence + 1, 2)
    assert second.plan.draft == plan.draft
    assert events(ledger) == ["planned", "claimed", "taken_over"]
    [taken] = ledger.history("shop", limit=1)
    assert taken.reason is not None
    assert "me@here (process 101) let its lease run out" in taken.reason


@pytest.mark.shown_on("sqlite")
def test_a_run_that_was_taken_over_is_closed_as_failed(ledger: Ledger) -> None:
    plan = planned(ledger)
    claimed(ledger, plan, lease=OVER)
    second = claimed(ledger, plan, OTHER)
    runs = everything(ledger)["runs"]
    assert len(runs) == 2
    assert sum("taken over by other@there (process 202)" in str(run) for run in runs) == 1
    walked(ledger, second)
    ledger.finish(second, State.SUCCESS)
    last = status(ledger).last_run
    assert last is not None
    assert (last.attempt, last.state) == (2, State.SUCCESS)


@pytest.mark.shown_on("sqlite")
def test_a_dead_holder_is_taken_over_at_once(ledger: Ledger) -> None:
    plan = planned(ledger)
    claimed(ledger, plan)
    second = ledger.claim(plan, owner=OTHER, run_id="run 2", lease=MINUTE, dead=ME)
    assert second.fence == 2
    [taken] = ledger.history("shop", limit=1)
    assert (taken.event, taken.reason) == ("taken_over", "me@here (process 101) is gone")


@pytest.mark.shown_on("sqlite")
def test_b7_two_who_saw_the_same_death_do_not_both_take_over(ledger: Ledger) -> None:
    plan = planned(ledger)
    claimed(ledger, plan)
    ledger.claim(plan, owner=OTHER, run_id="run 2", lease=MINUTE, dead=ME)
    with pytest.raises(FlowHeld, match="other@there"):
        ledger.claim(plan, owner=THIRD, run_id="run 3", lease=MINUTE, dead=ME)


@pytest.mark.shown_on("sqlite")
def test_b11_a_failed_plan_is_claimed_again_with_the_same_windows(ledger: Ledger) -> None:
    plan = planned(ledger)
    claim = claimed(ledger, plan)
    walked(ledger, claim, upto=1)
    ledger.finish(claim, State.FAILED, ERROR)
    found = status(ledger)
    assert (found.state, found.owner, found.lease_until) == (State.FAILED, None, None)
    assert found.plan == replace(plan, done=1)
    assert planned(ledger, draft(batches=9)) == replace(plan, done=1)
    again = claimed(ledger, plan, OTHER)
    assert (again.attempt, again.fence) == (2, 2)
    assert again.plan == replace(plan, done=1)


@pytest.mark.shown_on("sqlite")
def test_a_plan_that_has_ended_cannot_be_claimed(ledger: Ledger) -> None:
    plan = planned(ledger)
    claim = claimed(ledger, plan)
    walked(ledger, claim)
    ledger.finish(claim, State.SUCCESS)
    with pytest.raises(WrongState, match="has ended") as caught:
        claimed(ledger, plan, OTHER)
    assert caught.value.retryable
    planned(ledger, draft(start=3))
    with pytest.raises(WrongState, match="another has taken its place"):
        claimed(ledger, plan, OTHER)


@pytest.mark.shown_on("sqlite")
def test_a_released_plan_waits_for_anyone(ledger: Ledger) -> None:
    plan = planned(ledger)
    claim = claimed(ledger, plan)
    walked(ledger, claim, upto=2)
    ledger.finish(claim, State.PLANNED)
    found = status(ledger)
    assert (found.state, found.owner, found.plan) == (State.PLANNED, None, replace(plan, done=2))
    assert events(ledger)[-1] == "released"
    assert claimed(ledger, plan, OTHER).plan.done == 2


@pytest.mark.shown_on("sqlite")
def test_renewing_moves_the_end_of_the_lease(ledger: Ledger) -> None:
    claim = claimed(ledger, planned(ledger), lease=timedelta(seconds=5))
    ledger.renew(claim, timedelta(hours=1))
    until = status(ledger).lease_until
    assert until is not None
    assert until - ledger.now() > timedelta(minutes=59)


def test_a_lease_that_is_long_enough_is_only_looked_at(ledger: Ledger) -> None:
    claim = claimed(ledger, planned(ledger), lease=timedelta(hours=1))
    before = everything(ledger)
    ledger.renew(claim, timedelta(hours=2), least=timedelta(minutes=30))
    assert everything(ledger) == before
    ledger.renew(claim, timedelta(hours=2), least=timedelta(minutes=90))
    until = status(ledger).lease_until
    assert until is not None
    assert until - ledger.now() > timedelta(minutes=110)
    ledger.claim(claim.plan, owner=OTHER, run_id="other", lease=MINUTE, dead=ME)
    with pytest.raises(LeaseLost):
        ledger.renew(claim, timedelta(hours=2), least=timedelta(seconds=1))


# --- begin, advance, finish


def test_b1_advancing_moves_the_watermark_to_the_end_of_the_batch(ledger: Ledger) -> None:
    plan = planned(ledger)
    claim = claimed(ledger, plan)
    ledger.begin(claim, 0)
    assert watermark(ledger).position is None
    ledger.advance(claim, 0, receipt(plan, 0, rows=11))
    mark, found = watermark(ledger), status(ledger)
    assert (mark.position, mark.seq, mark.epoch) == (position(1), 1, 0)
    assert found.plan is not None
    assert found.plan.done == 1
    assert found.last_run is not None
    assert (found.last_run.batches, found.last_run.rows_read, found.last_run.rows_written) == (1, 11, 11)
    walked(ledger, replace(claim, plan=found.plan), upto=2)
    [moved] = ledger.history("shop", limit=1)
    assert (moved.event, moved.before, moved.after) == ("advanced", position(1), position(2))
    last = status(ledger).last_run
    assert last is not None
    assert (last.batches, last.rows_written) == (2, 21)


@pytest.mark.shown_on("sqlite")
def test_a26_how_far_was_looked_counts_once_the_plan_is_done(ledger: Ledger) -> None:
    def looked(one: Draft, bound: int | None) -> Draft:
        checked = None if bound is None else position(bound)
        return replace(one, inputs=tuple(replace(part, checked=checked) for part in one.inputs))

    def seen() -> tuple[object, object]:
        mark = watermark(ledger)
        return mark.position, mark.checked

    claim = claimed(ledger, planned(ledger, looked(draft(batches=2), 9)))
    walked(ledger, claim, upto=1)
    assert seen() == (position(1), None)
    kept = status(ledger).plan
    assert kept is not None
    assert kept.draft.inputs[0].checked == position(9), "the bound is frozen with the plan"
    walked(ledger, replace(claim, plan=kept))
    ledger.finish(claim, State.SUCCESS)
    assert seen() == (position(2), position(9))

    ledger.plan([looked(nothing_new(upto=2), 12)], owner=ME, run_id="run")
    assert seen() == (position(2), position(12))

    again = draft(batches=1, start=1)
    again = replace(again, batches=tuple(replace(batch, rereads=True) for batch in again.batches))
    for bound, checked in ((None, 12), (15, 15)):  # a backfill, then a lookback that found nothing newer
        claim = claimed(ledger, planned(ledger, looked(again, bound)))
        walked(ledger, claim)
        ledger.finish(claim, State.SUCCESS)
        assert seen() == (position(2), position(checked))


@pytest.mark.shown_on("sqlite")
def test_b1_a_batch_is_advanced_once_in_order_and_with_its_own_receipt(ledger: Ledger) -> None:
    plan = planned(ledger)
    claim = claimed(ledger, plan)
    with pytest.raises(WrongState, match="before it was begun"):
        ledger.advance(claim, 0, receipt(plan, 0))
    with pytest.raises(WrongState, match="batch 1 cannot begin while 0 of 3"):
        ledger.begin(claim, 1)
    ledger.begin(claim, 0)
    with pytest.raises(WrongState, match="receipt"):
        ledger.advance(claim, 0, receipt(plan, 1))
    with pytest.raises(WrongState, match="batch 1 cannot advance"):
        ledger.advance(claim, 1, receipt(plan, 1))
    ledger.advance(claim, 0, receipt(plan, 0))
    before = everything(ledger)
    for index in (0, 2):
        with pytest.raises(WrongState):
            ledger.advance(claim, index, receipt(plan, index))
        with pytest.raises(WrongState):
            ledger.begin(claim, index)
    assert everything(ledger) == before


def test_b1_a_claim_begins_the_next_batch_and_the_last_advance_ends_the_attempt(ledger: Ledger) -> None:
    plan = planned(ledger)
    last = len(plan.draft.batches) - 1
    claim = ledger.claim(plan, owner=ME, run_id="run", lease=MINUTE, begins=True)
    for index in range(last):
        ledger.advance(claim, index, receipt(plan, index), ends=True)
        assert status(ledger).state is State.RUNNING
        ledger.begin(claim, index + 1)
    ledger.advance(claim, last, receipt(plan, last), ends=True)
    found = status(ledger)
    assert (found.state, found.plan, found.owner) == (State.SUCCESS, None, None)
    assert found.last_run is not None
    assert (found.last_run.state, found.last_run.batches) == (State.SUCCESS, last + 1)
    assert watermark(ledger).position == plan.draft.batches[-1].windows[0].upto
    assert events(ledger) == ["planned", "claimed", *["advanced"] * (last + 1), "finished"]


def test_b8_a_stale_claim_ends_nothing_with_its_last_batch(ledger: Ledger) -> None:
    plan = planned(ledger)
    old = ledger.claim(plan, owner=ME, run_id="run", lease=OVER, begins=True)
    new = ledger.claim(plan, owner=OTHER, run_id="run 2", lease=MINUTE, begins=True)
    before = everything(ledger)
    with pytest.raises(LeaseLost):
        ledger.advance(old, 0, receipt(plan, 0), ends=True)
    assert everything(ledger) == before
    ledger.advance(new, 0, receipt(plan, 0), ends=True)
    assert watermark(ledger).seq == 1


@pytest.mark.shown_on("sqlite")
def test_b2_a_batch_may_be_begun_again_after_a_crash(ledger: Ledger) -> None:
    plan = planned(ledger)
    first = claimed(ledger, plan, lease=OVER)
    ledger.begin(first, 0)
    second = claimed(ledger, plan, OTHER)
    ledger.begin(second, 0)
    ledger.begin(second, 0)
    ledger.advance(second, 0, receipt(plan, 0))
    assert watermark(ledger).seq == 1


@pytest.mark.shown_on("sqlite")
def test_b2_what_a_predecessor_began_is_remembered_on_the_plan(ledger: Ledger) -> None:
    """Whoever began it, a begun batch has one meaning."""
    plan = planned(ledger)
    ledger.begin(claimed(ledger, plan, lease=OVER), 0)
    second = claimed(ledger, plan, OTHER)
    ledger.advance(second, 0, receipt(plan, 0))
    assert watermark(ledger).position == position(1)


def test_b8_a_stale_claim_can_change_nothing(ledger: Ledger) -> None:
    plan = planned(ledger)
    stale = claimed(ledger, plan, lease=OVER)
    ledger.begin(stale, 0)
    holder = claimed(ledger, plan, OTHER)
    for _ in range(2):
        before = everything(ledger)
        attempts: list[Callable[[], None]] = [
            lambda: ledger.renew(stale, MINUTE),
            lambda: ledger.begin(stale, 0),
            lambda: ledger.advance(stale, 0, receipt(plan, 0)),
            lambda: ledger.finish(stale, State.SUCCESS),
            lambda: ledger.finish(stale, State.FAILED, ERROR),
            lambda: ledger.finish(stale, State.PLANNED),
        ]
        for attempt in attempts:
            with pytest.raises(LeaseLost) as caught:
                attempt()
            assert caught.value.retryable
        assert everything(ledger) == before
        # Nor may it once the other has ended everything.
        if holder.plan.done == 0 and status(ledger).state is State.RUNNING:
            walked(ledger, holder)
            ledger.finish(holder, State.SUCCESS)


def test_b8_a_stale_claim_can_change_nothing_of_the_next_plan_either(ledger: Ledger) -> None:
    plan = planned(ledger)
    stale = claimed(ledger, plan, lease=OVER)
    second = claimed(ledger, plan, OTHER)
    walked(ledger, second)
    ledger.finish(second, State.SUCCESS)
    next_claim = claimed(ledger, planned(ledger, draft(start=3)), THIRD)
    assert next_claim.fence == 3
    before = everything(ledger)
    with pytest.raises(LeaseLost):
        ledger.begin(stale, 0)
    with pytest.raises(LeaseLost):
        ledger.finish(stale, State.SUCCESS)
    assert everything(ledger) == before


@pytest.mark.shown_on("sqlite")
def test_a_holder_whose_lease_ran_out_unnoticed_may_go_on(ledger: Ledger) -> None:
    plan = planned(ledger)
    claim = claimed(ledger, plan, lease=OVER)
    walked(ledger, claim)
    ledger.renew(claim, MINUTE)
    ledger.finish(claim, State.SUCCESS)
    assert status(ledger).state is State.SUCCESS


@pytest.mark.shown_on("sqlite")
def test_success_needs_every_batch(ledger: Ledger) -> None:
    claim = claimed(ledger, planned(ledger))
    walked(ledger, claim, upto=2)
    with pytest.raises(WrongState, match="2 of 3 batches are done"):
        ledger.finish(claim, State.SUCCESS)
    assert status(ledger).state is State.RUNNING


@pytest.mark.shown_on("sqlite")
def test_an_attempt_ends_once_and_in_a_state_that_ends_it(ledger: Ledger) -> None:
    claim = claimed(ledger, planned(ledger))
    for state in (State.READY, State.RUNNING):
        with pytest.raises(WrongState, match=f"cannot end as {state}"):
            ledger.finish(claim, state)
    walked(ledger, claim)
    ledger.finish(claim, State.SUCCESS)
    for state in (State.SUCCESS, State.FAILED, State.PLANNED):
        with pytest.raises(WrongState, match="ended already as SUCCESS"):
            ledger.finish(claim, state)
    with pytest.raises(WrongState):
        ledger.renew(claim, MINUTE)


@pytest.mark.shown_on("sqlite")
def test_success_frees_the_flow_and_the_next_plan_goes_on_counting(ledger: Ledger) -> None:
    claim = claimed(ledger, planned(ledger))
    walked(ledger, claim)
    ledger.finish(claim, State.SUCCESS)
    found = status(ledger)
    assert (found.state, found.plan, found.owner, found.fence) == (State.SUCCESS, None, None, 1)
    assert found.last_run is not None
    assert found.last_run.ended_at is not None
    assert (found.last_run.state, found.last_run.batches) == (State.SUCCESS, 3)
    assert events(ledger) == ["planned", "claimed", "advanced", "advanced", "advanced", "finished"]
    plan = planned(ledger, draft(start=3, batches=2))
    assert (plan.first_seq, plan.tag(1).seq, plan.epoch) == (4, 5, 0)
    again = claimed(ledger, plan)
    assert (again.fence, again.attempt) == (2, 1)
    walked(ledger, again)
    assert (watermark(ledger).seq, watermark(ledger).position) == (5, position(5))


def test_a_failure_keeps_its_error(ledger: Ledger) -> None:
    claim = claimed(ledger, planned(ledger))
    ledger.finish(claim, State.FAILED, ERROR)
    last = status(ledger).last_run
    assert last is not None
    assert (last.state, last.error) == (State.FAILED, ERROR)
    [failed] = ledger.history("shop", failed=True)
    assert (failed.event, failed.error) == ("failed", "SourceUnreachable: server down")


def test_several_inputs_advance_in_one_commit(ledger: Ledger) -> None:
    plan = planned(ledger, draft(inputs=("clusters", "workspaces")))
    walked(ledger, claimed(ledger, plan), upto=2)
    marks = ledger.watermarks("shop")
    assert [(mark.input, mark.position, mark.seq) for mark in marks] == [
        ("clusters", position(2), 2),
        ("workspaces", position(2), 2),
    ]
