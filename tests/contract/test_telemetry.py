"""Alerts, metrics, lineage and log lines as a user meets them: SQLite to DuckDB, without Java."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.project import end, here, start, until
from tests.support.receiver import Receiver, receiving
from tests.support.servers import free_port
from tidegauge.model.secret import MASK, mask
from tidegauge.observe.metrics import METRICS
from tidegauge.operations.alerts import RUN

TOKEN = "T0ken-c4nary/pa ss"
PATH = "T0ken-c4nary/pa%20ss"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as made:
        monkeypatch.setenv("TG_HOOK", made.alert_url(PATH))
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "app.db")) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount REAL, at TEXT NOT NULL)")
        connection.execute("INSERT INTO orders VALUES (1, 2.5, '2025-01-01 12:00:00')")
        connection.commit()
    return tmp_path


def write(folder: Path, top: str, ledger: str = "sqlite:///ledger.db") -> None:
    (folder / "tidegauge.yml").write_text(
        f"pipeline: shop\nledger: '{ledger}'\n{top}\n"
        "connections:\n  app: {type: sqlite, path: app.db}\n  dw: {type: duckdb, path: dw.duckdb}\n"
        "sync:\n  - {from: app, to: dw, tables: [orders], cursor: at, settle: 0s}\n"
    )


def change(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "app.db")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


LOSE, FIND = "ALTER TABLE orders RENAME TO lost", "ALTER TABLE lost RENAME TO orders"
HOOK = 'to: ["${env:TG_HOOK}"]'


def run(folder: Path, *words: str, code: int = 0) -> dict[str, Any]:
    ran = here(*(words or ("run",)), "--json", "--project", folder)
    assert ran.code == code, ran.said
    return ran.json


def test_a_flow_that_fails_is_told_after_so_many_runs_and_its_recovery_too(
    folder: Path, receiver: Receiver
) -> None:
    write(folder, f"alerts: {{on: [failed, stuck, late, regressed], {HOOK}, after: 2, remind: 6h}}")
    change(folder, "UPDATE orders SET at = datetime('now', '-1 hour')")
    assert run(folder)["alerts"] == []
    change(folder, LOSE)
    assert run(folder, code=1)["alerts"] == []
    [told] = run(folder, code=1)["alerts"]
    assert (told["channel"], told["sent"], told["error"]) == ("json", True, None)
    assert told["incidents"] == ["failed of orders"]
    assert run(folder, code=1)["alerts"] == []
    [listed] = run(folder, "alerts", "list")["incidents"]
    assert (listed["flow"], listed["kind"]) == ("orders", "failed")
    assert run(folder, "health", "--alert", code=1)["alerts"] == []
    change(folder, FIND)
    assert run(folder)["alerts"][0]["incidents"] == ["recovered from failed of orders"]
    assert receiver.titles == ["[shop] failed: orders", "[shop] recovered: orders"]


def test_a_database_that_is_down_is_told_too_though_the_ledger_counts_nothing(
    folder: Path, receiver: Receiver
) -> None:
    write(folder, f"alerts: {{on: failed, {HOOK}, after: 2}}")
    run(folder)
    (folder / "app.db").rename(folder / "away.db")
    assert run(folder, code=1)["alerts"] == []
    assert len(run(folder, code=1)["alerts"]) == 1
    assert run(folder, "health", "--alert", code=1)["alerts"] == [], "it is told, and it is not over"
    (folder / "away.db").rename(folder / "app.db")
    assert len(run(folder)["alerts"]) == 1
    assert [title.split(":")[0] for title in receiver.titles] == ["[shop] failed", "[shop] recovered"]


def test_late_and_regressed_are_what_health_finds(folder: Path, receiver: Receiver) -> None:
    write(folder, f"alerts: {{{HOOK}}}\nhealth: {{fresh: 0s, stale: 0s}}")
    [told] = run(folder)["alerts"]
    assert told["incidents"] == ["late of orders"]
    # Somebody's hand, and no override.
    with closing(sqlite3.connect(folder / "ledger.db")) as connection:
        connection.execute(
            "UPDATE watermarks SET position = replace(position, '2025-01-01 12', '2024-01-01 12')"
        )
        connection.commit()
    found = run(folder, "health", "--alert", code=1)
    assert found["alerts"][0]["incidents"] == ["regressed of orders"]
    assert "its last batch left it at 2025-01-01 12:00:00" in receiver.requests[-1].json["message"]


def test_a_plan_that_nobody_finishes_is_stuck(folder: Path, receiver: Receiver) -> None:
    write(folder, f"alerts: {{on: stuck, {HOOK}}}\nhealth: {{stuck: 0s}}")
    change(folder, "CREATE VIEW v AS SELECT 1")
    run(folder)
    change(folder, "INSERT INTO orders VALUES (2, 'no number', datetime('now', '-1 minute'))")
    found = run(folder, code=1)
    assert found["alerts"][0]["incidents"] == ["stuck of orders"], found


def test_a_channel_that_is_down_changes_no_exit_code_and_is_reported(
    folder: Path, receiver: Receiver
) -> None:
    write(folder, 'alerts: {to: ["${env:TG_HOOK}"]}\nhealth: {fresh: 0s, stale: 0s}')
    receiver.status = 503
    ran = here("run", "--json", "--project", folder)
    assert ran.code == 0, ran.said
    [told] = ran.json["alerts"]
    assert told["sent"] is False
    assert f"warning: alerts to json were not sent, and will be tried again: {told['error']}" in ran.err
    receiver.status = 200
    assert run(folder)["alerts"][0]["sent"] is True


def test_e3_the_address_of_a_channel_is_in_nothing_that_is_printed_or_kept(
    folder: Path, receiver: Receiver
) -> None:
    write(folder, 'alerts: {to: ["${env:TG_HOOK}"]}\nhealth: {fresh: 0s, stale: 0s}')
    said = ""
    for status in (500, 200):
        receiver.status = status
        for words in (("run",), ("alerts", "test"), ("alerts", "list"), ("history",), ("health", "--alert")):
            for form in ((), ("--json",)):
                ran = here(*words, *form, "--project", folder)
                said += ran.out + ran.err
    assert receiver.requests
    kept = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    for part in ("c4nary", "pa%20ss", "T0ken"):
        assert part not in said
        assert part.encode() not in kept
    assert "c4nary" not in mask(f"Max retries exceeded with url: /{PATH}")


def test_a_test_message_says_for_each_channel_whether_it_came(folder: Path, receiver: Receiver) -> None:
    write(folder, f'alerts: {{to: ["${{env:TG_HOOK}}", "json://127.0.0.1:{free_port()}/x"]}}')
    ran = here("alerts", "test", "--project", folder)
    assert ran.code == 1
    assert "✓   json " in ran.out
    assert "✗   json-2" in ran.out
    assert receiver.titles == ["[shop] test"]
    channels = run(folder, "alerts", "test", code=1)["channels"]
    assert [(one["channel"], one["sent"]) for one in channels] == [("json", True), ("json-2", False)]


def test_metrics_parse_have_documented_names_and_come_from_any_ledger(
    folder: Path, store_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TG_LEDGER", store_address)
    write(folder, "", "${env:TG_LEDGER}")
    run(folder)
    change(folder, LOSE)
    run(folder, code=1)
    ran = here("metrics", "--project", folder)
    assert ran.code == 0, ran.said
    families = {family.name: family for family in text_string_to_metric_families(ran.out)}
    assert set(families) <= set(METRICS)
    assert all(families[name].type == METRICS[name].kind for name in families)

    def value(name: str, **labels: str) -> float:
        wanted = {"pipeline": "shop", "flow": "orders", **labels}
        [found] = [one.value for one in families[name].samples if one.labels == wanted]
        return found

    assert value("tidegauge_runs", state="SUCCESS") == 1
    assert value("tidegauge_runs", state="FAILED") == 1
    assert value("tidegauge_failures") == 1
    assert value("tidegauge_rows", kind="written") == 1
    assert value("tidegauge_batches") == 1
    assert value("tidegauge_last_run_failed") == 1
    assert value("tidegauge_lag_seconds") >= 0
    assert value("tidegauge_watermark_age_seconds", input="orders") > 86400
    assert value("tidegauge_quarantined_rows") == 0


def test_numbers_are_pushed_at_the_end_of_a_run(folder: Path, receiver: Receiver) -> None:
    write(folder, f"metrics: {{push: {receiver.url}/gateway}}")
    assert run(folder)["metrics"] == {"pushed": True, "error": None}
    [request] = receiver.requests
    assert (request.method, request.path) == ("PUT", "/gateway/metrics/job/tidegauge/pipeline/shop")
    names = {family.name for family in text_string_to_metric_families(request.body.decode())}
    assert {"tidegauge_runs", "tidegauge_rows", "tidegauge_lag_seconds"} <= names


def test_a_gateway_with_a_login_gets_it_and_one_that_is_down_breaks_nothing(
    folder: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TG_PUSH", receiver.url.replace("//", "//ops:s3cret%2F@"))
    write(folder, 'metrics: {push: "${env:TG_PUSH}"}')
    run(folder)
    assert receiver.requests[0].headers["Authorization"] == "Basic b3BzOnMzY3JldC8="
    receiver.status = 500
    ran = here("run", "--json", "--project", folder)
    assert ran.code == 0
    assert ran.json["metrics"] == {
        "pushed": False,
        "error": "the Pushgateway answered 500 Internal Server Error",
    }
    assert "warning: metrics were not pushed" in ran.err
    assert "s3cret" not in ran.said


def test_the_endpoint_answers_until_it_is_stopped(folder: Path) -> None:
    write(folder, "")
    run(folder)
    port = free_port()
    served = start("metrics", "--serve", "--port", port, "--project", folder)
    found: list[str] = []

    def asked() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                found.append(answer.read().decode())
        except OSError:
            return False
        return True

    until(asked)
    assert 'tidegauge_up{pipeline="shop"} 1.0' in found[-1]
    (folder / "ledger.db").write_bytes(b"no ledger any more")
    until(asked)
    assert 'tidegauge_up{pipeline="shop"} 0.0' in found[-1]
    served.send_signal(signal.SIGTERM)
    assert end(served).code == 143


def test_lineage_goes_to_a_file_with_windows_rows_schema_and_columns(folder: Path) -> None:
    write(folder, "lineage: {file: events.jsonl}")
    assert run(folder)["lineage"] == {"sent": 3, "error": None}
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert [event["eventType"] for event in events] == ["START", "RUNNING", "COMPLETE"]
    assert len({event["run"]["runId"] for event in events}) == 1
    last = events[-1]
    assert last["job"]["name"] == "orders"
    [source], [target] = last["inputs"], last["outputs"]
    assert (source["namespace"], source["name"]) == (f"sqlite:{folder / 'app.db'}", "orders")
    assert (target["namespace"], target["name"]) == (f"duckdb:{folder / 'dw.duckdb'}", "main.orders")
    assert source["inputFacets"]["inputStatistics"]["rowCount"] == 1
    assert target["outputFacets"]["outputStatistics"]["rowCount"] == 1
    assert [field["name"] for field in target["facets"]["schema"]["fields"]] == ["id", "amount", "at"]
    [amount] = target["facets"]["columnLineage"]["fields"]["amount"]["inputFields"]
    assert (amount["name"], amount["field"]) == ("orders", "amount")
    [window] = last["run"]["facets"]["tidegauge_windows"]["windows"]
    assert (window["input"], window["upto"]["cursor"]) == ("orders", "2025-01-01 12:00:00")
    assert last["run"]["facets"]["tidegauge_rows"]["inserted"] == 1
    assert run(folder)["lineage"] == {"sent": 0, "error": None}, "nothing new is no event"
    change(folder, LOSE)
    run(folder, code=1)
    failed = json.loads((folder / "events.jsonl").read_text().splitlines()[-1])
    assert failed["eventType"] == "FAIL"
    assert "no longer shows this table" in failed["run"]["facets"]["errorMessage"]["message"]


def test_lineage_goes_to_a_server_and_one_that_is_down_breaks_nothing(
    folder: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TG_KEY", "k3y-c4nary")
    write(folder, f'lineage: {{url: {receiver.url}/ol, api_key: "${{env:TG_KEY}}", namespace: prod}}')
    run(folder)
    assert [request.path for request in receiver.requests] == ["/ol/api/v1/lineage"] * 3
    assert receiver.requests[0].headers["Authorization"] == "Bearer k3y-c4nary"
    assert receiver.requests[0].json["job"]["namespace"] == "prod"
    receiver.status = 500
    change(folder, "INSERT INTO orders VALUES (2, 1.0, '2025-01-02 12:00:00')")
    ran = here("run", "--json", "--project", folder)
    assert ran.code == 0
    assert ran.json["lineage"] == {
        "sent": 0,
        "error": "the lineage server at 127.0.0.1 answered 500 (3 events lost)",
    }
    assert "warning: lineage was not sent" in ran.err


def test_every_log_line_is_a_json_object_with_the_same_keys(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, "")
    ran = here("run", "--json", "--log-format", "json", "--project", folder)
    assert ran.code == 0
    lines = [json.loads(line) for line in ran.err.splitlines()]
    assert len({tuple(line) for line in lines}) == 1
    assert {"at", "level", "run", "flow", "batch", "event", "rows", "seconds"} <= set(lines[0])
    assert {line["run"] for line in lines} == {ran.json["run_id"]}
    [batch] = [line for line in lines if line["event"] == "batch_committed"]
    assert (batch["flow"], batch["batch"], batch["rows"]) == ("orders", 1, 1)
    assert batch["seconds"] is not None
    monkeypatch.setenv("TIDEGAUGE_LOG_FORMAT", "json")
    change(folder, LOSE)
    failed = here("run", "--project", folder)
    assert failed.code == 1
    said = [json.loads(line) for line in failed.err.splitlines()]
    [ended] = [line for line in said if line["event"] == "flow_ended"]
    assert (ended["level"], ended["state"]) == ("error", "FAILED")
    assert said[-1]["event"] == "error"
    monkeypatch.setenv("TIDEGAUGE_LOG_FORMAT", "yaml")
    assert here("run", "--project", folder).code == 2


def test_e3_no_log_line_has_a_secret(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TG_SECRET", 'se"cret\\canary')
    write(folder, 'spark: {conf: {spark.app.name: "${env:TG_SECRET}"}}')
    run(folder)
    change(folder, 'ALTER TABLE orders ADD COLUMN "se""cret\\canary" TEXT')
    change(folder, "UPDATE orders SET at = '2025-01-02 12:00:00'")
    ran = here("run", "--log-format", "json", "--project", folder)
    assert MASK in ran.err, "the secret is there to be hidden"
    for line in ran.err.splitlines():
        assert "canary" not in json.dumps(json.loads(line), ensure_ascii=False), line


def test_nobody_is_told_of_wrong_use(folder: Path, receiver: Receiver) -> None:
    write(folder, f"alerts: {{{HOOK}}}")
    assert here("run", "--select", "nothing", "--project", folder).code == 2
    assert receiver.titles == []
    assert here("health", "--alert", "--project", folder).code == 0
    assert RUN not in "".join(receiver.titles)
    write(folder, "")
    assert here("health", "--alert", "--project", folder).code == 2
    assert here("alerts", "test", "--project", folder).code == 2


def test_a_run_waits_for_no_lineage_server_that_hangs(
    folder: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegauge.observe.lineage.PATIENCE", 0.2)
    receiver.hold.clear()
    write(folder, f"lineage: {{url: {receiver.url}}}")
    began = time.process_time()
    ran = here("run", "--json", "--project", folder)
    assert ran.code == 0
    assert ran.json["lineage"]["error"].startswith("not all events were sent within")
    assert time.process_time() - began < 60
