"""The dashboard in a real browser, over a ledger that real runs make."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By

from tests.support.browser import AXE, complaints, find_barriers, look_like, open_browser
from tests.support.dashboard import HOSTILE
from tests.support.project import here, start, until
from tidegauge.config.load import load_project
from tidegauge.dashboard.app import make_app
from tidegauge.dashboard.server import open_socket, serve
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import this_process
from tidegauge.model.state import State

ROWS = 20_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    with open_browser() as opened:
        look_like(opened)
        yield opened


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables that ran and were compared, of which one has many batches still to come."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "tidegauge.yml").write_text(
        "pipeline: shop\nledger: sqlite:///ledger.db\n"
        "connections: {app: {type: sqlite, path: shop.db}, dw: {type: duckdb, path: dw.duckdb}}\n"
        "sync: [{from: app, to: dw, tables: ['*'], cursor: at, mode: merge, settle: 0s, batch_rows: 500}]\n"
    )
    hostile = '"' + HOSTILE.replace('"', '""') + '"'
    with closing(sqlite3.connect(folder / "shop.db")) as app:
        for table in ("orders", hostile):
            app.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, at TEXT)")
            app.execute(f"INSERT INTO {table} VALUES (1, '2026-01-01 00:00:00')")
        app.commit()
    assert here("run", "--project", folder).code == 0
    assert here("verify", "--project", folder).code == 0
    with closing(sqlite3.connect(folder / "shop.db")) as app:
        rows = [(number, f"2026-02-01 {number // 3600:02d}:00:00") for number in range(2, ROWS)]
        app.executemany("INSERT INTO orders VALUES (?, ?)", rows)
        app.commit()
    return folder


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    listening = open_socket("127.0.0.1", 0)
    end = serve(make_app(load_project(folder / "tidegauge.yml"), acts=True), listening)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        end()


@pytest.fixture(scope="module")
def pages(shop: Path) -> Iterator[str]:
    with serving(shop) as address:
        yield address


def seen(browser: Chrome, words: str) -> bool:
    """On the page, now. A page that is being fetched again has nothing to read for a moment."""
    return words in str(browser.execute_script("return document.getElementById('main').innerText"))


def texts(browser: Chrome, selector: str) -> list[str]:
    """Of all that it means, read at once: the page may be fetched again between two looks."""
    script = "return [...document.querySelectorAll(arguments[0])].map(one => one.innerText)"
    return [str(text) for text in browser.execute_script(script, selector)]


def test_every_page_opens_without_a_word_from_the_console(browser: Chrome, pages: str) -> None:
    browser.get(pages)
    complaints(browser)
    found = {"/", "/runs", "/graph", "/proofs", "/history"}
    todo = list(found)
    opened = set()
    while todo:
        path = todo.pop()
        browser.get(pages + path)
        opened.add(path.split("?")[0])
        assert complaints(browser) == [], path
        assert browser.find_elements(By.CSS_SELECTOR, ".trouble") == [], path
        # As a phone shows it, no page is wider than the screen; what is wide scrolls by itself.
        look_like(browser, phone=True)
        wide = browser.execute_script("return document.documentElement.scrollWidth - innerWidth")
        look_like(browser)
        assert wide <= 0, path
        links = browser.execute_script(
            "return [...document.querySelectorAll('main a[href]')].map(one => one.getAttribute('href'))"
        )
        for link in links:
            kind = link.split("?")[0]
            if (
                link.startswith("/")
                and not link.endswith(".json")
                and kind not in {one.split("?")[0] for one in found}
            ):
                found.add(link)
                todo.append(link)
    assert opened >= {"/", "/flow", "/gaps", "/run", "/runs", "/graph", "/proofs", "/history"}


def test_a_hostile_name_is_shown_and_not_run(browser: Chrome, pages: str) -> None:
    browser.get(pages)
    names = texts(browser, "a.flow")
    assert HOSTILE in names
    browser.find_element(By.PARTIAL_LINK_TEXT, "alert(1)").click()
    assert HOSTILE in browser.find_element(By.TAG_NAME, "h1").text
    assert HOSTILE in browser.title
    assert complaints(browser) == []


def test_times_are_in_the_zone_of_the_viewer(browser: Chrome, pages: str) -> None:
    browser.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Kolkata"})
    browser.get(f"{pages}/runs")
    time = browser.find_element(By.CSS_SELECTOR, "main time")
    utc, local = str(time.get_attribute("title")), time.text
    browser.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "UTC"})
    minutes = [int(text[14:16]) for text in (utc, local)]
    assert (minutes[1] - minutes[0]) % 60 == 30
    assert utc.endswith(" UTC")


def test_the_filter_finds_while_one_types_and_the_keyboard_reaches_all(browser: Chrome, pages: str) -> None:
    browser.get(pages)
    field = browser.find_element(By.ID, "q")
    field.send_keys("ord")
    until(lambda: len(browser.find_elements(By.CSS_SELECTOR, "tbody tr")) == 1, seconds=30)
    assert browser.current_url.endswith("?text=ord")
    assert browser.switch_to.active_element == field
    field.send_keys("zz")
    until(lambda: seen(browser, "None of the 2 flows is selected"), seconds=30)
    browser.get(pages)
    reached = set()
    for _ in range(40):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        at = browser.switch_to.active_element
        reached.add(at.text or at.get_attribute("id"))
        outlined = at.value_of_css_property("outline-style") != "none"
        assert outlined or at.tag_name in ("body", "html", "main"), at.get_attribute("outerHTML")
    assert {"to the content", "runs", "q", "orders"} <= reached


def test_a_piece_of_the_gap_map_leads_to_what_is_behind_it(browser: Chrome, pages: str) -> None:
    browser.get(f"{pages}/gaps?name=orders")
    assert not seen(browser, "advanced")
    browser.execute_script(
        "document.querySelector('svg.lane a').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    until(lambda: seen(browser, "advanced"), seconds=30)
    assert seen(browser, "tidegauge watermark reset --select orders")


def test_a_killed_run_is_seen_live_and_so_is_its_end(browser: Chrome, shop: Path, pages: str) -> None:
    def state() -> tuple[State, int]:
        with open_ledger(f"sqlite:///{shop / 'ledger.db'}", create=False) as ledger:
            [status] = ledger.status("shop", ["orders"])
            return status.state, status.plan.done if status.plan else 0

    browser.get(f"{pages}/flow?name=orders")
    until(lambda: browser.find_element(By.ID, "live").text == "live", seconds=30)
    victim = start("run", "--project", shop, "--select", "orders")
    try:
        until(lambda: state()[0] is State.RUNNING and state()[1] > 1, every=0.02)
        os.kill(victim.pid, signal.SIGSTOP)
        until(lambda: seen(browser, "running") and seen(browser, "Left to do"), seconds=60)
        assert not seen(browser, "gone")
    finally:
        victim.kill()
        victim.communicate()
    until(lambda: seen(browser, "stuck") and seen(browser, "gone; the next run takes over"), seconds=60)
    assert here("run", "--project", shop).code == 0
    until(lambda: not seen(browser, "stuck") and not seen(browser, "The plan"), seconds=60)
    assert seen(browser, "success")
    assert complaints(browser) == []


def test_a_reset_is_done_by_clicking_and_found_in_the_history(
    browser: Chrome, shop: Path, pages: str
) -> None:
    browser.get(f"{pages}/flow?name=orders")
    browser.find_element(By.LINK_TEXT, "reset watermark").click()
    browser.find_element(By.CSS_SELECTOR, "form.act button").click()
    until(lambda: seen(browser, "rows read again"), seconds=120)
    browser.find_element(By.CSS_SELECTOR, "form.act button").click()
    assert "/action" in browser.current_url, "the browser does not send a form without a reason"
    browser.find_element(By.ID, "reason").send_keys("the zone was <i>wrong</i>")
    browser.find_element(By.CSS_SELECTOR, "form.act button").click()
    until(lambda: seen(browser, "first of epoch 1"), seconds=120)
    browser.find_element(By.LINK_TEXT, "history").click()
    until(lambda: "/history" in browser.current_url, seconds=120)
    [row] = [one for one in texts(browser, ".events tbody tr") if "the beginning" in one and "reset" in one]
    assert "the zone was <i>wrong</i>" in row
    assert this_process().actor in row
    assert complaints(browser) == []


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 tables of which one cannot be loaded, by one real run."""
    folder = tmp_path_factory.mktemp("many")
    (folder / "tidegauge.yml").write_text(
        "pipeline: many\nledger: sqlite:///ledger.db\n"
        "connections: {app: {type: sqlite, path: shop.db}, dw: {type: sqlite, path: dw.db}}\n"
        "sync: [{from: app, to: dw, tables: ['*'], cursor: at, mode: merge, settle: 0s, tags: [daily]}]\n"
    )
    with closing(sqlite3.connect(folder / "shop.db")) as app:
        for number in range(300):
            app.execute(f"CREATE TABLE t{number:03d} (id INTEGER PRIMARY KEY, at TEXT)")
            app.execute(f"INSERT INTO t{number:03d} VALUES (1, '2026-01-01 00:{number % 60:02d}:00')")
        app.commit()
    with closing(sqlite3.connect(folder / "dw.db")) as target:
        target.execute("CREATE VIEW t007 AS SELECT 1 AS id, '' AS at")
        target.commit()
    ran = here("sync", "--project", folder, "--json")
    assert len(ran.json["flows"]) == 300, ran.said
    return folder


