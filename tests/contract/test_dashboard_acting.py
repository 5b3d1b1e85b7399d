"""Acting from the dashboard: the command does it, as it was shown, and for nobody who is not let in."""

from __future__ import annotations

import re
import signal
import sqlite3
import subprocess
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from html import unescape
from os import kill
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from fastapi.testclient import TestClient

from tests.support.drafts import ME, draft
from tests.support.project import command, here, until
from tidegauge.cli.serve import _read_tokens
from tidegauge.config.load import load_project
from tidegauge.dashboard.access import Access
from tidegauge.dashboard.app import make_app
from tidegauge.ledger.open import Ledger, open_ledger
from tidegauge.ledger.owner import this_process
from tidegauge.model.run import FlowStatus, HistoryEvent
from tidegauge.model.state import State

HERE = "http://127.0.0.1:8765"
CHANGING = ("retry", "suspend", "resume", "set", "reset")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """One table, which ran."""
    (tmp_path / "tidegauge.yml").write_text(
        "pipeline: shop\nledger: sqlite:///ledger.db\n"
        "connections: {app: {type: sqlite, path: shop.db}, dw: {type: sqlite, path: dw.db}}\n"
        "sync: [{from: app, to: dw, tables: ['*'], cursor: at, mode: merge, settle: 0s, batch_rows: 100}]\n"
    )
    with closing(sqlite3.connect(tmp_path / "shop.db")) as app:
        app.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, at TEXT)")
        app.execute("INSERT INTO orders VALUES (1, '2026-01-01 00:00:00'), (2, '2026-01-02 00:00:00')")
        app.commit()
    ran = here("run", "--project", tmp_path)
    assert ran.code == 0, ran.said
    return tmp_path


@dataclass
class Operator:
    """A browser: its cookies, and the forms that it was shown."""

    client: Any
    user: str = ""

    @property
    def headers(self) -> dict[str, str]:
        return {"origin": HERE, **({"x-user": self.user} if self.user else {})}

    def see(self, path: str) -> str:
        answer = self.client.get(path, headers=self.headers)
        assert answer.status_code == 200, answer.text
        return str(answer.text)

    def send(self, form: dict[str, str], **headers: str) -> Any:
        return self.client.post("/act", data=form, headers={**self.headers, **headers})

    def preview(self, name: str = "orders", do: str = "reset", **fields: str) -> str:
        form = fields_of(self.see(f"/act?name={name}&do={do}"))
        return self.finish(self.send({**form, **fields}))

    def agree(self, page: str, reason: str = "because", **fields: str) -> str:
        return self.finish(self.send({**fields_of(page), "reason": reason, **fields}))

    def finish(self, answer: Any) -> str:
        """The page of an action, once it has ended."""
        assert answer.status_code == 200, answer.text
        path = str(answer.url)
        until(lambda: "under way" not in self.see(path))
        return self.see(path)


def fields_of(page: str) -> dict[str, str]:
    form = page[page.index("<form") :]
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form)
    return {name: unescape(value) for name, value in found}


def client(folder: Path, access: Access | None = None, *, acts: bool = True) -> TestClient:
    return TestClient(make_app(load_project(folder / "tidegauge.yml"), access, acts=acts), base_url=HERE)


@pytest.fixture
def operator(shop: Path) -> Operator:
    return Operator(client(shop))


def status(folder: Path, flow: str = "orders") -> FlowStatus:
    with open_ledger(f"sqlite:///{folder / 'ledger.db'}", create=False) as ledger:
        [found] = ledger.status("shop", [flow])
        return found


def history(folder: Path, event: str) -> list[HistoryEvent]:
    with open_ledger(f"sqlite:///{folder / 'ledger.db'}", create=False) as ledger:
        return list(ledger.history("shop", events=[event], limit=10))


def test_nobody_acts_where_it_was_not_allowed(shop: Path) -> None:
    pages = client(shop, acts=False)
    assert "/act" not in pages.get("/flow?name=orders").text + pages.get("/proofs").text
    assert pages.get("/act?name=orders&do=reset").status_code == 404
    assert pages.post("/act", data={"name": "orders", "do": "reset"}).status_code in (404, 405)


def test_a_reset_is_shown_first_and_then_done_with_the_reason_and_the_name(shop: Path) -> None:
    operator = Operator(client(shop, Access(user_header="X-User")), user="ada")
    shown = operator.preview()
    assert "What would happen" in shown
    assert "2026-01-02 00:00:00 · 2" in shown
    assert history(shop, "reset") == []
    without = operator.send({**fields_of(shown), "reason": "  "})
    assert without.status_code == 409
    assert "needs a reason" in without.text
    done = operator.agree(shown, reason="-- the <b>zone</b> was wrong")
    assert "first of epoch 1" in done
    [event] = history(shop, "reset")
    assert event.actor == f"ada via {this_process().actor}"
    assert event.reason == "-- the <b>zone</b> was wrong"
    assert "the &lt;b&gt;zone" in operator.see("/history")
    assert "done" in operator.see("/flow?name=orders")


