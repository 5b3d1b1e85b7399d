"""Tour §2: two stages from a database through a lake into a warehouse, by every word of the command line."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.integration.conftest import Make
from tests.support.project import Project, Ran, refused, unchanged

WHY = ("--reason", "tried in a test", "--yes")
ROUTE = "via: lake, to: warehouse"
WAREHOUSE = "  warehouse: {type: duckdb, path: warehouse.duckdb}\n"
OPTIONS = "cursor: at, settle: 1s, batch_rows: 3, parallel: 1"


@pytest.fixture
def project(make: Make) -> Project:
    """Five orders on five days, in two batches; and customers."""
    made = make()
    made.database.execute(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, total INTEGER, at TEXT NOT NULL)",
        "CREATE TABLE customers (id INTEGER PRIMARY KEY, at TEXT NOT NULL)",
    )
    made.database.insert("orders", [(n, n * 10, f"2025-01-0{n} 12:00:00") for n in range(1, 6)])
    made.database.insert("customers", [(1, "2025-01-01 10:00:00")])
    return made.write(f"tables: [orders], {OPTIONS}", route=ROUTE, connections=WAREHOUSE)


def query(project: Project, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(project.folder / "warehouse.duckdb"), read_only=True) as connection:
        return connection.execute(sql).fetchall()


def landed(project: Project) -> dict[int, int]:
    return dict(query(project, "SELECT id, total FROM orders"))


def positions(project: Project) -> dict[str, Any]:
    marks = project.here("watermark", "list", "--json").json["watermarks"]
    return {mark["flow"]: mark["position"] for mark in marks}


def done(project: Project, *words: str, code: int = 0) -> Ran:
    ran = project.here(*words, "--json")
    assert ran.code == code, ran.said
    return ran


def counts(ran: Ran, flow: str) -> tuple[int | None, ...]:
    found = ran.flow(flow)
    return tuple(found[f"rows_{which}"] for which in ("written", "inserted", "updated", "deleted"))


EVERY = {n: n * 10 for n in range(1, 6)}


def test_sync_brings_one_table_through_both_stages_and_the_second_time_only_what_is_new(
    project: Project,
) -> None:
    first = done(project, "sync", "-t", "orders")
    assert first.json["schema"] == "tidegauge/sync/1"
    assert [flow["flow"] for flow in first.json["flows"]] == ["orders/extract", "orders/load"]
    assert counts(first, "orders/load") == (5, 5, 0, 0)
    assert counts(first, "orders/extract")[:2] == (5, None), "a lake cannot tell what is new in it"
    assert landed(project) == EVERY

    project.database.execute("UPDATE orders SET total = -1, at = '2025-02-01 00:00:00' WHERE id = 2")
    project.database.insert("orders", [(6, 60, "2025-02-01 00:00:00")])
    project.database.execute("UPDATE orders SET at = '2099-01-01 00:00:00' WHERE id = 3")
    # Long past, and yet above the newest row delivered: what is dated in the future waits.
    again = done(project, "sync")
    assert counts(again, "orders/load") == (2, 1, 1, 0)
    assert again.flow("orders/extract")["rows_waiting"] == 1
    assert landed(project) == EVERY | {2: -1, 6: 60}
    assert done(project, "sync").json["state"] == "SKIPPED"
    shown = project.here("sync", "-t", "orders")
    assert shown.code == 0
    assert "inserted" not in shown.out, "nothing was committed, so nothing is counted"


def test_f3_both_stages_show_how_far_they_came_in_time(project: Project) -> None:
    done(project, "run")
    with closing(sqlite3.connect(project.ledger_file)) as ledger:
        reached = dict(ledger.execute("SELECT table_name, watermark_to FROM etl_pipeline_sync_control"))
        ready = dict(
            ledger.execute("SELECT pipeline_name, last_processed_ts FROM watermarks_v WHERE status = 'READY'")
        )
        texts = dict(ledger.execute("SELECT flow, upto_text FROM runs"))
    assert reached["orders/extract"] is not None
    assert reached["orders/load"] == reached["orders/extract"]
    assert ready == {f"test/{flow}": at for flow, at in reached.items()}
    assert texts["orders/load"] == "batch 2"
    assert texts["orders/extract"][:4] in reached["orders/extract"]


def test_the_closing_table_counts_what_the_warehouse_can_tell(project: Project) -> None:
    shown = project.here("run")
    assert shown.code == 0, shown.said
    assert re.search(r"flow +state +batches +rows +inserted +updated +deleted +seconds", shown.out), shown.out
    assert re.search(r"orders/load +SUCCESS +2 +5 +5 +0 +0 ", shown.out), shown.out
    assert re.search(r"orders/extract +SUCCESS +2 +5 +— +— +0 ", shown.out), shown.out


def test_one_stage_runs_by_itself_and_the_other_later(project: Project) -> None:
    backup = done(project, "sync", "-t", "orders", "--backup-only")
    assert [flow["flow"] for flow in backup.json["flows"]] == ["orders/extract"]
    planned = {flow["flow"]: flow for flow in done(project, "plan").json["flows"]}
    assert (planned["orders/extract"]["state"], planned["orders/extract"]["rows"]) == ("SKIPPED", 0)
    assert (planned["orders/load"]["state"], planned["orders/load"]["rows"]) == ("PLANNED", 5)
    assert planned["orders/load"]["windows"][0] == {
        "input": "orders", "cursor": "files", "after": None, "upto": 2,
    }  # fmt: skip
    load = done(project, "sync", "-t", "orders", "--redshift-only")
    assert [flow["flow"] for flow in load.json["flows"]] == ["orders/load"]
    assert landed(project) == EVERY
    assert done(project, "run", "--stage", "load").json["state"] == "SKIPPED"


def test_a_load_goes_on_while_the_source_is_down(project: Project) -> None:
    done(project, "sync", "--backup-only")
    (project.folder / "source.db").rename(project.folder / "away.db")
    assert counts(done(project, "sync", "-t", "orders", "--redshift-only"), "orders/load") == (5, 5, 0, 0)
    assert landed(project) == EVERY


def test_a_dry_run_is_the_plan_of_both_stages_and_writes_nothing(project: Project) -> None:
    before = project.traces()
    dry = done(project, "sync", "-t", "orders", "--dry-run")
    assert dry.json == done(project, "plan", "-t", "orders").json | {"flows": dry.json["flows"]}
    assert dry.json["schema"] == "tidegauge/plan/1"
    extract, load = dry.json["flows"]
    assert (extract["flow"], extract["rows"], extract["batches"]) == ("orders/extract", 5, 2)
    assert (load["flow"], load["rows"], load["state"]) == ("orders/load", 0, "SKIPPED")
    assert load["notes"] == ["what orders/extract brings comes after that: 5 rows"]
    limited = done(project, "run", "--dry-run", "--limit", "3").json["flows"][0]
    assert (limited["rows"], limited["batches"]) == (3, 1)
    assert "what orders/extract brings" in project.here("plan").out
    assert project.traces() == before


def test_a_limit_stops_at_a_batch_end_and_the_watermark_is_exactly_there(project: Project) -> None:
    shown = project.here("sync", "-t", "orders", "--limit", "4")
    assert shown.code == 0, shown.said
    assert re.search(r"orders/extract: .*limit", shown.out), shown.out
    there = positions(project)["orders/extract"]
    read = int(there["key"][0])
    assert 0 < read <= 4
    assert there["cursor"] == f"2025-01-0{read} 12:00:00"
    assert landed(project) == {n: n * 10 for n in range(1, read + 1)}
    ran = done(project, "sync", "-t", "orders", "--limit", "1000")
    assert counts(ran, "orders/load")[0] == 5 - read
    assert landed(project) == EVERY


def test_runs_under_a_limit_get_on_each_time(project: Project) -> None:
    seen = []
    for _ in range(4):
        done(project, "sync", "-t", "orders", "--limit", "2")
        seen.append(len(landed(project)))
    assert seen == [2, 4, 5, 5]


def test_a_limit_stops_an_earlier_plan_at_a_batch_end_and_that_is_no_failure(project: Project) -> None:
    done(project, "sync", "--backup-only")
    shown = project.here("sync", "--redshift-only", "--limit", "2")
    assert shown.code == 0, shown.said
    assert "orders/load: stopped at the limit of 2 rows" in shown.out
    assert "error" not in shown.err
    assert positions(project)["orders/load"] == 1
    left = [one["state"] for one in done(project, "status", "-t", "orders/load").json["flows"]]
    assert left == ["PLANNED"]
    ran = done(project, "sync", "--limit", "1")
    assert [flow["rows_written"] for flow in ran.json["flows"] if flow["flow"] == "orders/load"] == [2]
    assert landed(project) == EVERY


def test_strategies_all_bring_the_same(project: Project) -> None:
    project.write(f"tables: ['*'], {OPTIONS}")
    for number, strategy in enumerate(("sequential", "inter-table", "intra-table")):
        if number:
            done(project, "watermark", "reset", "--select", "*", *WHY)
        ran = done(project, "run", "--strategy", strategy, "--parallel", "2")
        assert counts(ran, "orders/load")[0] == 5
        assert landed(project) == EVERY
    assert query(project, "SELECT id FROM customers") == [(1,)]
    assert project.here("run", "--strategy", "sideways").code == 2


def test_a_full_refresh_shows_asks_empties_and_begins_again(project: Project) -> None:
    done(project, "sync")
    project.database.execute("DELETE FROM orders WHERE id = 1")
    words = ("sync", "-t", "orders", "--full-refresh")
    with unchanged(project):
        refused(project.here(*words), "--full-refresh", "reason", code=2)
        refused(project.here(*words, "--reason", "x"), "not confirmed", code=2)
        look = done(project, *words, "--dry-run").json
        shown = project.here(*words, "--dry-run")
    assert (look["schema"], look["flows"], look["run_id"]) == ("tidegauge/sync/1", [], None)
    assert [(one["flow"], one["rows_read_again"]) for one in look["refreshed"]] == [
        ("orders/extract", 4),
        ("orders/load", 5),
    ]
    assert "every row of warehouse: main.orders is deleted" in shown.out
    assert landed(project) == EVERY
    ran = done(project, *words, *WHY)
    assert counts(ran, "orders/load") == (4, 4, 0, 0)
    assert [(one["flow"], one["epoch"], one["error"]) for one in ran.json["refreshed"]] == [
        ("orders/extract", 1, None),
        ("orders/load", 1, None),
    ]
    assert landed(project) == {n: n * 10 for n in range(2, 6)}
    events = project.here("history", "--json", "-t", "orders", "--limit", "99").json["events"]
    assert {event["flow"] for event in events if event["event"] == "refresh"} == {
        "orders/extract",
        "orders/load",
    }
    assert done(project, "sync").json["state"] == "SKIPPED"


def test_a_full_refresh_of_one_stage_loads_the_lake_again(project: Project) -> None:
    done(project, "sync")
    with duckdb.connect(str(project.folder / "warehouse.duckdb")) as connection:
        connection.execute("INSERT INTO orders VALUES (99, 0, 'by hand')")
    before = positions(project)["orders/extract"]
    ran = done(project, "run", "-t", "orders", "--stage", "load", "--full-refresh", *WHY)
    assert [flow["flow"] for flow in ran.json["flows"]] == ["orders/load"]
    assert landed(project) == EVERY
    assert positions(project)["orders/extract"] == before


def test_a_fresh_complete_sync_works_as_document_002_types_it(project: Project) -> None:
    done(project, "sync")
    project.database.execute("UPDATE orders SET total = 0")
    clean = project.here("s3clean", "clean", "-t", "orders")
    assert (clean.code, "nothing to clean" in clean.out) == (0, True), clean.said
    reset = done(project, "watermark", "reset", "-t", "orders", *WHY).json
    assert [one["flow"] for one in reset["flows"]] == ["orders/extract", "orders/load"]
    ran = done(project, "sync", "-t", "orders")
    assert counts(ran, "orders/load") == (5, 0, 5, 0)
    assert landed(project) == dict.fromkeys(EVERY, 0)
    listed = project.here("s3clean", "list", "-t", "orders")
    assert listed.out.count("earlier epoch") == 2
    assert listed.out.count("committed") == 2


def test_resets_and_sets_go_by_stage(project: Project) -> None:
    done(project, "sync")
    stood = positions(project)
    [one] = done(project, "watermark", "reset", "-t", "orders", "--redshift-only", *WHY).json["flows"]
    assert (one["flow"], one["rows_read_again"]) == ("orders/load", 5)
    assert positions(project) == stood | {"orders/load": None}
    [one] = done(project, "watermark", "undo", "-t", "orders", "--stage", "load", *WHY).json["flows"]
    assert one["flow"] == "orders/load"
    assert positions(project) == stood
    [one] = done(project, "watermark", "reset", "-t", "orders", "--mysql-only", *WHY).json["flows"]
    assert one["flow"] == "orders/extract"
    done(project, "watermark", "undo", "-t", "orders", *WHY)
    day = "2025-01-03 12:00:00"
    [one] = done(project, "watermark", "set", "-t", "orders", "--timestamp", day, "--force", *WHY).json[
        "flows"
    ]
    assert (one["flow"], one["rows_read_again"]) == ("orders/extract", 2), "a timestamp is extract's"
    words = ("watermark", "set", "-t", "orders", "--stage", "load", "--position", "1", "--force", *WHY)
    [one] = done(project, *words).json["flows"]
    assert (one["flow"], one["to"], one["rows_read_again"]) == ("orders/load", 1, 2)
    assert positions(project)["orders/load"] == 1
    assert done(project, "sync").code == 0
    assert landed(project) == EVERY


def test_an_export_holds_both_stages_and_an_import_brings_them_back(project: Project, tmp_path: Path) -> None:
    done(project, "sync")
    file = tmp_path / "marks.json"
    done(project, "watermark", "export", str(file), "-t", "orders")
    marks = json.loads(file.read_text())["watermarks"]
    assert [mark["flow"] for mark in marks] == ["orders/extract", "orders/load"]
    assert [
        m["flow"] for m in done(project, "watermark", "export", "--stage", "load").json["watermarks"]
    ] == ["orders/load"]
    stood = positions(project)
    done(project, "watermark", "reset", "-t", "orders", *WHY)
    assert positions(project) == dict.fromkeys(stood)
    [one] = done(project, "watermark", "import", str(file), "--stage", "extract", "--force", *WHY).json[
        "flows"
    ]
    assert one["flow"] == "orders/extract"
    done(project, "watermark", "import", str(file), "--force", *WHY)
    assert positions(project) == stood


def test_a_copy_goes_between_the_first_stages(project: Project) -> None:
    project.write(f"tables: ['*'], {OPTIONS}")
    done(project, "sync", "-t", "orders")
    [one] = done(project, "watermark", "copy", "--from", "orders", "--to", "customers", *WHY).json["flows"]
    assert (one["flow"], one["to"]) == ("customers/extract", positions(project)["orders/extract"])


def test_status_and_history_of_a_table_show_both_stages(project: Project) -> None:
    done(project, "sync")
    status = done(project, "status", "-t", "orders").json["flows"]
    assert [one["flow"] for one in status] == ["orders/extract", "orders/load"]
    events = done(project, "history", "-t", "orders", "--limit", "50").json["events"]
    assert {event["flow"] for event in events} == {"orders/extract", "orders/load"}
    assert [event["at"] for event in events] == sorted((event["at"] for event in events), reverse=True)
    assert len(done(project, "history", "-t", "orders", "--limit", "3").json["events"]) == 3


def test_retry_ends_a_failed_plan_with_its_own_window_and_plans_nothing_new(project: Project) -> None:
    nothing = done(project, "retry")
    assert (nothing.json["schema"], nothing.json["flows"]) == ("tidegauge/retry/1", [])
    assert "nothing to do" in project.here("retry").out
    project.database.execute("UPDATE orders SET total = 'many' WHERE id = 5")
    failed = project.here("sync", "-t", "orders", "--json")
    assert (failed.code, failed.flow("orders/extract")["state"]) == (1, "FAILED"), failed.said
    assert failed.flow("orders/load")["state"] == "SKIPPED"
    project.database.execute("UPDATE orders SET total = 50 WHERE id = 5")
    project.database.insert("orders", [(7, 70, "2025-01-07 12:00:00")])
    ran = done(project, "retry")
    assert [(flow["flow"], flow["resumed"]) for flow in ran.json["flows"]] == [("orders/extract", True)]
    assert ran.flow("orders/extract")["windows"] == failed.flow("orders/extract")["windows"]
    assert done(project, "retry").json["flows"] == []
    done(project, "sync", "--redshift-only")
    assert EVERY.items() <= landed(project).items()


def test_verify_data_proves_the_targets_at_once_and_differences_are_exit_1(project: Project) -> None:
    good = done(project, "sync", "-t", "orders", "--verify-data")
    tables = {one["table"]: one for one in good.json["verify"]["tables"]}
    assert set(tables) == {"orders"}
    assert all(one["equal"] for one in tables.values())
    with duckdb.connect(str(project.folder / "warehouse.duckdb")) as connection:
        connection.execute("UPDATE orders SET total = -1 WHERE id = 3")
        connection.execute("DELETE FROM orders WHERE id = 4")
    bad = done(project, "sync", "-t", "orders", "--verify-data", code=1)
    tables = {one["table"]: one for one in bad.json["verify"]["tables"]}
    assert bad.json["state"] == "SKIPPED"
    found = tables["orders"]
    assert (found["equal"], found["missing"], found["extra"], found["different"]) == (False, 1, 0, 1)
    shown = project.here("sync", "-t", "orders", "--verify-data")
    assert (shown.code, "✗" in shown.out) == (1, True), shown.said


def test_one_stage_straight_into_a_warehouse(project: Project) -> None:
    project.write(f"tables: [orders], {OPTIONS}, rename: '{{table}}_copy'", route="to: warehouse")
    ran = done(project, "sync", "-t", "orders")
    assert counts(ran, "orders") == (5, 5, 0, 0)
    assert query(project, "SELECT count(*) FROM orders_copy") == [(5,)]
    words = ("sync", "-t", "orders", "--full-refresh", *WHY)
    assert counts(done(project, *words), "orders") == (5, 5, 0, 0)
    assert query(project, "SELECT count(*) FROM orders_copy") == [(5,)]


def test_an_appending_target_is_not_reset_without_being_emptied(project: Project) -> None:
    project.write(f"tables: [orders], {OPTIONS}, mode: append")
    done(project, "sync")
    with unchanged(project):
        refused(project.here("watermark", "reset", "-t", "orders", *WHY), "appends", "--full-refresh", code=2)
    done(project, "sync", "-t", "orders", "--full-refresh", *WHY)
    assert query(project, "SELECT count(*) FROM orders") == [(5,)]


def test_wrong_use_is_exit_code_2_and_changes_nothing(project: Project) -> None:
    with unchanged(project):
        both = project.here("sync", "-t", "orders", "--backup-only", "--redshift-only")
        refused(both, "--backup-only", "--redshift-only", code=2)
        refused(project.here("sync", "--stage", "load", "--backup-only"), "exclude each other", code=2)
        refused(
            project.here("watermark", "reset", "-t", "orders", "--mysql-only", "--redshift-only", *WHY),
            "exclude each other",
            code=2,
        )
        refused(project.here("run", "--reason", "none"), "--full-refresh", code=2)
        refused(project.here("sync", "-t", "ordres"), "ordres", "orders", code=2)
        for words in (("--limit", "0"), ("--parallel", "0"), ("--stage", "middle"), ("--limit", "many")):
            assert project.here("sync", *words).code == 2
    project.write(f"tables: [orders], {OPTIONS}", route="to: lake")
    with unchanged(project):
        refused(project.here("sync", "--redshift-only"), "--stage load", code=2)
        reset = project.here("watermark", "reset", "-t", "orders", "--redshift-only", *WHY)
        refused(reset, "--stage load", code=2)


def test_every_command_knows_json_and_debug(project: Project) -> None:
    for words in (
        ["sync"],
        ["run"],
        ["backfill"],
        ["retry"],
        ["plan"],
        ["s3clean", "list"],
        ["s3clean", "clean"],
    ):
        shown = project.here(*words, "--help").out
        assert "--json" in shown, words
        assert "--debug" in shown, words
