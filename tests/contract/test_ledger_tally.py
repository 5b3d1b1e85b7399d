"""What a flow has done, as every store keeps it: exact counts, files of a lake, and what a reset clears."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.support.drafts import ME, OTHER, draft, nothing_new, receipt
from tidegauge.ledger.open import Ledger, open_ledger
from tidegauge.ledger.tallies import MOST
from tidegauge.model.plan import Draft
from tidegauge.model.run import RunRecord
from tidegauge.model.state import State
from tidegauge.model.watermark import Tally

MINUTE = timedelta(minutes=1)
Changed = tuple[int | None, int | None, int | None]


@pytest.fixture
def ledger(store_address: str) -> Iterator[Ledger]:
    with open_ledger(store_address, create=True) as opened:
        yield opened


def ran(
    ledger: Ledger,
    *batches: Changed,
    start: int = 0,
    paths: tuple[tuple[str, ...], ...] = (),
    made: Draft | None = None,
) -> RunRecord:
    one = made or draft(batches=len(batches), start=start)
    plan = ledger.plan([one], owner=ME, run_id="run")[one.flow]
    claim = ledger.claim(plan, owner=ME, run_id="run", lease=MINUTE)
    for index, changed in enumerate(batches):
        ledger.begin(claim, index)
        taken = paths[index] if paths else ()
        ledger.advance(claim, index, receipt(plan, index, changed=changed, paths=taken))
    ledger.finish(claim, State.SUCCESS)
    return last(ledger)


def last(ledger: Ledger) -> RunRecord:
    [status] = ledger.status("shop")
    assert status.last_run is not None
    return status.last_run


def counts(run: RunRecord) -> Changed:
    return run.rows_inserted, run.rows_updated, run.rows_deleted


def tally(ledger: Ledger) -> Tally:
    return ledger.tallies("shop", ["orders"])["orders"]


def overridden(ledger: Ledger, kind: str) -> None:
    begun = ledger.begin_override("shop", "orders", kind, {}, owner=OTHER, reason="why")
    ledger.end_override("shop", "orders", epoch=begun.epoch)


def test_a_run_counts_what_its_batches_count_and_one_that_cannot_tell_makes_it_unknown(
    ledger: Ledger,
) -> None:
    assert counts(ran(ledger, (7, 2, 1), (0, 0, 0), (3, 4, 0))) == (10, 6, 1)
    assert counts(ran(ledger, (1, 0, None), (None, 2, None), (5, 1, 0), start=3)) == (None, 3, None)
    ledger.plan([nothing_new()], owner=ME, run_id="idle")
    assert counts(last(ledger)) == (0, 0, 0)


@pytest.mark.shown_on("sqlite")
def test_an_attempt_counts_the_batches_that_it_advanced_itself(ledger: Ledger) -> None:
    plan = ledger.plan([draft(batches=2)], owner=ME, run_id="run")["orders"]
    claim = ledger.claim(plan, owner=ME, run_id="run", lease=MINUTE)
    ledger.begin(claim, 0)
    ledger.advance(claim, 0, receipt(plan, 0, changed=(4, 0, 0)))
    ledger.finish(claim, State.FAILED, {"type": "SparkFailed", "message": "no room"})
    assert counts(last(ledger)) == (4, 0, 0)
    claim = ledger.claim(plan, owner=ME, run_id="again", lease=MINUTE)
    ledger.begin(claim, 1)
    ledger.advance(claim, 1, receipt(plan, 1, changed=(1, 2, 3)))
    ledger.finish(claim, State.SUCCESS)
    assert counts(last(ledger)) == (1, 2, 3)
    assert (tally(ledger).rows, tally(ledger).batches) == (20, 2)


def test_a_tally_has_the_newest_thousand_files_and_the_count_of_all(ledger: Ledger) -> None:
    first = tuple(f"s3a://lake/orders/{number}.parquet" for number in range(MOST - 1))
    more = ("/lake/ü'\".parquet", "s3a://lake/orders/last.parquet")
    strategic = replace(draft(batches=2), strategy="intra-table")
    # The second batch replaces the whole table, and so takes the first one's files once more.
    ran(ledger, (1, 0, 0), (1, 0, 0), paths=(first, (*first, *more)), made=strategic)
    found = tally(ledger)
    assert found.loaded == (*first[1:], *more)
    assert (found.loaded_files, found.files, found.strategy) == (MOST + 1, 2, "intra-table")
    assert found.created_at is not None
    assert found.advanced_at is not None
    assert found.updated_at is not None
    assert found.created_at <= found.advanced_at <= found.updated_at
    assert found.seconds >= 0


@pytest.mark.shown_on("sqlite")
def test_what_is_read_again_is_no_new_file(ledger: Ledger) -> None:
    one = draft(batches=1)
    again = replace(one, batches=(replace(one.batches[0], rereads=True),))
    ran(ledger, (0, 0, 0), paths=(("a.parquet",),), made=again)
    assert (tally(ledger).loaded, tally(ledger).loaded_files, tally(ledger).rows) == ((), 0, 10)


@pytest.mark.shown_on("sqlite")
def test_a_reset_begins_a_new_tally_and_an_undo_brings_the_old_one_back(ledger: Ledger) -> None:
    ran(ledger, (1, 0, 0), paths=(("a.parquet",),))
    before = tally(ledger)
    assert (before.rows, before.manual) == (10, False)
    overridden(ledger, "reset")
    cleared = replace(tally(ledger), created_at=None, updated_at=None)
    assert cleared == Tally()
    overridden(ledger, "undo")
    assert replace(tally(ledger), updated_at=before.updated_at) == before
    overridden(ledger, "set")
    assert tally(ledger) == replace(before, manual=True, updated_at=tally(ledger).updated_at)
    ran(ledger, (1, 0, 0), paths=(("b.parquet",),), start=1)
    assert (tally(ledger).manual, tally(ledger).loaded) == (False, ("a.parquet", "b.parquet"))


@pytest.mark.shown_on("sqlite")
def test_a_flow_that_the_ledger_has_not_heard_of_has_no_tally(ledger: Ledger) -> None:
    assert ledger.tallies("shop", ["orders"]) == {}


@pytest.mark.shown_on("sqlite")
def test_more_files_than_are_remembered_are_counted_once(ledger: Ledger) -> None:
    every = tuple(f"{number}.parquet" for number in range(2 * MOST))
    ran(ledger, (1, 0, 0), paths=(every,))
    ran(ledger, (1, 0, 0), paths=((*every, "last.parquet"),), start=1)
    found = tally(ledger)
    assert (found.loaded_files, found.loaded[-2:]) == (2 * MOST + 1, (every[-1], "last.parquet"))
    assert len(found.loaded) == MOST
