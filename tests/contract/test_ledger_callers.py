"""The ledger for callers who do the work themselves: complete, fail, move, prune. On every store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.support.drafts import ME, OTHER, draft, nothing_new, position, receipt
from tidegauge.errors import ConfigError, FlowHeld, WrongState
from tidegauge.ledger.open import open_ledger
from tidegauge.model.plan import Batch, Draft, InputPlan, Plan
from tidegauge.model.position import VersionPosition, Window
from tidegauge.model.protocols.ledger import LedgerWriter
from tidegauge.model.state import State

MINUTE = timedelta(minutes=1)
TABLES = tuple(f"bronze.t{number:03d}" for number in range(120))


@pytest.fixture
def ledger(ledger_address: str) -> Iterator[LedgerWriter]:
    with open_ledger(ledger_address, create=True) as opened:
        yield opened


def versions(tables: tuple[str, ...] = TABLES, *, after: int | None = None, upto: int = 7) -> Draft:
    window = Window(None if after is None else VersionPosition(after), VersionPosition(upto))
    return Draft(
        pipeline="silver",
        flow="silver",
        inputs=tuple(
            InputPlan(name, "version", window, f"id-{name}", "schema-1", stamp="2025-08-14 10:00:00")
            for name in tables
        ),
        batches=(Batch((window,) * len(tables)),),
    )


def planned(ledger: LedgerWriter, one: Draft | None = None) -> Plan:
    return ledger.plan([one or versions()], owner=ME, run_id="run")["silver"]


def complete(ledger: LedgerWriter, plan: Plan, *tables: str) -> State:
    rows = dict.fromkeys(tables, 5) if tables else None
    return ledger.complete("silver", "silver", plan.plan_id, owner=ME, run_id="run", rows=rows).state


def positions(ledger: LedgerWriter) -> dict[str, object]:
    return {mark.input: mark.position for mark in ledger.watermarks("silver")}


def test_b10_some_tables_of_a_plan_can_be_completed_before_the_others(ledger: LedgerWriter) -> None:
    plan = planned(ledger)
    assert complete(ledger, plan, *TABLES[:70]) is State.PLANNED
    [status] = ledger.status("silver")
    assert status.completed == set(TABLES[:70])
    assert status.plan is not None
    assert status.plan.plan_id == plan.plan_id
    found = positions(ledger)
    assert {name for name, position in found.items() if position == VersionPosition(7)} == set(TABLES[:70])
    assert {found[name] for name in TABLES[70:]} == {None}
    assert complete(ledger, plan, *TABLES[60:71]) is State.PLANNED  # some of them once more
    assert complete(ledger, plan) is State.SUCCESS
    assert set(positions(ledger).values()) == {VersionPosition(7)}
    events = ledger.history("silver", limit=1000)
    advanced = [one for one in events if one.event == "advanced"]
    assert sorted(str(one.input) for one in advanced) == sorted(TABLES)
    assert {one.rows for one in advanced if one.input in TABLES[:70]} == {5}
    assert len([one for one in events if one.event == "planned"]) == 120


@pytest.mark.shown_on("sqlite")
def test_what_a_table_was_like_when_it_was_completed_is_kept(ledger: LedgerWriter) -> None:
    complete(ledger, planned(ledger))
    mark = ledger.watermarks("silver")[0]
    assert (mark.fingerprint, mark.stamp) == ("schema-1", "2025-08-14 10:00:00")
    assert (mark.source_id, mark.epoch, mark.seq) == ("id-bronze.t000", 0, 1)


@pytest.mark.shown_on("sqlite")
def test_a_plan_that_failed_keeps_its_windows_and_says_why(ledger: LedgerWriter) -> None:
    plan = planned(ledger)
    error = {"type": "RuntimeError", "message": "boom"}
    status = ledger.fail("silver", "silver", plan.plan_id, error, owner=ME, run_id="run")
    assert (status.state, status.plan and status.plan.plan_id) == (State.FAILED, plan.plan_id)
    assert planned(ledger, versions(upto=9)).plan_id == plan.plan_id
    assert status.last_run is not None
    assert status.last_run.error == error
    assert status.last_run.ended_at is not None
    assert complete(ledger, plan) is State.SUCCESS
    assert set(positions(ledger).values()) == {VersionPosition(7)}


@pytest.mark.shown_on("sqlite")
def test_a_plan_is_completed_once(ledger: LedgerWriter) -> None:
    plan = planned(ledger)
    complete(ledger, plan)
    with pytest.raises(WrongState, match="has ended"):
        complete(ledger, plan)
    with pytest.raises(WrongState, match="has ended"):
        ledger.fail("silver", "silver", plan.plan_id, {"message": "no"}, owner=ME, run_id="run")


@pytest.mark.shown_on("sqlite")
def test_a_table_that_the_plan_does_not_have_is_refused_and_nothing_moves(ledger: LedgerWriter) -> None:
    plan = planned(ledger)
    with pytest.raises(ConfigError, match=r"no table 'bronze\.nope'"):
        complete(ledger, plan, TABLES[0], "bronze.nope")
    assert set(positions(ledger).values()) == {None}


@pytest.mark.shown_on("sqlite")
def test_a_plan_that_another_process_holds_is_not_completed_by_us(ledger: LedgerWriter) -> None:
    plan = planned(ledger)
    held = ledger.claim(plan, owner=OTHER, run_id="theirs", lease=MINUTE)
    with pytest.raises(FlowHeld, match="other@there"):
        complete(ledger, plan, TABLES[0])
    # The holder itself may, bit by bit, and stays the holder.
    status = ledger.complete(
        "silver", "silver", plan.plan_id, owner=OTHER, run_id="theirs", rows={TABLES[0]: None}
    )
    assert (status.state, status.owner, status.fence) == (State.RUNNING, OTHER, held.fence)
    ledger.renew(held, MINUTE)


def test_move_is_a_whole_run_in_one_call(ledger: LedgerWriter) -> None:
    one = draft(batches=1)
    ledger.move(one, owner=ME, run_id="job", rows=12)
    [mark] = ledger.watermarks("shop")
    assert (mark.position, mark.seq) == (position(1), 1)
    [status] = ledger.status("shop")
    assert status.state is State.SUCCESS
    assert status.last_run is not None
    assert (status.last_run.run_id, status.last_run.rows_written) == ("job", 12)
    ledger.move(draft(batches=1, start=1), owner=ME, run_id="job 2")
    assert ledger.watermarks("shop")[0].position == position(2)


@pytest.mark.shown_on("sqlite")
def test_move_waits_for_a_plan_that_is_active(ledger: LedgerWriter) -> None:
    ledger.plan([draft()], owner=ME, run_id="run")
    with pytest.raises(WrongState, match="PLANNED"):
        ledger.move(draft(batches=1), owner=ME, run_id="job")


def test_pipelines_and_plans_can_be_found(ledger: LedgerWriter) -> None:
    assert ledger.pipelines() == []
    plan = planned(ledger)
    ledger.plan([draft()], owner=ME, run_id="run")
    assert ledger.pipelines() == ["shop", "silver"]
    assert ledger.find_plan(plan.plan_id) == ("silver", "silver", True)
    assert ledger.find_plan("no such") is None


def test_prune_removes_what_is_old_and_leaves_what_recovery_needs(ledger: LedgerWriter) -> None:
    for start in (0, 3):
        plan = ledger.plan([draft(start=start)], owner=ME, run_id=f"run {start}")["orders"]
        claim = ledger.claim(plan, owner=ME, run_id=f"run {start}", lease=MINUTE)
        for index in range(3):
            ledger.begin(claim, index)
            ledger.advance(claim, index, receipt(claim.plan, index))
        ledger.finish(claim, State.SUCCESS)
    for _ in range(3):
        ledger.plan([nothing_new("idle")], owner=ME, run_id="nothing")
    half = ledger.plan([draft("half")], owner=ME, run_id="half")["half"]
    claim = ledger.claim(half, owner=ME, run_id="half", lease=MINUTE)
    ledger.begin(claim, 0)
    ledger.advance(claim, 0, receipt(half, 0))
    ledger.finish(claim, State.FAILED, {"message": "half-way"})
    marks, statuses = ledger.watermarks("shop"), ledger.status("shop")
    assert sum(ledger.prune(before=ledger.now() - timedelta(days=1)).values()) == 0
    time.sleep(1.1)
    removed = ledger.prune(before=ledger.now())
    assert removed["runs"] == 3  # the first of orders, two that found nothing
    assert removed["plans"] == 1
    assert removed["history"] > 10
    assert (ledger.watermarks("shop"), ledger.status("shop")) == (marks, statuses)
    again = ledger.claim(half, owner=OTHER, run_id="again", lease=MINUTE)
    assert again.plan.done == 1
    ledger.begin(again, 1)
    ledger.advance(again, 1, receipt(half, 1))


@pytest.mark.shown_on("sqlite")
def test_prune_can_be_kept_to_one_pipeline(ledger: LedgerWriter) -> None:
    complete(ledger, planned(ledger))
    ledger.move(draft(batches=1), owner=ME, run_id="job")
    time.sleep(1.1)
    ledger.prune(before=ledger.now(), pipeline="silver")
    assert ledger.history("silver") == []
    assert ledger.history("shop") != []