def test_e3_a_secret_that_an_operator_types_is_shown_nowhere(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = "json://can-ary-42:pass-word-42@127.0.0.1:9/hook"
    monkeypatch.setenv("HOOK", canary)
    with (shop / "tidegauge.yml").open("a") as file:
        file.write("alerts: {to: ['${env:HOOK}']}\n")
    operator = Operator(client(shop))
    done = operator.agree(operator.preview(), reason=f"the hook {canary} was silent")
    assert "first of epoch 1" in done
    for page in (done, operator.see("/history"), operator.see("/flow?name=orders")):
        assert "ary-42" not in page
        assert "word-42" not in page
    assert "the hook *** was silent" in operator.see("/history")


def test_what_moved_since_it_was_shown_is_refused_and_shown_anew(shop: Path) -> None:
    """Two operators at once: the second agreed to what is no longer so."""
    pages = client(shop)
    first, second = Operator(pages), Operator(TestClient(pages.app, base_url=HERE))
    seen, late = first.preview(), second.preview()
    assert "first of epoch 1" in first.agree(seen, reason="mine")
    refused = second.agree(late, reason="mine too")
    assert "has moved since" in refused
    assert "What would happen now" in refused
    assert [one.reason for one in history(shop, "reset")] == ["mine"]
    assert "first of epoch 2" in second.agree(refused, reason="I still want it")


def test_a_set_that_is_dangerous_needs_a_word_more(operator: Operator, shop: Path) -> None:
    shown = operator.preview(do="set", timestamp="2026-01-01 00:00:00")
    assert "Take care" in shown
    assert "--force" in operator.agree(shown)
    assert history(shop, "set") == []
    assert "first of epoch 1" in operator.agree(shown, force="1")
    assert len(history(shop, "set")) == 1
    assert "needs either" in operator.preview(do="set")


def test_suspend_resume_retry_and_verify(operator: Operator, shop: Path) -> None:
    def act(do: str) -> str:
        return operator.agree(operator.see(f"/act?name=orders&do={do}"), reason=f"to {do}")

    assert "Suspended." in act("suspend")
    assert "It is suspended already" in operator.see("/act?name=orders&do=suspend")
    stale = operator.see("/act?name=orders&do=resume")
    assert "may run again" in act("resume")
    late = operator.send({**fields_of(stale), "reason": "again"})
    assert late.status_code == 409
    assert "It is not suspended" in late.text
    assert [one.reason for one in history(shop, "suspended")] == ["to suspend"]
    verified = operator.finish(operator.send(fields_of(operator.see("/act?name=orders&do=verify"))))
    assert ">equal</span> 2 rows in the source" in verified
    assert "nothing to try again" in operator.see("/act?name=orders&do=retry")


def test_while_a_runner_holds_the_flow_nothing_but_verify_is_done(operator: Operator, shop: Path) -> None:
    forms = {do: fields_of(operator.see(f"/act?name=orders&do={do}")) for do in ("suspend", "reset")}
    with open_ledger(f"sqlite:///{shop / 'ledger.db'}", create=False) as ledger:
        assert isinstance(ledger, Ledger)
        mark = ledger.watermarks("shop", ["orders"])[0].position
        plan = ledger.plan([draft("orders", start=1)], owner=ME, run_id="r")["orders"]
        ledger.claim(plan, owner=this_process(), run_id="r", lease=timedelta(minutes=5))
    page = operator.see("/flow?name=orders")
    assert len(re.findall('<span class="act off"', page)) == 4
    assert re.findall(r'<a class="act" href="[^"]*do=(\w+)"', page) == ["verify"]
    for do in CHANGING:
        assert "is at work on it" in operator.see(f"/act?name=orders&do={do}")
        refused = operator.send({**forms["suspend"], "do": do, "reason": "now", "seen": "x"})
        assert refused.status_code == 409, do
    assert operator.send({**forms["reset"], "step": "preview"}).status_code == 409
    assert status(shop).suspended is None
    with open_ledger(f"sqlite:///{shop / 'ledger.db'}", create=False) as ledger:
        assert ledger.watermarks("shop", ["orders"])[0].position == mark


def test_a_form_that_is_not_from_here_is_not_obeyed(operator: Operator, shop: Path) -> None:
    form = {**fields_of(operator.see("/act?name=orders&do=suspend")), "reason": "gladly"}
    for headers in (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ):
        refused = operator.send(form, **headers)
        assert refused.status_code == 403, headers
    assert operator.send({**form, "csrf": "0" * 64}).status_code == 403
    assert operator.send({name: text for name, text in form.items() if name != "csrf"}).status_code == 403
    assert operator.send({**form, "reason": "x" * 20_000}).status_code == 403
    stranger = Operator(TestClient(operator.client.app, base_url=HERE))
    assert stranger.send(form).status_code == 403, "without the cookie that it was made for"
    stranger.see("/act?name=orders&do=suspend")
    assert stranger.send(form).status_code == 403, "with another cookie"
    assert operator.send({**form, "do": "explode"}).status_code == 400
    assert operator.send({**form, "name": "never"}).status_code == 404
    assert status(shop).suspended is None
    cookie = operator.client.get("/act?name=orders&do=suspend").headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert operator.send(form).status_code == 200


def test_a_word_for_one_user_is_no_word_for_another(shop: Path) -> None:
    ada = Operator(client(shop, Access(user_header="X-User")), user="ada")
    form = {**fields_of(ada.see("/act?name=orders&do=suspend")), "reason": "gladly"}
    ada.user = "bob"
    assert ada.send(form).status_code == 403


def test_a_token_names_who_acts(shop: Path) -> None:
    (shop / "tokens").write_text("ada: first-long-word\nbob: second-long-word\n")
    token, users = _read_tokens(shop / "tokens")
    access = Access("0.0.0.0", token, users=users)
    assert [
        access.find_user({"authorization": f"Bearer {word}"}) for word in ("first-long-word", "x", "")
    ] == [
        "ada",
        None,
        None,
    ]
    pages = client(shop, access)
    assert pages.post("/login", data={"token": "second-long-word"}).status_code == 200
    bob = Operator(pages)
    bob.agree(bob.see("/act?name=orders&do=suspend"))
    assert status(shop).suspended is not None
    assert history(shop, "suspended")[0].actor.startswith("bob via ")
    (shop / "tokens").write_text("one\ntwo\n")
    assert here("serve", "--project", shop, "--token-file", shop / "tokens").code == 2


def test_a_name_that_means_more_than_one_flow_is_not_acted_on(shop: Path) -> None:
    with closing(sqlite3.connect(shop / "shop.db")) as app:
        app.execute('CREATE TABLE "ord*" (id INTEGER PRIMARY KEY, at TEXT)')
        app.execute("INSERT INTO \"ord*\" VALUES (1, '2026-01-01 00:00:00')")
        app.commit()
    assert here("run", "--project", shop).code == 0
    operator = Operator(client(shop))
    form = {**fields_of(operator.see("/act?name=orders&do=suspend")), "reason": "x", "name": "ord*"}
    assert operator.send(form).status_code == 409
    assert "is a pattern to a command" in operator.see("/act?name=ord*&do=suspend")
    assert status(shop).suspended is None


def test_a_killed_server_leaves_what_a_killed_command_leaves(shop: Path) -> None:
    """The action outlives the server; killed in its turn, it is taken over like any run."""
    rows = 30_000

    def count_done() -> int:
        plan = status(shop).plan
        return plan.done if plan else 0

    with closing(sqlite3.connect(shop / "shop.db")) as app:
        more = [(number, f"2026-02-01 {number // 3600:02d}:00:00") for number in range(3, rows + 1)]
        app.executemany("INSERT INTO orders VALUES (?, ?)", more)
        app.commit()
    victim = subprocess.Popen(
        command("run", "--project", shop), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until(lambda: status(shop).state is State.RUNNING and status(shop).plan)
    victim.kill()
    victim.wait()
    server = subprocess.Popen(
        command("serve", "--project", shop, "--port", "0", "--allow-actions"),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr
    found = re.search(r"http://127.0.0.1:\d+", server.stderr.readline())
    assert found
    page = urlopen(f"{found[0]}/act?name=orders&do=retry", timeout=60)
    text, cookie = page.read().decode(), page.headers["set-cookie"].split(";")[0]
    assert "It covers" in text
    form = urlencode({**fields_of(text), "reason": "it was killed"}).encode()
    done = count_done()
    urlopen(Request(f"{found[0]}/act", form, {"origin": found[0], "cookie": cookie}), timeout=60).close()
    server.kill()
    server.wait()
    server.stderr.close()

    def owner() -> int:
        holder = status(shop).owner
        return holder.pid if holder else 0

    until(lambda: status(shop).state is State.RUNNING and owner() != victim.pid)
    until(lambda: count_done() > done)
    kill(owner(), signal.SIGKILL)
    until(lambda: "STUCK" in client(shop).get("/flow?name=orders").text)
    assert [one.reason for one in history(shop, "retried")] == ["it was killed"]
    assert here("run", "--project", shop).code == 0
    proven = here("verify", "--project", shop, "--json")
    assert proven.code == 0, proven.said
    assert proven.json["tables"][0]["target_rows"] == rows
