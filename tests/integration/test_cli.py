"""Tour §6: fields, exit codes and streams of every command, on a real project."""

from __future__ import annotations

import re

import pytest

from tests.integration.conftest import Make
from tests.support.project import Project, here, refused, shell

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
RUN = {
    "flow", "state", "batches", "rows_read", "rows_written", "rows_inserted", "rows_updated", "rows_deleted",
    "rows_quarantined", "seconds", "windows", "error",
}  # fmt: skip


@pytest.fixture
def project(make: Make) -> Project:
    """Two tables, seven orders in four batches and one customer dated in the future."""
    made = make()
    made.database.execute(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, total INTEGER, at TEXT NOT NULL)",
        "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, at TEXT NOT NULL)",
        "CREATE TABLE tmp_orders (id INTEGER PRIMARY KEY)",
    )
    made.database.insert("orders", [(n, n * 10, "2025-01-01 00:00:00") for n in range(7)])
    made.database.insert("customers", [(1, "Ada", "2025-01-01 10:00:00"), (2, "Bo", "2099-01-01 00:00:00")])
    return made.write("tables: ['*'], exclude: ['tmp_*'], cursor: at, settle: 1s, batch_rows: 2, parallel: 1")


def test_commands_that_only_look_write_nothing_on_a_project_that_never_ran(project: Project) -> None:
    before = project.traces()
    planned = project.here("plan", "--json")
    assert planned.code == 0, planned.said
    assert planned.json["schema"] == "tidegauge/plan/1"
    by_name = {flow["flow"]: flow for flow in planned.json["flows"]}
    assert set(by_name) == {"customers", "orders"}
    assert (by_name["orders"]["state"], by_name["orders"]["rows"], by_name["orders"]["batches"]) == (
        "PLANNED",
        7,
        4,
    )
    assert by_name["customers"]["rows_waiting"] == 1
    assert by_name["orders"]["windows"][0]["after"] is None
    assert project.here("status", "--json").json == {"schema": "tidegauge/status/1", "flows": []}
    assert project.here("history", "--json").json == {"schema": "tidegauge/history/1", "events": []}
    assert project.here("watermark", "list", "--json").json["watermarks"] == []
    assert project.here("files", "list", "--json").json["tables"][0]["committed"] == []
    for words in (["plan"], ["status"], ["history"], ["watermark", "list"], ["files", "list"]):
        assert project.here(*words).code == 0
    assert project.traces() == before
    assert not (project.folder / "lake").exists()


