"""A draft is kept only while the flow still stands where the draft was made from."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.contract.test_rebuild import shop
from tests.support.drafts import ME, OTHER, draft, nothing_new, receipt
from tests.support.project import refused
from tidegauge.ledger.open import Ledger, open_ledger
from tidegauge.model.state import State

LEASE = timedelta(seconds=60)


def run_through(ledger: Ledger) -> None:
    """Another runner plans one batch, commits it and ends."""
    plan = ledger.plan([draft(batches=1)], owner=OTHER, run_id="other")["orders"]
    claim = ledger.claim(plan, owner=OTHER, run_id="other", lease=LEASE)
    ledger.begin(claim, 0)
    ledger.advance(claim, 0, receipt(plan, 0))
    ledger.finish(claim, State.SUCCESS)


def test_b7_a_draft_made_before_another_run_ended_is_dropped(ledger_address: str) -> None:
    with open_ledger(ledger_address, create=True) as ledger:
        stale = replace(draft(batches=2), seen=(0, 0))
        run_through(ledger)
        assert ledger.plan([stale], owner=ME, run_id="mine") == {}
        [status] = ledger.status("shop")
        assert (status.state, status.plan) == (State.SUCCESS, None)


@pytest.mark.shown_on("sqlite")
def test_a_stale_look_that_found_nothing_changes_nothing(ledger_address: str) -> None:
    with open_ledger(ledger_address, create=True) as ledger:
        run_through(ledger)
        before = ledger.watermarks("shop")
        ledger.plan([replace(nothing_new(upto=1), seen=(0, 0))], owner=ME, run_id="mine")
        assert ledger.watermarks("shop") == before
        assert [event.event for event in ledger.history("shop", limit=1)] == ["finished"]


@pytest.mark.shown_on("sqlite")
def test_a_draft_that_goes_on_from_the_watermark_is_kept(ledger_address: str) -> None:
    with open_ledger(ledger_address, create=True) as ledger:
        run_through(ledger)
        fresh = replace(draft(start=1, batches=2), seen=(0, 1))
        assert ledger.plan([fresh], owner=ME, run_id="mine")["orders"].first_seq == 2


@pytest.mark.shown_on("sqlite")
def test_a_batch_that_reads_again_leaves_the_watermark_where_it_is(ledger_address: str) -> None:
    with open_ledger(ledger_address, create=True) as ledger:
        run_through(ledger)
        [before] = ledger.watermarks("shop")
        below, last = draft(start=0, batches=2).batches
        lookback = replace(draft(start=0, batches=2), batches=(replace(below, rereads=True), last))
        plan = ledger.plan([lookback], owner=ME, run_id="mine")["orders"]
        claim = ledger.claim(plan, owner=ME, run_id="mine", lease=LEASE)
        ledger.begin(claim, 0)
        ledger.advance(claim, 0, receipt(plan, 0))
        [held] = ledger.watermarks("shop")
        assert (held.position, held.seq) == (before.position, 2)
        ledger.begin(claim, 1)
        ledger.advance(claim, 1, receipt(plan, 1))
        [moved] = ledger.watermarks("shop")
        assert (moved.position, moved.seq) == (last.windows[0].upto, 3)


def test_a_flow_whose_own_row_was_deleted_by_hand_is_refused_with_the_way_out(tmp_path: Path) -> None:
    project = shop(tmp_path)
    assert project.here("run").code == 0
    with sqlite3.connect(project.ledger_file) as connection:
        connection.execute("DELETE FROM flows WHERE flow = 'orders/extract'")
    project.database.insert("orders", [(6, 60, "2025-01-06 12:00:00")])
    refused(project.here("run"), "the ledger contradicts itself", "ledger rebuild --select orders/extract")
    with sqlite3.connect(project.ledger_file) as connection:
        for table in ("flows", "plans", "watermarks", "runs", "history"):
            connection.execute(f"DELETE FROM {table} WHERE flow = 'orders/extract'")
    rebuild = ("ledger", "rebuild", "--select", "orders/extract", "--reason", "a test", "--yes")
    assert project.here(*rebuild).code == 0
    assert project.here("run").code == 0


def test_a_watermark_outlives_its_flow_s_own_row(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    with open_ledger(f"sqlite:///{file}", create=True) as ledger:
        run_through(ledger)
        before = [mark.position for mark in ledger.watermarks("shop")]
        with sqlite3.connect(file) as connection:
            connection.execute("DELETE FROM flows")
        ledger.plan([draft(batches=1)], owner=ME, run_id="mine")
        assert [mark.position for mark in ledger.watermarks("shop")] == before != [None]
