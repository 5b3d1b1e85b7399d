"""`watermark get` prints both stages, whatever the ledger's store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.drafts import ME, draft, nothing_new, receipt
from tests.support.project import Ran, here
from tidegauge.ledger.open import Ledger, open_ledger
from tidegauge.model.plan import Batch, Draft, InputPlan
from tidegauge.model.position import FilesPosition, Window
from tidegauge.model.state import State

MINUTE = timedelta(minutes=1)
PROJECT = """\
pipeline: shop
ledger: {ledger}
connections:
  app: {{type: sqlite, path: shop.db}}
  lake: {{type: parquet, path: lake}}
  bucket: {{type: parquet, path: s3a://company-lake/raw}}
  duck: {{type: duckdb, path: dw.duckdb}}
sync:
  - {{from: app, via: lake, to: duck, tables: [orders, new_table], cursor: updated_at,
     override: {{new_table: {{cursor: updated_at, initial: "2025-01-01 00:00:00"}}}}}}
  - {{from: app, to: bucket, tables: claims, cursor: id}}
  - {{from: app, to: duck, tables: partners, cursor: updated_at}}
"""


@pytest.fixture(params=["sqlite:///ledger.db", "json:ledger"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "tidegauge.yml").write_text(PROJECT.format(ledger=request.param))
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        for table in ("orders", "claims", "partners", "new_table"):
            database.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, updated_at TEXT)")
    return tmp_path


@pytest.fixture
def ledger(folder: Path) -> Iterator[Ledger]:
    written = (folder / "tidegauge.yml").read_text().splitlines()[1].removeprefix("ledger: ")
    address = written.replace("json:", f"json:{folder}/").replace("sqlite:///", f"sqlite:///{folder}/")
    with open_ledger(address, create=True) as opened:
        yield opened


def get(folder: Path, *words: str) -> Ran:
    return here("watermark", "get", *words, "--project", folder)


def ran(ledger: Ledger, one: Draft, *paths: str, error: dict[str, str] | None = None) -> None:
    plan = ledger.plan([one], owner=ME, run_id="run")[one.flow]
    claim = ledger.claim(plan, owner=ME, run_id="run", lease=MINUTE)
    done = 0 if error else len(one.batches)
    for index in range(done):
        ledger.begin(claim, index)
        ledger.advance(claim, index, receipt(plan, index, rows=625_000, paths=paths))
    ledger.finish(claim, State.FAILED if error else State.SUCCESS, error)


def of_files(flow: str, upto: int) -> Draft:
    window = Window(None, FilesPosition(upto))
    part = InputPlan("orders", "files", window, "lake/orders", "f00d")
    return Draft("shop", flow, (part,), (Batch((window,)),))


def test_a_run_that_found_nothing_new_went_well(folder: Path, ledger: Ledger) -> None:
    ran(ledger, draft("orders/extract", batches=2))
    ledger.plan([nothing_new("orders/extract")], owner=ME, run_id="run")
    assert "      Status: success (nothing new)" in get(folder, "-t", "orders").out
    found = get(folder, "-t", "orders", "--json").json
    assert (found["mysql_status"], found["metadata"]["mysql_nothing_new"]) == ("success", True)


def test_both_stages_of_a_table_are_shown_as_the_document_shows_them(folder: Path, ledger: Ledger) -> None:
    ran(ledger, replace(draft("orders/extract", batches=2), strategy="sequential"))
    ran(ledger, of_files("orders/load", 2), "/lake/a.parquet", "/lake/b.parquet")
    shown = get(folder, "-t", "orders")
    assert shown.code == 0, shown.said
    times = ("Last Extraction Time: ", "Last Load Time: ")
    lines = [next((mark for mark in times if mark in line), line) for line in shown.out.splitlines()]
    assert lines == [
        "📅 Current Watermark for orders:",
        "",
        "   🔄 SQLite → files Backup Stage:",
        "      Status: success",
        "      Rows Extracted: 1,250,000",
        "      Files Created: 2",
        "      Last Data Timestamp: 2025-08-14T00:00:02.123456",
        "      Checked Up To: 2025-08-14 00:00:02.123456 · 18446744073709551613",
        "Last Extraction Time: ",
        "",
        "   📊 files → DuckDB Loading Stage:",
        "      Status: success",
        "      Rows Loaded: 625,000",
        "Last Load Time: ",
        "",
        "   🔜 Next Incremental Backup:",
        "      Will start from: 2025-08-14 00:00:02.123456",
    ]
    found = get(folder, "--select", "orders", "--json").json
    assert found["schema"] == "tidegauge/watermark/1"
    assert (found["table_name"], found["pipeline"]) == ("orders", "shop")
    assert (found["mysql_rows_extracted"], found["mysql_status"]) == (1_250_000, "success")
    assert (found["redshift_rows_loaded"], found["redshift_status"]) == (625_000, "success")
    assert (found["s3_file_count"], found["backup_strategy"]) == (2, "sequential")
    assert found["processed_s3_files"] == ["/lake/a.parquet", "/lake/b.parquet"]
    assert found["processed_s3_file_count"] == 2
    assert found["created_at"] < found["updated_at"]
    assert found["metadata"]["average_batch_size"] == 625_000
    extract, load = found["stages"]
    assert (extract["flow"], extract["stage"], extract["state"]) == ("orders/extract", "extract", "SUCCESS")
    [mark] = extract["watermarks"]
    assert mark["position"] == {"cursor": "2025-08-14 00:00:02.123456", "key": [str(2**64 - 3)]}
    assert (mark["epoch"], mark["sequence"]) == (0, 2)
    assert (load["stage"], load["watermarks"][0]["position"]) == ("load", 2)


def test_a_stage_that_has_not_run_and_one_that_failed_say_so(folder: Path, ledger: Ledger) -> None:
    ran(ledger, draft("orders/extract", batches=2), error={"type": "SparkFailed", "message": "no room"})
    shown = get(folder, "-t", "orders").out
    assert "Status: failed" in shown
    assert "Last Error: SparkFailed: no room" in shown
    assert "Status: not run yet" in shown
    assert "Will start from: the beginning" in shown
    only = get(folder, "--select", "orders/extract").out
    assert "SQLite → files" in only
    assert "Loading Stage" not in only


def test_a_new_table_says_where_it_will_start(folder: Path, ledger: Ledger) -> None:
    assert ledger.status("shop") == []
    shown = get(folder, "-t", "new_table")
    assert shown.out == "No watermark found, will start from default: 2025-01-01 00:00:00\n"
    assert get(folder, "-t", "orders").out == "No watermark found, will start from default: the beginning\n"
    found = get(folder, "-t", "new_table", "--json").json
    assert (found["mysql_status"], found["will_start_from"]) == (None, "2025-01-01 00:00:00")
    assert [stage["watermarks"] for stage in found["stages"]] == [[], []]
    wrong = get(folder, "-t", "nobody")
    assert wrong.code == 2
    assert "nobody" in wrong.err


def test_tables_of_one_stage_are_shown_by_what_they_are(folder: Path, ledger: Ledger) -> None:
    ran(ledger, draft("claims", inputs=("claims",)))
    ran(ledger, draft("partners", inputs=("partners",)))
    # The source is not asked for what the ledger knows.
    (folder / "shop.db").unlink()
    claims = get(folder, "-t", "claims").out
    assert "🔄 SQLite → S3 Backup Stage:" in claims
    assert "S3 Files Created: 3" in claims
    assert "Loading Stage" not in claims
    partners = get(folder, "-t", "partners").out
    assert "🔄 SQLite → DuckDB Sync Stage:" in partners
    assert "Rows Synced: 1,875,000" in partners
    assert "🔜 Next Incremental Sync:" in partners


def test_a_flow_that_the_project_file_no_longer_has_is_still_shown(folder: Path, ledger: Ledger) -> None:
    ran(ledger, draft("gone/extract"))
    shown = get(folder, "-t", "gone")
    assert shown.code == 0, shown.said
    assert "Current Watermark for gone" in shown.out


def test_get_needs_one_name(folder: Path, ledger: Ledger) -> None:
    ran(ledger, draft("orders/extract"))
    ran(ledger, draft("claims"))
    assert get(folder).code == 2
    several = get(folder, "--select", "*")
    assert several.code == 2
    assert "2 tables: claims, orders" in several.err
