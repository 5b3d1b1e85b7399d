"""Suspensions, and times that are given once, on every store."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from tests.contract.test_ledger_races import RACERS, owner, together
from tests.support.drafts import ME, OTHER, draft, receipt
from tests.support.ledgers import everything
from tidegauge.errors import FlowSuspended, SchedulersDisagree
from tidegauge.ledger.flow_state import FlowState, StateChange
from tidegauge.ledger.open import Ledger, open_ledger
from tidegauge.ledger.sql_ledger import SqlLedger
from tidegauge.model.claim import Owner
from tidegauge.model.schedule import CatchUp, Every, FlowSchedule
from tidegauge.model.state import State
from tidegauge.model.suspension import ALL
from tidegauge.model.ticks import SchedulerRecords, SeenScheduler, Tick

MINUTE = timedelta(minutes=1)
LONG = timedelta(days=30_000)
EPOCH = datetime(1970, 1, 1)


def every(length: timedelta, catch_up: CatchUp = CatchUp.ONE) -> FlowSchedule:
    return FlowSchedule(Every(length), f"every {length}", catch_up=catch_up)


SECOND = every(timedelta(seconds=1))


def me(who: Owner = ME, file: str = "f00d") -> SeenScheduler:
    return SeenScheduler(who, file, "/etc/tidegauge.yml", EPOCH)


def set_fired(ledger: Ledger, schedule: FlowSchedule, fired: datetime, pipeline: str = "shop") -> None:
    """As if that time had been dealt with last."""

    def rule(state: FlowState, now: datetime) -> StateChange:
        ticks = replace(state.ticks.schedules[str(schedule)], fired=fired)
        book = replace(state.ticks, schedules={**state.ticks.schedules, str(schedule): ticks})
        return StateChange(replace(state, ticks=book))

    ledger._change(pipeline, ALL, rule)


def test_a_suspended_flow_cannot_be_claimed_until_it_is_resumed(ledger_address: str) -> None:
    with open_ledger(ledger_address, create=True) as ledger:
        plan = ledger.plan([draft()], owner=ME, run_id="run")["orders"]
        assert ledger.suspend("shop", "orders", owner=ME, reason="the\0 source moves")
        assert not ledger.suspend("shop", "orders", owner=OTHER, reason="once more")
        [status] = ledger.status("shop")
        assert status.suspended is not None
        assert (status.suspended.actor, status.suspended.reason) == (ME.actor, "the\ufffd source moves")
        assert abs(status.suspended.at - ledger.now()) < timedelta(minutes=10)
        before = everything(ledger)
        with pytest.raises(FlowSuspended, match=r"me@here.*the. source moves") as caught:
            ledger.claim(plan, owner=OTHER, run_id="run 2", lease=MINUTE)
        assert "schedule resume orders" in str(caught.value.hint)
        assert everything(ledger) == before
        assert ledger.resume("shop", "orders", owner=OTHER, reason="it has moved")
        assert not ledger.resume("shop", "orders", owner=OTHER, reason="once more")
        ledger.claim(plan, owner=OTHER, run_id="run 2", lease=MINUTE)
        told = [(one.event, one.actor, one.reason) for one in reversed(ledger.history("shop"))]
        assert told[1:3] == [
            ("suspended", ME.actor, "the\ufffd source moves"),
            ("resumed", OTHER.actor, "it has moved"),
        ]


def test_whoever_holds_a_flow_that_is_suspended_ends_its_plan(ledger_address: str) -> None:
    with open_ledger(ledger_address, create=True) as ledger:
        plan = ledger.plan([draft(batches=1)], owner=ME, run_id="run")["orders"]
        claim = ledger.claim(plan, owner=ME, run_id="run", lease=MINUTE)
        ledger.suspend("shop", "orders", owner=OTHER, reason="wait")
        ledger.begin(claim, 0)
        ledger.advance(claim, 0, receipt(plan, 0))
        ledger.finish(claim, State.SUCCESS)
        [status] = ledger.status("shop")
        assert (status.state, status.suspended is not None) == (State.SUCCESS, True)


def test_a_flow_that_never_ran_and_a_pipeline_can_be_suspended(ledger_address: str) -> None:
    with open_ledger(ledger_address, create=True) as ledger:
        ledger.suspend("shop", "orders", owner=ME, reason="not yet")
        ledger.suspend("shop", ALL, owner=ME, reason="none yet")
        assert [(one.flow, one.suspended is not None) for one in ledger.status("shop")] == [("orders", True)]
        found = {one.flow: one.suspended for one in ledger.status("shop", ["orders", ALL])}
        assert {name: one and one.reason for name, one in found.items()} == {
            ALL: "none yet",
            "orders": "not yet",
        }
        assert {one.flow for one in ledger.history("shop")} == {ALL, "orders"}
        assert ledger.watermarks("shop") == []
        assert ledger.status("garage", [ALL]) == []


def test_a_schedule_begins_when_it_is_first_seen(ledger_address: str) -> None:
    yearly = every(LONG)
    with open_ledger(ledger_address, create=True) as ledger:
        assert ledger.ticks("shop") == SchedulerRecords()
        ledger.join_schedulers("shop", me(), [yearly])
        book = ledger.ticks("shop")
        assert [one.owner for one in book.schedulers] == [ME]
        assert abs(book.schedules[str(yearly)].fired - ledger.now()) < timedelta(minutes=10)
        assert ledger.take_tick("shop", yearly, owner=ME) == Tick(None)
        assert ledger.status("shop") == []
        ledger.leave_schedulers("shop", owner=ME)
        assert ledger.ticks("shop").schedulers == ()


def test_b7_of_eight_schedulers_one_is_given_a_time(ledger_address: str) -> None:
    hourly = every(timedelta(hours=1))
    with open_ledger(ledger_address, create=True) as ledger:
        ledger.join_schedulers("shop", me(), [hourly])
        last = hourly.last(ledger.now())
        set_fired(ledger, hourly, last - timedelta(hours=3))

    def work(ledger: Ledger, number: int) -> tuple[datetime | None, int]:
        who = owner(number)
        ledger.join_schedulers("shop", me(who), [hourly])
        tick = ledger.take_tick("shop", hourly, owner=who)
        return tick.at, tick.missed

    given = [answer for answer in together(ledger_address, work) if answer[0] is not None]
    assert len(given) == 1
    with open_ledger(ledger_address, create=True) as ledger:
        ticks = ledger.ticks("shop").schedules[str(hourly)]
        # The hour may have struck meanwhile; nobody runs twice for all that.
        assert (ticks.fired, ticks.missed) == given[0] or ticks.skipped
        assert ticks.ran == 1
        assert len(ledger.ticks("shop").schedulers) == RACERS + 1


def test_b7_eight_schedulers_share_times_and_run_for_none_twice(ledger_address: str) -> None:
    with open_ledger(ledger_address, create=True) as ledger:
        ledger.join_schedulers("shop", me(), [SECOND])

    def work(ledger: Ledger, number: int) -> list[datetime]:
        who, times = owner(number), []
        ledger.join_schedulers("shop", me(who), [SECOND])
        end = time.monotonic() + 3
        while time.monotonic() < end:
            tick = ledger.take_tick("shop", SECOND, owner=who)
            if tick.at is not None:
                times.append(tick.at)
                ledger.end_tick("shop", SECOND, owner=who)
            time.sleep(0.05)
        return times

    times = [at for answer in together(ledger_address, work) for at in answer]
    assert times
    assert len(times) == len(set(times))
    with open_ledger(ledger_address, create=True) as ledger:
        assert ledger.ticks("shop").schedules[str(SECOND)].ran == len(times)


@pytest.mark.shown_on("sqlite")
def test_times_that_come_while_a_run_is_under_way_are_passed_over_and_counted(ledger_address: str) -> None:
    with open_ledger(ledger_address, create=True) as ledger:
        ledger.join_schedulers("shop", me(), [SECOND])
        ledger.join_schedulers("shop", me(OTHER), [SECOND])
        set_fired(ledger, SECOND, ledger.now() - MINUTE)
        assert ledger.take_tick("shop", SECOND, owner=ME).at is not None
        set_fired(ledger, SECOND, ledger.now() - timedelta(seconds=10))
        tick = ledger.take_tick("shop", SECOND, owner=OTHER)
        assert tick.at is None
        assert tick.skipped >= 10
        ledger.end_tick("shop", SECOND, owner=OTHER)  # not theirs to end
        assert ledger.ticks("shop").schedules[str(SECOND)].runner == ME
        ledger.end_tick("shop", SECOND, owner=ME)
        ticks = ledger.ticks("shop").schedules[str(SECOND)]
        assert (ticks.runner, ticks.skipped) == (None, tick.skipped)


@pytest.mark.shown_on("sqlite")
def test_a_time_whose_runner_is_gone_is_due_again(ledger_address: str) -> None:
    yearly = every(LONG)
    last = yearly.last(datetime(2026, 1, 1))
    with open_ledger(ledger_address, create=True) as ledger:
        for who in (ME, OTHER):
            ledger.join_schedulers("shop", me(who), [yearly])
        set_fired(ledger, yearly, last - LONG)
        assert ledger.take_tick("shop", yearly, owner=ME).at == last
        assert ledger.take_tick("shop", yearly, owner=OTHER) == Tick(None)
        assert ledger.take_tick("shop", yearly, owner=OTHER, dead=[ME]).at == last
        # One that ends before its run does, and one whose run is not known to itself.
        ledger.leave_schedulers("shop", owner=OTHER)
        assert ledger.take_tick("shop", yearly, owner=ME).at == last
        assert ledger.take_tick("shop", yearly, owner=ME) == Tick(None)
        assert ledger.take_tick("shop", yearly, owner=ME, dead=[ME]).at == last
        ledger.end_tick("shop", yearly, owner=ME)
        assert ledger.take_tick("shop", yearly, owner=ME, dead=[ME]) == Tick(None)


@pytest.mark.shown_on("sqlite")
def test_schedulers_with_different_files_do_not_share_a_pipeline(ledger_address: str) -> None:
    with open_ledger(ledger_address, create=True) as ledger:
        ledger.join_schedulers("shop", me(), [SECOND])
        with pytest.raises(SchedulersDisagree, match=r"me@here \(process 101\).*/etc/tidegauge.yml"):
            ledger.join_schedulers("shop", me(OTHER, "beef"), [every(MINUTE)])
        ledger.join_schedulers("garage", me(OTHER, "beef"), [every(MINUTE)])
        ledger.join_schedulers("shop", me(OTHER, "beef"), [every(MINUTE)], dead=[ME])
        with pytest.raises(SchedulersDisagree, match="other@there"):
            ledger.join_schedulers("shop", me(), [SECOND])
        assert list(ledger.ticks("shop").schedules) == [str(every(MINUTE))]


@pytest.mark.shown_on("sqlite")
def test_a_clock_that_was_set_back_is_followed(ledger_address: str) -> None:
    with open_ledger(ledger_address, create=True) as ledger:
        ledger.join_schedulers("shop", me(), [SECOND])
        set_fired(ledger, SECOND, ledger.now() + timedelta(hours=1))
        assert ledger.take_tick("shop", SECOND, owner=ME) == Tick(None)
        assert ledger.ticks("shop").schedules[str(SECOND)].fired <= ledger.now()


def test_pruning_leaves_suspensions_and_times(ledger_address: str) -> None:
    with open_ledger(ledger_address, create=True) as ledger:
        ledger.suspend("shop", "orders", owner=ME, reason="not yet")
        ledger.suspend("shop", ALL, owner=ME, reason="none yet")
        ledger.join_schedulers("shop", me(), [SECOND])
        book = ledger.ticks("shop")
        ledger.prune(before=ledger.now() + MINUTE, pipeline="shop")
        assert ledger.history("shop") == []
        assert all(one.suspended for one in ledger.status("shop", ["orders", ALL]))
        assert ledger.ticks("shop") == book
        if isinstance(ledger, SqlLedger):
            assert ledger.pipelines() == ["shop"]
