"""The dashboard's pages over real ledgers: what they show, to whom, and what they make of bad input."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.support.dashboard import GONE, HOSTILE, MINUTE, fill, make_project
from tests.support.dashboard import ledger_place as ledger_place
from tests.support.dashboard import shop as shop
from tests.support.drafts import ME, draft, nothing_new, receipt
from tests.support.project import here
from tidegauge import WatermarkTracker
from tidegauge.config.load import load_project
from tidegauge.dashboard import run_pages
from tidegauge.dashboard.access import Access
from tidegauge.dashboard.app import make_app
from tidegauge.flows.override.preview import KINDS
from tidegauge.ledger.open import Ledger, open_ledger
from tidegauge.model.position import Window
from tidegauge.model.secret import Secret
from tidegauge.model.state import State
from tidegauge.model.suspension import ALL
from tidegauge.operations.health_facts import read_facts
from tidegauge.operations.status import summarize_flows

PAGES = ("/", "/runs", "/graph", "/proofs", "/history")


def client(folder: Path, access: Access | None = None, *, root_path: str = "") -> TestClient:
    app = make_app(load_project(folder / "tidegauge.yml"), access, root_path=root_path)
    return TestClient(app, base_url="http://127.0.0.1:8765")


def test_every_page_opens_over_every_store(
    tmp_path: Path, store_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEDGER", store_address)
    make_project(tmp_path)
    with open_ledger(store_address, create=True) as ledger:
        fill(ledger)
    pages = client(tmp_path)
    for path in (*PAGES, "/flow?name=items", "/gaps?name=items", "/run?id=one"):
        answer = pages.get(path)
        assert answer.status_code == 200, (path, answer.text)
        assert answer.headers["content-security-policy"].startswith("default-src 'self';")
    assert pages.get("/run.json", params={"id": "one"}).json()["state"] == "RUNNING"


def test_the_fleet_counts_states_and_lists_the_latest_first(shop: Path) -> None:
    text = client(shop).get("/").text
    tiles = re.findall(r"<b>(\d+)</b> ([a-z ]+)<", text)
    assert tiles == [("4", "flows"), ("1", "failed"), ("1", "stuck"), ("1", "success"), ("1", "nothing new")]
    rows = re.findall(r'class="flow" href="/flow\?name=(\w+)"', text)
    # By what was delivered: `items` and `late` one second of a day, `orders` three, `idle` was looked at.
    assert rows == ["items", "late", "orders", "idle"]
    assert "the next run, which takes over: its runner is gone" in text


def test_a_filter_narrows_and_nothing_selected_is_not_nothing_there(shop: Path, tmp_path: Path) -> None:
    pages = client(shop)
    failed = pages.get("/?state=FAILED").text.split("<tbody>")[1]
    assert re.findall(r"/flow\?name=(\w+)", failed) == ["items"]
    assert 'href="/flow?name=late"' not in pages.get("/?text=ORD").text.split("<tbody>")[1]
    assert "<h2>daily" in pages.get("/?group=tag").text
    nothing = pages.get("/?text=never").text
    assert "None of the 4 flows is selected" in nothing
    assert "No flow has run yet" not in nothing
    empty = tmp_path / "empty"
    empty.mkdir()
    text = client(make_project(empty)).get("/").text
    assert "No flow has run yet" in text
    assert not (empty / "ledger.db").exists()


def test_a_plan_that_is_not_done_in_time_is_stuck_as_alerts_have_it(shop: Path) -> None:
    file = shop / "tidegauge.yml"
    file.write_text(f"{file.read_text()}health: {{stuck: 2h}}\n")
    with open_ledger(f"sqlite:///{shop / 'ledger.db'}", create=False) as ledger:
        assert isinstance(ledger, Ledger)
        plans = ledger.plan([draft("waits"), draft("fresh")], owner=ME, run_id="three")
    with closing(sqlite3.connect(shop / "ledger.db")) as store:
        earlier = "UPDATE plans SET created_at = datetime(created_at, '-3 hours') || '.000000' WHERE {} = ?"
        store.execute(earlier.format("plan_id"), (plans["waits"].plan_id,))
        store.execute(earlier.format("flow"), ("items",))
        store.commit()
    pages = client(shop)
    stuck = re.findall(r'href="/flow\?name=(\w+)"', pages.get("/?state=STUCK").text.split("<tbody>")[1])
    assert set(stuck) == {"late", "waits"}
    assert 'name=items"' in pages.get("/?state=FAILED").text, "a plan that failed is not hidden by its age"
    assert 'name=fresh"' in pages.get("/?state=PLANNED").text
    pill = '<span class="pill s-STUCK">stuck</span>'
    assert all(pill in pages.get(f"/{page}?name=waits").text for page in ("flow", "gaps"))
    assert "</b> planned<" in pages.get("/").text, "the one that is not late"


def test_a_flow_shows_its_plan_its_error_and_what_a_retry_covers(shop: Path) -> None:
    text = client(shop).get("/flow?name=items").text
    assert "1 of 3 batches done" in text
    assert "A retry covers 2 of 3 batches, about 20 rows: orders (2025-08-14 00:00:01.123456" in text
    assert "mend it" in text
    assert "no index on the cursor" in text
    late = client(shop).get("/flow?name=late").text
    assert f"process {GONE.pid}" in late
    assert "gone; the next run takes over" in late


def test_the_settings_of_a_sync_are_shown_as_they_are_written_and_without_secrets(shop: Path) -> None:
    (shop / "salt").write_text("pepper and more")
    file = shop / "tidegauge.yml"
    more = (
        "where: 'total > 1 AND total <> 7', columns: {exclude: [card, 'pin_*']},"
        " mask: {mail: {sha256: '${file:salt}'}, phone: null, name: 'Jane Roe'}"
    )
    plain = file.read_text()
    file.write_text(plain.replace("tags: [daily]", f"tags: [daily], {more}"))
    text = client(shop).get("/flow?name=orders").text
    settings = dict(re.findall(r"<dt>([\w ]+)</dt><dd>(.*?)</dd>", text.split("facts settings")[1]))
    assert settings["where"] == "total &gt; 1 AND total &lt;&gt; 7"
    assert settings["columns"] == "exclude: card, pin_*"
    assert settings["mask"] == "mail: sha256, phone: null, name: text"
    assert not any(word in text for word in ("pepper", "Jane", "salt", "Place("))
    file.write_text(plain.replace("tags: [daily]", "tags: [daily], columns: {include: [id, at]}"))
    assert "<dt>columns</dt><dd>include: id, at</dd>" in client(shop).get("/flow?name=orders").text
    file.write_text(plain)
    text = client(shop).get("/flow?name=orders").text
    assert "<dt>mode</dt><dd>merge</dd>" in text
    assert "<dt>columns</dt>" not in text


def test_the_gap_map_draws_what_is_there_and_what_is_not(shop: Path) -> None:
    text = client(shop).get("/gaps?name=items").text
    kinds = re.findall(r'class="piece k-(\w+)"', text)
    assert kinds == ["delivered", "failed", "waits"]
    assert "tidegauge retry --select items" in text
    with open_ledger(f"sqlite:///{shop / 'ledger.db'}", create=False) as ledger:
        assert isinstance(ledger, Ledger)
        override = ledger.begin_override("shop", "orders", "reset", {}, owner=ME, reason="wrong zone")
        ledger.end_override("shop", "orders", epoch=override.epoch)
    text = client(shop).get("/gaps?name=orders").text
    assert "epoch 1" in text
    assert "wrong zone" in text


@pytest.mark.parametrize("kind", KINDS.values())
def test_each_override_is_a_change_by_hand_and_begins_a_lane(shop: Path, kind: str) -> None:
    with open_ledger(f"sqlite:///{shop / 'ledger.db'}", create=False) as ledger:
        assert isinstance(ledger, Ledger)
        [mark] = ledger.watermarks("shop", ["orders"])
        for each in ("set", kind) if kind == "undo" else (kind,):
            positions = {mark.input: mark.position} if each not in ("reset", "undo") else {}
            begun = ledger.begin_override("shop", "orders", each, positions, owner=ME, reason=f"by {each}")
            ledger.end_override("shop", "orders", epoch=begun.epoch)
    gaps = client(shop).get("/gaps?name=orders").text
    assert f"epoch {begun.epoch}" in gaps
    assert f"by {kind}" in gaps
    assert f'class="event e-{kind}"' in client(shop).get("/history?event=by+hand").text


def _repair(ledger: Ledger) -> None:
    ledger.note("shop", "orders", "repair", owner=ME, reason="seven rows differed")


def _deliver_late_rows(ledger: Ledger) -> None:
    """Read the second of three seconds once more, as a lookback does."""
    [mark] = ledger.watermarks("shop", ["orders"])
    made = draft(start=1, batches=1)
    part = replace(made.inputs[0], window=Window(mark.position, mark.position))
    late = replace(made, inputs=(part,), batches=(replace(made.batches[0], rereads=True),))
    plan = ledger.plan([late], owner=ME, run_id="late")["orders"]
    claim = ledger.claim(plan, owner=ME, run_id="late", lease=MINUTE)
    ledger.begin(claim, 0)
    ledger.advance(claim, 0, receipt(plan, 0, rows=7))
    ledger.finish(claim, State.SUCCESS)


@pytest.mark.parametrize(
    ("read_again", "event", "words"),
    [
        (_repair, "repair", "seven rows differed"),
        (_deliver_late_rows, "advanced", "read again below the watermark, which stayed where it is"),
    ],
    ids=["repair", "late rows"],
)
def test_a_piece_that_was_read_again_leads_to_its_own_event(
    shop: Path, read_again: Callable[[Ledger], None], event: str, words: str
) -> None:
    with open_ledger(f"sqlite:///{shop / 'ledger.db'}", create=False) as ledger:
        assert isinstance(ledger, Ledger)
        read_again(ledger)
    text = client(shop).get("/gaps?name=orders").text
    assert re.findall(r'class="piece k-(\w+)"', text) == ["delivered", "again"]
    assert words in text
    assert f"tidegauge history -t orders --event {event}" in text


def test_the_history_says_who_and_why_and_pages(shop: Path) -> None:
    with open_ledger(f"sqlite:///{shop / 'ledger.db'}", create=False) as ledger:
        assert isinstance(ledger, Ledger)
        for number in range(120):
            ledger.note("shop", "idle", "repair", owner=ME, reason=f"reason {number}")
    pages = client(shop)
    first, second = pages.get("/history?event=repair").text, pages.get("/history?event=repair&page=2").text
    assert "reason 119" in first
    assert "reason 5<" not in first
    assert "page 1 of 2" in first
    assert "reason 5<" in second
    assert "me@here" in second
    assert "reason" not in pages.get("/history?failed=1").text
    assert "Nothing of that kind" in pages.get("/history?actor=nobody").text


def test_a_run_of_long_ago_says_that_its_events_are_not_shown(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "before the newest events" not in client(shop).get("/run?id=one").text
    monkeypatch.setattr(run_pages, "_EVENTS", 1)
    assert "before the newest events" in client(shop).get("/run?id=one").text


def test_proofs_have_the_last_comparison_and_name_what_was_never_compared(shop: Path) -> None:
    text = client(shop).get("/proofs").text
    assert "1 of 4 tables equal" in text
    assert "tidegauge verify -t items" in text


@pytest.mark.long
def test_ten_thousand_flows_are_shown_page_by_page(tmp_path: Path) -> None:
    make_project(tmp_path)
    with open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}", create=True) as ledger:
        ledger.plan([draft(f"t{number:04d}", batches=1) for number in range(10_000)], owner=ME, run_id="one")
    pages = client(tmp_path)
    for path in (*PAGES, "/flow?name=t9999", "/gaps?name=t9999", "/proofs?page=50"):
        answer = pages.get(path)
        assert answer.status_code == 200, path
        assert len(answer.text) < 300_000, path
    assert "<b>10,000</b> flows" in pages.get("/").text
    assert "page 1 of 50" in pages.get("/proofs").text


@pytest.mark.parametrize("ledger", ["sqlite:///ledger.db", "json:ledger"])
def test_a_run_in_python_is_what_the_pages_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger: str
) -> None:
    """Real runs, real comparison: SQLite into DuckDB, with a table whose name would like to be a script."""
    monkeypatch.setenv("LEDGER", ledger)  # a ledger of files keeps the windows of attempts
    make_project(tmp_path)
    table = '"' + HOSTILE.replace('"', '""') + '"'
    with closing(sqlite3.connect(tmp_path / "shop.db")) as app:
        for name in ("orders", table):
            app.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, at TEXT)")
            app.execute(f"INSERT INTO {name} VALUES (1, '2026-01-01 00:00:00'), (2, '2026-01-02 00:00:00')")
        app.commit()
    ran = here("run", "--project", tmp_path, "--json")
    assert ran.code == 0, ran.said
    assert here("verify", "--project", tmp_path).code == 0
    pages = client(tmp_path)
    run_id = ran.json["run_id"]
    for path, words in {
        "/": {},
        "/flow": {"name": HOSTILE},
        "/gaps": {"name": HOSTILE},
        "/run": {"id": run_id},
        "/runs": {},
        "/history": {},
        "/graph": {},
        "/proofs": {},
    }.items():
        answer = pages.get(path, params=words)
        assert answer.status_code == 200, (path, answer.text)
        assert "<script>alert" not in answer.text, path
        assert "&lt;script&gt;alert(1)" in answer.text or path == "/runs", path
    shown = pages.get("/run.json", params={"id": run_id}).json()
    kept = {one["flow"]: one for one in ran.json["flows"]}
    for one in shown["flows"]:
        for name in ("state", "batches", "rows_read", "rows_written", "rows_inserted", "error"):
            assert one[name] == kept[one["flow"]][name], name
        if "windows" in one:
            assert one["windows"] == kept[one["flow"]]["windows"]
    assert ("windows" in shown["flows"][0]) == ledger.startswith("json:")
    assert "2 of 2 tables equal" in pages.get("/proofs").text


def test_e3_a_secret_is_in_no_page(shop: Path) -> None:
    """Also where somebody else wrote it into the ledger, which masks what it is given."""
    canary = Secret("can<ary>&42")
    with closing(sqlite3.connect(shop / "ledger.db")) as store:
        store.execute("UPDATE history SET reason = ?, actor = ?", (canary.reveal(), canary.reveal()))
        store.execute("UPDATE plans SET body = replace(body, 'no index', ?)", (canary.reveal(),))
        store.execute("UPDATE runs SET error = ?", (f'{{"message": "{canary.reveal()}"}}',))
        store.commit()
    pages = client(shop)
    for path in (*PAGES, "/flow?name=items", "/gaps?name=items", "/run?id=one", "/run.json?id=one"):
        text = pages.get(path).text
        assert "ary>&42" not in text, path
        assert "ary&gt;&amp;42" not in text, path
    assert "***" in pages.get("/history").text


def test_what_is_not_there_is_a_page_too(shop: Path) -> None:
    pages = client(shop)
    for path in (
        "/flow?name=never",
        "/gaps?name=never",
        "/run?id=never",
        "/nowhere",
        "/flow?name=a&pipeline=b",
    ):
        answer = pages.get(path)
        assert answer.status_code == 404, path
        assert "Not there" in answer.text
    assert pages.get("/flow").status_code == 400
    assert pages.get("/?page=many").status_code == 400
    assert pages.get("/?page=99999&sort=never&group=odd").status_code == 200
    assert pages.get("/run.json?id=never").status_code == 404


def test_a_flow_that_is_forgotten_while_its_page_is_open(shop: Path) -> None:
    pages = client(shop)
    assert pages.get("/flow?name=idle").status_code == 200
    with open_ledger(f"sqlite:///{shop / 'ledger.db'}", create=False) as ledger:
        assert isinstance(ledger, Ledger)
        ledger.forget("shop", "idle", owner=ME, reason="not needed")
    answer = pages.get("/flow?name=idle", headers={"X-Tidegauge-Part": "1"})
    assert answer.status_code == 404
    assert "<html" not in answer.text
    assert "forgotten" in answer.text


def test_a_ledger_that_is_gone_locked_or_newer_is_told_and_heals(shop: Path) -> None:
    pages = client(shop)
    assert pages.get("/").status_code == 200
    file, away = shop / "ledger.db", shop / "away.db"
    file.rename(away)
    answer = pages.get("/")
    assert answer.status_code == 503
    assert "is gone; it had 4 flows" in answer.text
    away.rename(file)
    assert pages.get("/").status_code == 200
    with closing(sqlite3.connect(file, isolation_level=None)) as store:
        store.execute("BEGIN EXCLUSIVE")
        assert pages.get("/").status_code == 200, "who only reads waits for nobody who writes"
    with closing(sqlite3.connect(file)) as store:
        ((version,),) = store.execute("SELECT version_num FROM tidegauge_version")
        store.execute("UPDATE tidegauge_version SET version_num = '9999'")
        store.commit()
        answer = pages.get("/")
        assert answer.status_code == 503
        assert "newer" in answer.text
        store.execute("UPDATE tidegauge_version SET version_num = ?", (version,))
        store.commit()
    file.write_bytes(b"this is no database" * 100)
    assert "is not a SQLite database" in pages.get("/").text


def test_a_change_is_seen_by_the_next_look(shop: Path) -> None:
    pages = client(shop)
    assert "suspended" not in pages.get("/").text
    with open_ledger(f"sqlite:///{shop / 'ledger.db'}", create=False) as ledger:
        assert isinstance(ledger, Ledger)
        ledger.suspend("shop", "orders", owner=ME, reason="the source is being mended")
    text = pages.get("/").text
    assert "the source is being mended" in text
    assert "<b>1</b> suspended" in text


def test_all_changes_by_hand_are_found_together(shop: Path) -> None:
    events = (
        "imported",
        "files_cleaned",
        "files_compacted",
        "vacuumed",
        "quarantine_discarded",
        "quarantine_replayed",
    )
    with open_ledger(f"sqlite:///{shop / 'ledger.db'}", create=False) as ledger:
        assert isinstance(ledger, Ledger)
        for event in events:
            ledger.note("shop", "orders", event, owner=ME, reason=f"why it was {event}")
    pages = client(shop)
    text = pages.get("/history?event=by+hand").text
    assert all(f"why it was {event}" in text for event in events)
    assert 'class="event e-advanced"' not in text
    assert 'class="event e-advanced"' in pages.get("/history").text


@pytest.mark.parametrize("suspended", ["idle", ALL])
def test_a_flow_that_is_suspended_is_not_called_nothing_new(shop: Path, suspended: str) -> None:
    project = load_project(shop / "tidegauge.yml")
    pages = client(shop)
    assert "nothing new<" in pages.get("/flow?name=idle").text
    with open_ledger(f"sqlite:///{shop / 'ledger.db'}", create=False) as ledger:
        assert isinstance(ledger, Ledger)
        ledger.suspend("shop", suspended, owner=ME, reason="the source is being mended")
        known = read_facts(ledger, "shop")
    told = {one.flow: one.told_state for one in summarize_flows(project, [])[1]}
    assert (told["idle"], told["items"]) == ("SUSPENDED", "FAILED"), "that is not hidden"
    assert known.statuses["idle"].suspended is not None
    page = pages.get("/flow?name=idle").text
    assert page.count('<span class="pill s-SUSPENDED">suspended</span>') == 1
    assert "nothing new<" not in page.split("</h1>")[0]


def test_the_tiles_of_a_suspended_pipeline_say_what_was_there_before(shop: Path) -> None:
    def read_tiles() -> list[tuple[str, str]]:
        return re.findall(r"<b>(\d+)</b> ([a-z ]+)<", client(shop).get("/").text)

    with open_ledger(f"sqlite:///{shop / 'ledger.db'}", create=False) as ledger:
        assert isinstance(ledger, Ledger)
        ledger.plan([nothing_new("idle too")], owner=ME, run_id="two")
        ledger.suspend("shop", ALL, owner=ME, reason="the source is being mended")
    assert read_tiles()[-2:] == [("2", "nothing new"), ("5", "suspended")]
    with WatermarkTracker(f"sqlite:///{shop / 'ledger.db'}") as tracker:
        tracker.finalize_pipeline_run(tracker.start_pipeline_run("wos", "a"), "SKIPPED", error="holiday")
    assert ("3", "skipped") in read_tiles(), "not all of them have nothing new"
    with open_ledger(f"sqlite:///{shop / 'ledger.db'}", create=False) as ledger:
        assert isinstance(ledger, Ledger)
        ledger.suspend("wos", ALL, owner=ME, reason="no job today")
    assert ("3", "skipped") in read_tiles(), "nor if that one is suspended too"


def test_a_run_that_its_job_gave_up_is_not_called_nothing_new(shop: Path) -> None:
    with WatermarkTracker(f"sqlite:///{shop / 'ledger.db'}") as tracker:
        record = tracker.start_pipeline_run("wos", "a")
        tracker.finalize_pipeline_run(record, "SKIPPED", error="holiday")
    pages = client(shop)
    assert "<b>2</b> skipped" in pages.get("/").text
    assert pages.get("/").text.count('<span class="pill s-SKIPPED">nothing new</span>') == 1
    for path in ("/flow?pipeline=wos&name=wos", "/gaps?pipeline=wos&name=wos"):
        text = pages.get(path).text
        assert '<span class="pill s-SKIPPED">skipped</span>' in text, path
        assert "nothing new" not in text, path
    assert len(re.findall('s-SKIPPED">skipped<', pages.get("/runs").text)) == 1
    for words in (("health",), ("status", "--pipeline", "wos")):
        said = here(*words, "--project", shop).out
        [line] = [one for one in said.splitlines() if "wos" in one]
        assert "SKIPPED" in line
        assert "nothing new" not in line


def test_a_server_in_another_zone_counts_from_the_same_moment(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages, lags = client(shop), set()
    for zone in ("UTC", "Asia/Kolkata", "America/New_York"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        lags |= set(re.findall(r"<b>(\d+ d)</b> worst lag", pages.get("/").text))
        assert re.search(r">\d+(\.\d+)? m?s ago<|>\d+ min ago<", pages.get("/").text), zone
    monkeypatch.undo()
    time.tzset()
    assert len(lags) == 1


def test_without_a_token_nobody_is_let_in_from_elsewhere(shop: Path) -> None:
    with pytest.raises(Exception, match="would show the ledger to everybody"):
        Access("0.0.0.0")
    access = Access("0.0.0.0", Secret("open sesame"))
    pages = client(shop, access)
    for path in (*PAGES, "/events", "/run.json?id=one"):
        assert pages.get(path).status_code == 401, path
        assert pages.get(path, headers={"authorization": "Bearer wrong"}).status_code == 401
    assert pages.get("/", headers={"authorization": "Bearer open sesame"}).status_code == 200
    asked = pages.get("/", headers={"accept": "text/html"}, follow_redirects=False)
    assert (asked.status_code, asked.headers["location"]) == (303, "/login")
    assert pages.post("/login", data={"token": "wrong"}).status_code == 401
    assert pages.get("/").status_code == 401
    entered = pages.post("/login", data={"token": "open sesame"}, follow_redirects=False)
    assert entered.status_code == 303
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "sesame" not in cookie
    assert pages.get("/").status_code == 200


def test_a_proxy_names_the_user(shop: Path) -> None:
    pages = client(shop, Access("0.0.0.0", user_header="X-Forwarded-User"))
    assert pages.get("/").status_code == 401
    assert pages.get("/", headers={"x-forwarded-user": "ada"}).status_code == 200


def test_another_name_for_this_machine_is_not_answered(shop: Path) -> None:
    """A page elsewhere whose name leads to 127.0.0.1 would otherwise read the ledger."""
    pages = client(shop)
    for host in ("evil.example", "evil.example:8765", "127.0.0.1.evil.example", ""):
        assert pages.get("/", headers={"host": host}).status_code == 421, host
    for host in ("localhost:8765", "127.0.0.1", "[::1]:8765"):
        assert pages.get("/", headers={"host": host}).status_code == 200, host
    named = client(shop, Access(hosts=frozenset({"dash.example"})))
    assert named.get("/", headers={"host": "dash.example"}).status_code == 200
    assert named.get("/", headers={"host": "evil.example"}).status_code == 421


def test_pages_work_under_a_prefix(shop: Path) -> None:
    pages = client(shop, root_path="/tide")
    for path in ("/", "/tide/"):
        text = pages.get(path).text
        assert set(re.findall(r'(?:href|src|action|data-events)="(/[^"]*)"', text)) >= {
            "/tide/",
            "/tide/runs",
        }
        assert not re.findall(r'(?:href|src|action)="/(?!tide/)', text)
    assert pages.get("/static/style.css").status_code == 200
    assert pages.get("/tide/static/live.js").status_code == 200


def test_no_page_has_a_script_or_a_style_of_its_own(shop: Path) -> None:
    """The policy would not let them run."""
    for path in (*PAGES, "/flow?name=items", "/gaps?name=items", "/run?id=one"):
        text = client(shop).get(path).text
        assert not re.search(r"<script(?! src=)|<style| style=| on\w+=|javascript:", text), path
        assert "http://" not in text, path
        assert "https://" not in text, path


def test_a_page_that_is_fetched_again_is_only_its_part(shop: Path) -> None:
    text = client(shop).get("/", headers={"X-Tidegauge-Part": "1"}).text
    assert "<html" not in text
    assert "<form" not in text
    assert "items" in text


def test_a_port_that_is_taken_and_a_host_without_a_token(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidegauge.dashboard.server import open_socket

    with closing(open_socket("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = here("serve", "--project", shop, "--port", port)
    assert refused.code == 2
    assert "--port" in refused.err
    assert here("serve", "--project", shop, "--host", "0.0.0.0").code == 2
    assert here("serve", "--project", shop, "--root-path", "tide").code == 2
    assert here("serve", "--project", shop, "--token-file", shop / "never").code == 2
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    missing = here("serve", "--project", shop)
    assert missing.code == 1
    assert "pip install 'tidegauge[dashboard]'" in missing.err