def test_run_status_watermarks_and_history_say_what_the_tour_promises(project: Project) -> None:
    ran = project.here("run", "--json")
    assert ran.code == 0, ran.said
    document = ran.json
    assert document["schema"] == "tidegauge/run/1"
    assert (document["state"], bool(document["run_id"])) == ("SUCCESS", True)
    assert [flow["flow"] for flow in document["flows"]] == ["customers", "orders"]
    orders = ran.flow("orders")
    assert set(orders) >= RUN
    assert (orders["state"], orders["batches"]) == ("SUCCESS", 4)
    assert (orders["rows_read"], orders["rows_written"]) == (7, 7)
    assert (orders["rows_inserted"], orders["rows_updated"]) == (None, None), "unknown is null, not 0"
    assert (orders["rows_deleted"], orders["rows_quarantined"], orders["error"]) == (0, 0, None)
    [window] = orders["windows"]
    assert set(window) == {"input", "cursor", "after", "upto"}
    assert (window["input"], window["cursor"], window["after"]) == ("orders", "timestamp", None)
    assert window["upto"] == {"cursor": "2025-01-01 00:00:00", "key": ["6"]}, "the last row"
    assert ran.flow("customers")["rows_waiting"] == 1
    assert "orders: planned: 7 rows in 4 batches" in ran.err

    status = project.here("status", "--json").json
    assert status["schema"] == "tidegauge/status/1"
    [_, standing] = status["flows"]
    known = {"flow", "state", "watermarks", "checked", "lag_seconds", "rows_waiting", "last_run", "lease"}
    assert set(standing) == known
    assert (standing["flow"], standing["state"], standing["lease"]) == ("orders", "SUCCESS", None)
    assert standing["watermarks"] == {"orders": window["upto"]}
    assert standing["checked"]["orders"]["cursor"] > "2026", "how far was looked"
    assert 0 <= standing["lag_seconds"] < 600
    assert standing["last_run"]["run_id"] == document["run_id"]
    assert standing["last_run"]["rows_written"] == 7

    marks = project.here("watermark", "list", "--json").json
    [_, mark] = marks["watermarks"]
    assert set(mark) == {
        "pipeline", "flow", "input", "cursor", "position", "checked", "updated_at", "epoch",
    }  # fmt: skip
    assert (mark["pipeline"], mark["flow"], mark["input"]) == ("test", "orders", "orders")
    assert (mark["cursor"], mark["position"], mark["epoch"]) == ("timestamp", window["upto"], 0)
    assert MOMENT.fullmatch(mark["updated_at"])

    one = project.here("watermark", "get", "-t", "orders", "--json").json
    assert one["stages"][0]["watermarks"][0]["position"] == window["upto"]
    assert "Current Watermark for orders" in project.here("watermark", "get", "--select", "orders").out

    events = project.here("history", "--json", "--select", "orders").json["events"]
    assert set(events[0]) == {
        "at", "pipeline", "flow", "run_id", "event", "actor", "reason", "from", "to", "error",
    }  # fmt: skip
    assert [event["event"] for event in events] == ["finished", *["advanced"] * 4, "claimed", "planned"]
    assert events[1]["to"] == window["upto"]
    assert events[4]["from"] is None
    assert len(project.here("history", "--json", "--limit", "3").json["events"]) == 3

    table = project.here("files", "list", "--json", "-t", "orders").json["tables"][0]
    assert [file["seq"] for file in table["committed"]] == [1, 2, 3, 4]
    assert sum(file["rows"] for file in table["committed"]) == 7
    assert (table["leftovers"], table["missing"]) == ([], [])


def test_nothing_new_is_skipped_with_counts_of_zero_and_exit_zero(project: Project) -> None:
    assert project.here("run", "--json").code == 0
    again = project.here("run", "--json")
    assert (again.code, again.json["state"]) == (0, "SKIPPED")
    for flow in again.json["flows"]:
        assert flow["state"] == "SKIPPED"
        counts = {name: flow[name] for name in RUN if name.startswith("rows_")}
        assert set(counts.values()) == {0}, counts
        assert flow["error"] is None
    assert project.here("history", "--json").json["events"][0]["event"] == "skipped"


def test_verify_proves_equality_and_lists_what_differs(project: Project) -> None:
    assert project.here("run").code == 0
    good = project.here("verify", "--json")
    assert good.code == 0, good.said
    for table in good.json["tables"]:
        assert set(table) >= {"table", "equal", "source_rows", "target_rows", "missing", "extra", "different"}
        assert (table["equal"], table["missing"], table["extra"], table["different"]) == (True, 0, 0, 0)
    assert {t["table"]: t["source_rows"] for t in good.json["tables"]} == {"customers": 1, "orders": 7}

    # One changed and one removed behind the cursor's back, one that came too late for it.
    project.database.execute("UPDATE orders SET total = -1 WHERE id = 3", "DELETE FROM orders WHERE id = 4")
    project.database.insert("orders", [(9, 90, "2024-01-01 00:00:00")])
    bad = project.here("verify", "--json", "-t", "orders")
    assert bad.code == 1, bad.said
    [table] = bad.json["tables"]
    assert (table["equal"], table["missing"], table["extra"], table["different"]) == (False, 1, 1, 1)
    shown = project.here("verify", "-t", "orders")
    assert shown.code == 1
    assert "missing" in shown.out


def test_doctor_finds_everything_in_order_and_names_what_is_not(project: Project) -> None:
    good = project.here("doctor", "--json")
    assert good.code == 0, good.said
    assert (good.json["schema"], good.json["healthy"]) == ("tidegauge/doctor/1", True)
    about = [finding["about"] for finding in good.json["findings"]]
    assert about[:3] == ["java", "jars", "ledger"]
    assert {"connection app", "connection lake", "table orders"} <= set(about)

    project.write("tables: ['*'], cursor: at")
    bad = project.here("doctor", "--json")
    assert bad.code == 1, bad.said
    [fault] = [finding for finding in bad.json["findings"] if not finding["ok"]]
    assert fault["about"] == "tables of app: without a cursor"
    assert "tmp_orders" in str(fault)
    assert "without_cursor" in fault["fix"]
    assert "✗ tables of app: without a cursor" in project.here("doctor").out


