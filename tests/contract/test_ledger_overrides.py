"""Changes by hand: begun, ended, undone, and seen by nobody half-done. On every store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.support.drafts import ME, OTHER, draft, position, receipt
from tidegauge.errors import LeaseLost, WrongState
from tidegauge.ledger.open import open_ledger
from tidegauge.model.claim import Claim
from tidegauge.model.plan import Plan
from tidegauge.model.protocols.ledger import LedgerWriter
from tidegauge.model.state import State
from tidegauge.model.watermark import Recalled, Watermark

MINUTE = timedelta(minutes=1)


@pytest.fixture
def ledger(ledger_address: str) -> Iterator[LedgerWriter]:
    with open_ledger(ledger_address, create=True) as opened:
        yield opened


def claimed(ledger: LedgerWriter, *, start: int = 0, batches: int = 3) -> Claim:
    plan = ledger.plan([draft(start=start, batches=batches)], owner=ME, run_id="run")["orders"]
    return ledger.claim(plan, owner=ME, run_id="run", lease=MINUTE)


def advanced(ledger: LedgerWriter, claim: Claim, batches: int) -> None:
    for index in range(claim.plan.done, batches):
        ledger.begin(claim, index)
        ledger.advance(claim, index, receipt(claim.plan, index))


def ran(ledger: LedgerWriter, *, start: int = 0) -> Plan:
    claim = claimed(ledger, start=start)
    advanced(ledger, claim, 3)
    ledger.finish(claim, State.SUCCESS)
    return claim.plan


def mark(ledger: LedgerWriter) -> Watermark:
    [one] = ledger.watermarks("shop", ["orders"])
    return one


def overridden(ledger: LedgerWriter, kind: str, to: int | None = None, reason: str = "because") -> None:
    positions = {} if kind in ("reset", "undo") else {"orders": position(to) if to else None}
    begun = ledger.begin_override("shop", "orders", kind, positions, owner=OTHER, reason=reason)
    ledger.end_override("shop", "orders", epoch=begun.epoch)


@pytest.mark.shown_on("sqlite")
def test_a_reset_begins_a_new_life_at_the_beginning(ledger: LedgerWriter) -> None:
    ran(ledger)
    overridden(ledger, "reset", reason="the table was loaded anew")
    assert (mark(ledger).position, mark(ledger).epoch, mark(ledger).seq) == (None, 1, 0)
    assert mark(ledger).source_id is None
    [status] = ledger.status("shop")
    assert (status.state, status.override) == (State.READY, None)
    event = next(one for one in ledger.history("shop") if one.event == "reset")
    assert (event.actor, event.reason) == (OTHER.actor, "the table was loaded anew")
    assert (event.before, event.after) == (position(3), None)
    assert ran(ledger).tag(0).epoch == 1
    assert (mark(ledger).position, mark(ledger).seq) == (position(3), 3)


@pytest.mark.shown_on("sqlite")
def test_a_set_moves_the_watermark_and_says_what_the_new_life_goes_on_from(ledger: LedgerWriter) -> None:
    ran(ledger)
    begun = ledger.begin_override(
        "shop", "orders", "set", {"orders": position(1)}, owner=ME, reason="again from one"
    )
    assert (begun.epoch, begun.continues) == (1, (0, 3))
    [status] = ledger.status("shop")
    assert status.override == begun
    ledger.end_override("shop", "orders", epoch=1)
    ledger.end_override("shop", "orders", epoch=1)  # repeatable
    assert (mark(ledger).position, mark(ledger).epoch) == (position(1), 1)


def test_an_override_supersedes_the_plan_and_stops_whoever_runs_it(ledger: LedgerWriter) -> None:
    claim = claimed(ledger)
    advanced(ledger, claim, 1)
    ledger.begin(claim, 1)
    begun = ledger.begin_override("shop", "orders", "reset", {}, owner=OTHER, reason="anew")
    with pytest.raises(LeaseLost):
        ledger.advance(claim, 1, receipt(claim.plan, 1))
    with pytest.raises(LeaseLost):
        ledger.renew(claim, MINUTE)
    with pytest.raises(LeaseLost):
        ledger.finish(claim, State.SUCCESS)
    ledger.end_override("shop", "orders", epoch=begun.epoch)
    with pytest.raises(LeaseLost):
        ledger.advance(claim, 1, receipt(claim.plan, 1))
    [status] = ledger.status("shop")
    assert (status.plan, status.state) == (None, State.READY)
    found = ledger.find_plan(claim.plan.plan_id)
    assert found == ("shop", "orders", False)
    assert mark(ledger).position is None
    assert status.last_run is not None
    assert status.last_run.state is State.FAILED
    assert status.last_run.error is not None
    assert "superseded" in status.last_run.error["message"]


@pytest.mark.shown_on("sqlite")
def test_while_an_override_is_begun_nothing_is_planned_or_claimed(ledger: LedgerWriter) -> None:
    plan = ledger.plan([draft()], owner=ME, run_id="run")["orders"]
    begun = ledger.begin_override("shop", "orders", "reset", {}, owner=OTHER, reason="anew")
    assert ledger.plan([draft()], owner=ME, run_id="run") == {}
    with pytest.raises(WrongState, match="has not ended") as caught:
        ledger.claim(plan, owner=ME, run_id="run", lease=MINUTE)
    assert caught.value.retryable
    with pytest.raises(WrongState, match="has not ended"):
        ledger.begin_override("shop", "orders", "reset", {}, owner=ME, reason="me too")
    ledger.end_override("shop", "orders", epoch=begun.epoch)
    assert ledger.plan([draft()], owner=ME, run_id="run")["orders"].epoch == 1


def test_undo_brings_back_what_the_last_override_replaced_once(ledger: LedgerWriter) -> None:
    ran(ledger)
    overridden(ledger, "reset")
    other = draft()
    [part] = other.inputs
    other = replace(other, inputs=(replace(part, source_id="made anew", fingerprint="beef"),))
    ledger.plan([other], owner=ME, run_id="run")
    assert mark(ledger).source_id == "made anew"
    begun = ledger.begin_override("shop", "orders", "undo", {}, owner=ME, reason="by mistake")
    assert (begun.epoch, begun.continues) == (2, (0, 3))
    assert begun.positions == {"orders": position(3)}
    ledger.end_override("shop", "orders", epoch=2)
    assert (mark(ledger).position, mark(ledger).epoch, mark(ledger).seq) == (position(3), 2, 0)
    # Of the table it was then, whatever has been read under the name since.
    assert (mark(ledger).source_id, mark(ledger).fingerprint) == ("db/orders", "f00d")
    with pytest.raises(WrongState, match="no override to undo"):
        ledger.begin_override("shop", "orders", "undo", {}, owner=ME, reason="again")


@pytest.mark.shown_on("sqlite")
def test_a_flow_that_was_never_run_can_be_given_a_position(ledger: LedgerWriter) -> None:
    overridden(ledger, "import", 5)
    assert (mark(ledger).position, mark(ledger).epoch) == (position(5), 1)
    plan = ledger.plan([draft(start=5)], owner=ME, run_id="run")["orders"]
    assert (plan.epoch, plan.first_seq) == (1, 1)
    assert mark(ledger).cursor == "timestamp"


@pytest.mark.shown_on("sqlite")
def test_a_secret_in_a_reason_is_masked(ledger: LedgerWriter) -> None:
    from tidegauge.model.secret import remember

    remember("hunter2-hunter2")
    ran(ledger)
    overridden(ledger, "reset", reason="password was hunter2-hunter2")
    assert all("hunter2-hunter2" not in (one.reason or "") for one in ledger.history("shop"))


def test_a29_what_is_forgotten_leaves_its_history_and_nothing_to_go_on_from(ledger: LedgerWriter) -> None:
    ran(ledger)
    ledger.forget("shop", "orders", owner=OTHER, reason="its table was dropped")
    assert ledger.watermarks("shop") == []
    [status] = ledger.status("shop")
    assert (status.state, status.plan) == (State.READY, None)
    assert status.undo is not None
    assert status.undo.forgot
    event = ledger.history("shop", limit=1)[0]
    assert (event.event, event.actor, event.reason) == ("forgotten", OTHER.actor, "its table was dropped")
    assert (event.input, event.before, event.after) == ("orders", position(3), None)
    # Whoever looked before that, and whoever finds the table there again, plans nothing.
    again = replace(draft(start=3), seen=(0, 3))
    assert ledger.plan([again, draft("items")], owner=ME, run_id="run").keys() == {"items"}
    assert ledger.watermarks("shop", ["orders"]) == []


@pytest.mark.shown_on("sqlite")
def test_a29_who_works_on_what_is_forgotten_loses_it_and_no_tag_is_used_again(ledger: LedgerWriter) -> None:
    ran(ledger)
    claim = claimed(ledger, start=3)
    advanced(ledger, claim, 1)
    ledger.begin(claim, 1)
    ledger.forget("shop", "orders", owner=OTHER, reason="gone")
    with pytest.raises(LeaseLost):
        ledger.advance(claim, 1, receipt(claim.plan, 1))
    with pytest.raises(LeaseLost):
        ledger.finish(claim, State.SUCCESS)
    assert ledger.find_plan(claim.plan.plan_id) == ("shop", "orders", False)
    begun = ledger.begin_override("shop", "orders", "reset", {"orders": None}, owner=ME, reason="back")
    ledger.end_override("shop", "orders", epoch=begun.epoch)
    plan = ledger.plan([draft()], owner=ME, run_id="run")["orders"]
    assert plan.tag(0).epoch == 1
    assert mark(ledger).position is None


@pytest.mark.shown_on("sqlite")
def test_a29_undo_brings_back_what_was_forgotten(ledger: LedgerWriter) -> None:
    ran(ledger)
    ledger.forget("shop", "orders", owner=ME, reason="by mistake")
    ledger.forget("shop", "orders", owner=ME, reason="and once more")
    begun = ledger.begin_override("shop", "orders", "undo", {}, owner=ME, reason="it is back")
    assert (begun.epoch, begun.continues) == (1, (0, 3))
    ledger.end_override("shop", "orders", epoch=1)
    assert (mark(ledger).position, mark(ledger).epoch, mark(ledger).seq) == (position(3), 1, 0)
    assert (mark(ledger).source_id, mark(ledger).fingerprint) == ("db/orders", "f00d")
    assert ran(ledger, start=3).epoch == 1


def test_a29_rebuild_brings_back_what_was_forgotten(ledger: LedgerWriter) -> None:
    ran(ledger)
    ledger.forget("shop", "orders", owner=ME, reason="gone")
    found = {"orders": Recalled("timestamp", position(3))}
    assert ledger.rebuild("shop", "orders", found, 0, 3, owner=ME, reason="it is back")
    assert (mark(ledger).position, mark(ledger).epoch, mark(ledger).seq) == (position(3), 0, 3)
    assert ran(ledger, start=3).first_seq == 4


@pytest.mark.shown_on("sqlite")
def test_a29_an_override_begun_and_not_ended_is_forgotten_with_its_epoch(ledger: LedgerWriter) -> None:
    ran(ledger)
    ledger.begin_override("shop", "orders", "refresh", {}, owner=ME, reason="anew")
    ledger.forget("shop", "orders", owner=ME, reason="gone")
    [status] = ledger.status("shop")
    assert status.override is None
    ledger.end_override("shop", "orders", epoch=1)  # who had begun it, and wakes up
    assert ledger.watermarks("shop") == []
    assert ledger.plan([draft()], owner=ME, run_id="run") == {}
    begun = ledger.begin_override("shop", "orders", "reset", {"orders": None}, owner=ME, reason="back")
    assert begun.epoch == 2


@pytest.mark.shown_on("sqlite")
def test_a29_a_flow_that_had_delivered_nothing_is_forgotten_and_may_begin(ledger: LedgerWriter) -> None:
    ledger.refuse("shop", "orders", {"message": "no key"}, owner=ME, run_id="run")
    ledger.forget("shop", "orders", owner=ME, reason="gone")
    assert ran(ledger).tag(0).epoch == 0
    assert mark(ledger).seq == 3
    assert ran(ledger, start=3).first_seq == 4


def test_an_override_of_what_has_moved_since_it_was_looked_at_is_refused(ledger: LedgerWriter) -> None:
    """Two people look, both agree, and only one of them saw what is there."""
    ran(ledger)
    [seen] = ledger.status("shop", ["orders"])

    def reset() -> None:
        begun = ledger.begin_override(
            "shop", "orders", "reset", {}, owner=ME, reason="anew", expected=seen.revision
        )
        ledger.end_override("shop", "orders", epoch=begun.epoch)

    ledger.plan([draft(start=3)], owner=OTHER, run_id="run")
    with pytest.raises(WrongState, match="orders has moved"):
        reset()
    [seen] = ledger.status("shop", ["orders"])
    reset()
    with pytest.raises(WrongState, match="orders has moved"):
        reset()
    assert len(ledger.history("shop", events=["reset"])) == 1
