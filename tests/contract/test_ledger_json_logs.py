"""The logs of a JSON ledger: what is moved there, in which order it is read, and what pruning leaves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.drafts import ME, OTHER, draft, nothing_new, receipt
from tests.support.json_ledgers import MINUTE, RUN, events, opened, ran
from tidegauge.errors import LedgerError, LedgerUnreachable
from tidegauge.ledger.document_ledger import DocumentLedger
from tidegauge.ledger.document_store import Entry
from tidegauge.model.plan import Draft
from tidegauge.model.state import State


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def ledger(folder: Path) -> Iterator[DocumentLedger]:
    with opened(folder) as found:
        yield found


def test_b2_a_move_to_the_logs_that_was_cut_off_doubles_nothing(
    ledger: DocumentLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is cut off after each of its steps in turn, and repeated by the next run."""
    documents = cast(Any, ledger._documents)
    for number, dies in enumerate(("history", "runs", "plans", None)):

        def append(log: str, entries: list[Entry], dies: str | None = dies) -> None:
            type(documents).append(documents, log, entries)
            if log == dies:
                raise LedgerUnreachable("the line is dead")

        monkeypatch.setattr(documents, "append", append)
        ran(ledger, start=2 * number)
        assert events(ledger) == RUN * (number + 1)
    assert not any(stored_flow.body["outbox"] for stored_flow in documents.load("shop").stored_flows.values())
    assert [entry["kind"] for entry in documents.read("runs", "shop")] == ["SUCCESS"] * 4
    assert [entry["kind"] for entry in documents.read("plans", "shop")] == ["SUCCESS"] * 4
    assert len({entry["id"] for entry in documents.read("history", "shop")}) == len(RUN) * 4


def entry(n: int, at: datetime, flow: str = "orders", kind: str = "advanced") -> Entry:
    text = at.isoformat(timespec="microseconds")
    return {"id": f"{flow}-{n}", "n": n, "pipeline": "shop", "flow": flow, "at": text, "kind": kind}


def test_the_newest_entries_come_first_over_days_flows_and_long_runs(ledger: DocumentLedger) -> None:
    documents = ledger._documents
    start = datetime(2026, 3, 1, 23, 30)
    long = [entry(n, start + timedelta(minutes=n), "long") for n in range(1, 200)]
    short = [entry(n, start + timedelta(minutes=40 * n, seconds=1), "short", "failed") for n in range(1, 5)]
    for part in range(0, 199, 20):
        documents.append("history", long[: part + 20])  # again and again what is there already
    documents.append("history", short)
    everything = sorted([*long, *short], key=lambda one: str(one["at"]), reverse=True)
    assert documents.read("history", "shop") == everything
    for limit in (1, 2, 17, 100):
        assert documents.read("history", "shop", limit=limit) == everything[:limit]
        assert documents.read("history", "shop", flow="long", limit=limit) == long[::-1][:limit]
    assert documents.read("history", "shop", kinds=["failed"], limit=2) == short[::-1][:2]
    assert documents.read("history", "other") == []


def test_pruning_takes_what_is_old_and_leaves_what_is_kept(ledger: DocumentLedger) -> None:
    documents = ledger._documents
    start = datetime(2026, 3, 1, 12)
    entries = [entry(n, start + timedelta(minutes=n)) for n in range(60)]
    documents.append("runs", entries)
    before = start + timedelta(minutes=33)
    assert documents.prune("runs", "shop", before, keep={"orders-0", "orders-7"}) == 31
    left = [one["n"] for one in reversed(documents.read("runs", "shop"))]
    assert left == [0, 7, *range(33, 60)]
    assert documents.prune("runs", "shop", before, keep={"orders-0", "orders-7"}) == 0
    assert documents.prune("runs", "shop", before + timedelta(days=1)) == 29
    assert documents.read("runs", "shop") == []


def test_many_idle_looks_are_moved_to_the_logs_in_time(ledger: DocumentLedger, folder: Path) -> None:
    for number in range(80):
        ledger.plan([nothing_new(upto=number + 1)], owner=ME, run_id=f"run {number}")
    [stored_flow] = ledger._documents.load("shop").stored_flows.values()
    assert sum(map(len, stored_flow.body["outbox"].values())) < 64
    assert events(ledger) == ["skipped"] * 80
    assert (folder / "watermarks" / "orders.json").stat().st_size < 60_000


def test_a_taken_over_run_is_in_the_log_once(ledger: DocumentLedger) -> None:
    one: Draft = draft(batches=1)
    plan = ledger.plan([one], owner=ME, run_id="run")["orders"]
    ledger.claim(plan, owner=ME, run_id="run", lease=timedelta(0))
    claim = ledger.claim(plan, owner=OTHER, run_id="run 2", lease=MINUTE)
    ledger.begin(claim, 0)
    ledger.advance(claim, 0, receipt(plan, 0))
    ledger.finish(claim, State.SUCCESS)
    ended = [(run["attempt"], run["kind"]) for run in ledger._documents.read("runs", "shop")]
    assert ended == [(2, "SUCCESS"), (1, "FAILED")]


def test_pruning_clears_away_what_killed_writers_left(ledger: DocumentLedger, folder: Path) -> None:
    ran(ledger)
    old, new = (folder / "watermarks" / f".{name}.tmp" for name in ("old", "new"))
    for left in (old, new):
        left.write_text("half")
    os.utime(old, (0, 0))
    ledger.prune(before=ledger.now() - timedelta(days=30))
    assert (old.exists(), new.exists()) == (False, True)
    assert [status.state for status in ledger.status("shop")] == [State.SUCCESS]


def test_a_damaged_segment_of_a_log_is_named_and_holds_no_run_up(
    ledger: DocumentLedger, folder: Path
) -> None:
    ran(ledger)
    [file] = (folder / "history").rglob("*.json")
    body = file.read_bytes()
    file.write_bytes(body[: len(body) // 2])
    with pytest.raises(LedgerError) as caught:
        ledger.history("shop")
    assert str(file) in caught.value.message
    ran(ledger, start=2)
    assert ledger.watermarks("shop")[0].seq == 4