def test_a_fleet_of_300_flows(browser: Chrome, many: Path) -> None:
    with serving(many) as address:
        browser.get(address)
        assert browser.find_element(By.CSS_SELECTOR, ".tiles b").text == "300"
        assert len(browser.find_elements(By.CSS_SELECTOR, "tbody tr")) == 200
        browser.find_element(By.PARTIAL_LINK_TEXT, "next").click()
        assert len(browser.find_elements(By.CSS_SELECTOR, "tbody tr")) == 100
        browser.get(f"{address}/?state=FAILED")
        [failed] = browser.find_elements(By.CSS_SELECTOR, "tbody a.flow")
        assert failed.text == "t007"
        failed.click()
        assert browser.find_elements(By.CSS_SELECTOR, ".card.error .hint")
        for path in ("/runs", "/graph", "/proofs", "/history", "/gaps?name=t099"):
            browser.get(address + path)
            assert browser.find_elements(By.CSS_SELECTOR, ".trouble") == [], path
            assert "/flow?name=t" in browser.page_source or path == "/runs", path
        assert complaints(browser) == []


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core could not be had: no npm")
def test_nothing_keeps_anybody_out(browser: Chrome, pages: str) -> None:
    """By axe-core: light and dark, wide and on a phone. The main pages, with those to act on."""
    paths = ["/", "/flow?name=orders", "/gaps?name=orders", "/runs", "/graph", "/proofs", "/history",
             "/act?name=orders&do=set", "/nowhere"]  # fmt: skip
    browser.get(f"{pages}/runs")
    run = browser.find_element(By.CSS_SELECTOR, "main td a").get_attribute("href")
    found = []
    for address in (*(pages + path for path in paths), str(run)):
        for number, (dark, phone) in enumerate(((False, False), (True, True))):
            look_like(browser, dark=dark, phone=phone)
            if not number:
                browser.get(address)
            found += [f"{address} {dark=} {phone=}: {one}" for one in find_barriers(browser)]
    look_like(browser)
    assert not found, "\n".join(found)


def test_a_server_that_stops_is_noticed(browser: Chrome, shop: Path) -> None:
    with serving(shop) as address:
        browser.get(address)
        until(lambda: browser.find_element(By.ID, "live").text == "live", seconds=30)
    until(lambda: browser.find_element(By.ID, "live").text == "not connected", seconds=30)
