"""The dashboard without a server: pages as files, and one run in one file."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from html import unescape
from pathlib import Path

from tests.support.dashboard import HOSTILE, make_project
from tests.support.dashboard import ledger_place as ledger_place
from tests.support.dashboard import shop as shop
from tests.support.drafts import ME
from tests.support.project import here
from tidegauge.ledger.open import Ledger, open_ledger


def test_the_site_has_every_page_and_no_link_that_leads_nowhere(shop: Path) -> None:
    site = shop / "site"
    done = here("report", "--project", shop, "--out", site, "--json")
    assert done.code == 0, done.said
    assert set(done.json["files"]) == {one.name for one in site.iterdir()} - {"tidegauge-report.json"}
    pages = list(site.glob("*.html"))
    assert len(pages) == 5 + 2 * 4 + 2  # five of the whole, two for each flow, one for each run
    for page in pages:
        text = page.read_text()
        assert HOSTILE not in text
        assert 'data-events=""' in text
        for where in re.findall(r'(?:href|src|action)="([^"]*)"', text):
            address, _, mark = unescape(where).partition("#")
            assert address == "" or (site / address).is_file(), (page.name, where)
            assert not mark or f'id="{mark}"' in text, (page.name, where)
    assert json.loads(next(site.glob("run-one-*.json")).read_text())["run_id"] == "one"


def test_a_report_over_a_report_leaves_nothing_of_the_old_one(shop: Path) -> None:
    site = shop / "site"
    assert here("report", "--project", shop, "--out", site).code == 0
    assert len(list(site.glob("flow-idle-*"))) == 1
    with open_ledger(f"sqlite:///{shop / 'ledger.db'}", create=False) as ledger:
        assert isinstance(ledger, Ledger)
        ledger.forget("shop", "idle", owner=ME, reason="not needed")
    assert here("report", "--project", shop, "--out", site).code == 0
    assert list(site.glob("flow-idle-*")) == []


def test_a_folder_with_something_else_is_left_alone(shop: Path) -> None:
    refused = here("report", "--project", shop, "--out", shop)
    assert refused.code == 2
    assert "holds no report" in refused.err
    assert not (shop / "index.html").exists()
    # A list that leads out of the folder removes nothing there.
    site, precious = shop / "site", shop / "precious"
    precious.write_text("kept")
    site.mkdir()
    (site / "tidegauge-report.json").write_text('{"files": ["../precious", "..", 7]}')
    assert here("report", "--project", shop, "--out", site).code == 0
    assert precious.read_text() == "kept"


def test_a_run_writes_a_page_of_its_own(tmp_path: Path) -> None:
    make_project(tmp_path)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as app:
        app.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, at TEXT)")
        app.execute("INSERT INTO orders VALUES (1, '2026-01-01 00:00:00')")
        app.commit()
    file = tmp_path / "run.html"
    for _ in range(2):
        ran = here("run", "--project", tmp_path, "--json", "--report", file)
        assert ran.code == 0, ran.said
        text = file.read_text()
        assert ran.json["run_id"] in text
        assert "orders" in text
        assert not re.search(r"<script|<link|href=\"[^#]|src=|https?://", text)
    refused = here("run", "--project", tmp_path, "--report", tmp_path / "never" / "run.html")
    assert refused.code == 2
    assert "there is no folder" in refused.err


def test_a_run_that_begins_nothing_has_a_page_that_says_why(tmp_path: Path) -> None:
    make_project(tmp_path)
    file = tmp_path / "run.html"
    ran = here("run", "--project", tmp_path, "--report", file)
    text = file.read_text()
    assert "Nothing was begun" in text
    assert ran.code in (0, 1)
    assert "Traceback" not in text
