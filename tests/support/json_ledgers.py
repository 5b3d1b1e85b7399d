"""A JSON ledger for tests, opened in a folder or over a store, and runs recorded in it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import cast

from tests.support.drafts import ME, draft, receipt
from tidegauge.ledger.document_ledger import DocumentLedger
from tidegauge.ledger.json_store import JsonDocumentStore
from tidegauge.ledger.open import open_ledger
from tidegauge.model.state import State
from tidegauge.storage.store import Store

MINUTE = timedelta(minutes=1)
RUN = ["planned", "claimed", "advanced", "advanced", "finished"]


def opened(folder: Path) -> DocumentLedger:
    ledger = open_ledger(f"json:{folder}", create=True)
    assert isinstance(ledger, DocumentLedger)
    return ledger


def over(store: object) -> DocumentLedger:
    return DocumentLedger(JsonDocumentStore(cast(Store, store), "json:wrapped"))


def ran(ledger: DocumentLedger, flow: str = "orders", *, pipeline: str = "shop", start: int = 0) -> None:
    one = draft(flow, pipeline=pipeline, batches=2, start=start)
    plan = ledger.plan([one], owner=ME, run_id=f"run {start}")[flow]
    claim = ledger.claim(plan, owner=ME, run_id=f"run {start}", lease=MINUTE)
    for index in range(2):
        ledger.begin(claim, index)
        ledger.advance(claim, index, receipt(plan, index, rows=500))
    ledger.finish(claim, State.SUCCESS)


def events(ledger: DocumentLedger, flow: str | None = None) -> list[str]:
    return [event.event for event in reversed(ledger.history("shop", flow=flow, limit=10_000))]