def test_people_get_tables_on_stdout_and_progress_on_stderr(project: Project) -> None:
    ran = project.here("run")
    assert ran.code == 0, ran.said
    assert re.search(r"orders +SUCCESS +4 +7 ", ran.out), ran.out
    assert "batch 4/4" in ran.err
    assert "batch" not in ran.out.replace("batches", "")
    assert re.search(r"orders +SUCCESS", project.here("status").out)
    assert "advanced" in project.here("history").out


def test_wrong_use_is_exit_code_2_and_a_hint(project: Project) -> None:
    refused(project.here("run", "--select", "ordrs"), "ordrs", "orders", code=2)
    refused(project.here("run", "--wait", "soon"), "soon", code=2)
    refused(project.here("watermark", "get", "-t", "nobody"), "nobody", code=2)
    assert project.here("run", "--parallel", "0").code == 2
    assert project.here("run", "--no-such-option").code == 2
    assert shell("run", "--project", project.folder / "no-such-folder").code == 2


def test_an_error_under_json_is_one_document_too(project: Project) -> None:
    wrong = project.here("run", "--json", "--select", "ordrs")
    assert wrong.code == 2
    assert wrong.json["schema"] == "tidegauge/error/1"
    assert set(wrong.json["error"]) == {"type", "message", "hint", "retryable"}


def test_select_table_and_tag_run_only_what_they_name(project: Project) -> None:
    project.write(
        "tables: [orders], cursor: at, settle: 1s, tags: [money]",
        "tables: [customers], cursor: at, settle: 1s",
    )
    ran = project.here("run", "--json", "--select", "tag:money")
    assert [flow["flow"] for flow in ran.json["flows"]] == ["orders"], ran.said
    ran = project.here("run", "--json", "-t", "cust*")
    assert [flow["flow"] for flow in ran.json["flows"]] == ["customers"], ran.said


def test_leftovers_are_listed_and_cleaned_with_a_reason_that_the_history_keeps(project: Project) -> None:
    assert project.here("run").code == 0
    left = project.folder / "lake" / "orders" / "data" / "dead" / "part-0.parquet"
    left.parent.mkdir()
    left.write_bytes(b"half a file")
    [table] = project.here("files", "list", "--json", "-t", "orders").json["tables"]
    assert [one["path"] for one in table["leftovers"]] == ["data/dead/part-0.parquet"]

    refused(project.here("files", "clean", "--older-than", "0s", "--yes"), "reason", code=2)
    look = project.here("files", "clean", "--older-than", "0s", "--dry-run", "--json")
    assert (look.code, look.json["deleted"]) == (0, False)
    assert left.exists()
    asked = project.here("files", "clean", "--older-than", "0s", "--reason", "spring")
    refused(asked, "not confirmed", code=2)
    assert left.exists()
    done = project.here("files", "clean", "--older-than", "0s", "--reason", "spring", "--yes")
    assert done.code == 0, done.said
    assert not left.exists()
    newest = project.here("history", "--json", "--limit", "1").json["events"][0]
    assert (newest["event"], newest["reason"]) == ("files_cleaned", "spring")
    assert project.here("verify", "--json", "-t", "orders").code == 0


def test_a_new_project_from_init_runs_and_is_proven(project: Project) -> None:
    folder = project.folder / "fresh"
    made = shell("init", folder, "--json")
    assert made.code == 0, made.said
    assert made.json["schema"] == "tidegauge/init/1"
    ran = here("run", "--json", "--project", folder)
    assert ran.code == 0, ran.said
    assert {flow["state"] for flow in ran.json["flows"]} == {"SUCCESS"}
    assert here("verify", "--project", folder).code == 0
    refused(here("init", folder), "is there already", code=2)


def test_the_ledger_is_migrated_on_request(project: Project) -> None:
    made = project.here("ledger", "migrate", "--json")
    assert made.code == 0, made.said
    assert made.json["from"] is None
    again = project.here("ledger", "migrate", "--json").json
    assert again["from"] == again["to"] == made.json["to"]
