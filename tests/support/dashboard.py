"""A project whose ledger has flows in every state, for the dashboard's pages."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.drafts import ME, draft, nothing_new, receipt
from tidegauge.ledger.open import Ledger, open_ledger
from tidegauge.ledger.owner import this_process
from tidegauge.model.claim import Owner
from tidegauge.model.state import State

HOSTILE = "<script>alert(1)</script>\"'&"
MINUTE = timedelta(minutes=1)
GONE = Owner(this_process().actor, this_process().host, 2**22 + 1, "1")
"""A process of this machine that does not exist any more."""


def make_project(folder: Path) -> Path:
    """Write a project whose ledger is at `$LEDGER`, by default a file in the project's folder."""
    (folder / "tidegauge.yml").write_text(
        "pipeline: shop\nledger: '${env:LEDGER}'\n"
        "connections: {app: {type: sqlite, path: shop.db}, dw: {type: duckdb, path: dw.duckdb}}\n"
        "sync: [{from: app, to: dw, tables: ['*'], cursor: at, mode: merge, settle: 0s, tags: [daily]}]\n"
    )
    return folder


def fill(ledger: Ledger) -> None:
    """Let orders succeed, items fail half-way, late stay claimed by a dead process, idle find nothing new."""
    names = ("orders", "items", "late")
    plans = ledger.plan([draft(name) for name in names], owner=ME, run_id="one")
    for name, batches in (("orders", 3), ("items", 1), ("late", 1)):
        owner = GONE if name == "late" else ME
        claim = ledger.claim(plans[name], owner=owner, run_id="one", lease=MINUTE)
        for index in range(batches):
            ledger.begin(claim, index)
            ledger.advance(claim, index, receipt(plans[name], index))
        if name == "orders":
            ledger.finish(claim, State.SUCCESS)
        if name == "items":
            ledger.finish(claim, State.FAILED, {"type": "Boom", "message": HOSTILE, "hint": "mend it"})
    ledger.plan([nothing_new("idle")], owner=ME, run_id="two")
    ledger.note("shop", "orders", "verified", owner=ME, reason="equal: source 3 rows", rows=3)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    make_project(tmp_path)
    with open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}", create=True) as ledger:
        fill(ledger)
    return tmp_path


@pytest.fixture(autouse=True)
def ledger_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER", "sqlite:///ledger.db")
