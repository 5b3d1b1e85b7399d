"""The views beside the ledger's tables, on every SQL store; and the queries of `docs/monitoring.md`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from sqlalchemy import text

from tests.contract.test_ledger_callers import versions
from tests.support.drafts import ME, draft, nothing_new, receipt
from tests.support.servers import Postgres
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.sql_ledger import SqlLedger
from tidegauge.ledger.views import open_views
from tidegauge.model.plan import Batch, Draft, InputPlan
from tidegauge.model.position import (
    FilesPosition,
    Position,
    RowPosition,
    Value,
    ValueKind,
    VersionPosition,
    Window,
)
from tidegauge.model.protocols.ledger import LedgerWriter
from tidegauge.model.state import State
from tidegauge.model.watermark import Watermark

MINUTE = timedelta(minutes=1)
QUERIES = re.findall(
    r"```sql\n(.*?)```", (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text(), re.DOTALL
)


@pytest.fixture
def ledger(sql_ledger_address: str) -> Iterator[SqlLedger]:
    with open_ledger(sql_ledger_address, create=True) as opened:
        assert isinstance(opened, SqlLedger)
        yield opened


def rows(ledger: SqlLedger, sql: str) -> list[dict[str, Any]]:
    with ledger._engine.connect() as connection:
        return [dict(row._mapping) for row in connection.execute(text(sql))]


def ran(ledger: LedgerWriter, state: State = State.SUCCESS, *, start: int = 0) -> None:
    one = draft("shop", batches=1, start=start)
    plan = ledger.plan([one], owner=ME, run_id="job")["shop"]
    claim = ledger.claim(plan, owner=ME, run_id=f"job {start} {state}", lease=MINUTE)
    if state is State.SUCCESS:
        ledger.begin(claim, 0)
        ledger.advance(claim, 0, receipt(plan, 0, changed=(6, 3, 0)))
    ledger.finish(
        claim, state, {"type": "Boom", "message": 'it "broke" ☂'} if state is State.FAILED else None
    )


def moment(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)


def test_watermarks_v_has_the_nine_columns_and_two_more_and_a_ready_row_only_after_success(
    ledger: SqlLedger,
) -> None:
    ran(ledger, State.FAILED)
    [failed] = rows(ledger, "SELECT * FROM watermarks_v")
    assert list(failed) == [
        "watermark_id",
        "pipeline_name",
        "job_id",
        "last_processed_ts",
        "current_run_ts",
        "last_processed_version",
        "status",
        "created_at",
        "updated_at",
        "error_message",
        "run_duration",
    ]
    assert failed["error_message"] == 'it "broke" ☂'
    assert 0 <= failed["run_duration"] < 60
    assert (failed["pipeline_name"], failed["status"], failed["last_processed_ts"]) == (
        "shop",
        "FAILED",
        None,
    )
    ran(ledger)
    done, ready = rows(ledger, "SELECT * FROM watermarks_v ORDER BY watermark_id")
    assert done["watermark_id"] == failed["watermark_id"]
    assert (done["status"], done["job_id"]) == ("SUCCESS", "job 0 SUCCESS")
    assert (ready["status"], ready["job_id"], ready["current_run_ts"]) == ("READY", None, None)
    end = datetime(2025, 8, 14, 0, 0, 1, 123456)
    assert moment(done["current_run_ts"]) == moment(ready["last_processed_ts"]) == end
    assert ready["last_processed_version"] == 1755129601123
    assert ready["watermark_id"] > done["watermark_id"]
    ledger.plan([nothing_new("shop")], owner=ME, run_id="job")
    ran(ledger, State.SKIPPED, start=1)
    ran(ledger, State.FAILED, start=1)
    _, again = rows(ledger, "SELECT * FROM watermarks_v ORDER BY watermark_id")
    assert (again["watermark_id"], again["status"]) == (ready["watermark_id"], "FAILED"), "one record"


def text_at(clock: str) -> RowPosition:
    """As SQLite keeps its timestamps."""
    return RowPosition(Value(ValueKind.TEXT, f"2026-01-01T{clock}Z"), (Value(ValueKind.INT, "7"),))


EVERY: dict[str, tuple[str, list[Position], list[str | None], list[str], list[datetime | None]]] = {
    "text": (
        "timestamp",
        [text_at("10:00:00"), text_at("11:00:00.1234567"), text_at("12:00:00")],
        [None, None, None],
        ["2026-01-01T10:00:00Z · 7", "2026-01-01T11:00:00.1234567Z · 7", "2026-01-01T12:00:00Z · 7"],
        [
            datetime(2026, 1, 1, 10),
            datetime(2026, 1, 1, 11, 0, 0, 123456),
            datetime(2026, 1, 1, 12),
        ],
    ),
    "version": (
        "version",
        [VersionPosition(3), VersionPosition(5), VersionPosition(9)],
        ["2026-01-01T10:00:00+00:00", "2026-01-01T13:00:00.5+02:00", "2026-01-01T12:00:00+00:00"],
        ["version 3", "version 5", "version 9"],
        [datetime(2026, 1, 1, 10), datetime(2026, 1, 1, 11, 0, 0, 500000), datetime(2026, 1, 1, 12)],
    ),
    "files": (
        "files",
        [FilesPosition(1), FilesPosition(2), FilesPosition(4)],
        ["2026-01-01T10:00:00", "2026-01-01T11:00:00.000001", None],
        ["batch 1", "batch 2", "batch 4"],
        [datetime(2026, 1, 1, 10), datetime(2026, 1, 1, 11, 0, 0, 1), None],
    ),
    "value": (
        "value",
        [RowPosition(Value(ValueKind.INT, str(number))) for number in (10, 20, 30)],
        [None, None, None],
        ["10", "20", "30"],
        [None, None, None],
    ),
    "text value": (
        "value",
        [RowPosition(Value(ValueKind.TEXT, day)) for day in ("2026-01-01", "2026-01-02", "a\0b")],
        [None, None, None],
        ["2026-01-01", "2026-01-02", "a�b"],
        [None, None, None],
    ),
}


def walk(ledger: LedgerWriter, name: str) -> Iterator[Watermark]:
    """Two plans, of one batch and of two; the watermark after each of the batches."""
    cursor, ends, stamps, _, _ = EVERY[name]
    for batches in ((0,), (1, 2)):
        windows = [Window(ends[number - 1] if number else None, ends[number]) for number in batches]
        part = InputPlan(
            "in", cursor, Window(windows[0].after, windows[-1].upto), "db", "f", stamp=stamps[batches[-1]]
        )
        parts = tuple(
            Batch((window,), stamps=(stamps[number],) if stamps[number] else ())
            for number, window in zip(batches, windows, strict=True)
        )
        plan = ledger.plan([Draft("shop", name, (part,), parts)], owner=ME, run_id="job")[name]
        claim = ledger.claim(plan, owner=ME, run_id=f"job {batches}", lease=MINUTE)
        for index in range(len(parts)):
            ledger.begin(claim, index)
            ledger.advance(claim, index, receipt(plan, index))
            [mark] = ledger.watermarks("shop", [name])
            yield mark
        ledger.finish(claim, State.SUCCESS, None)


@pytest.mark.parametrize("name", EVERY)
def test_f3_every_kind_of_position_has_its_text_and_its_time_if_it_has_one(
    ledger: SqlLedger, name: str
) -> None:
    _, ends, stamps, texts, times = EVERY[name]
    walked = walk(ledger, name)
    for index, mark in enumerate(walked):
        assert (mark.position, mark.stamp) == (ends[index], stamps[index])
        [kept] = rows(ledger, "SELECT position_ts FROM watermarks")
        assert maybe(kept["position_ts"]) == times[index]
    first, second = rows(ledger, "SELECT * FROM etl_pipeline_sync_control ORDER BY sync_run_id")
    assert maybe(first["watermark_from"]) is None
    assert maybe(first["watermark_to"]) == maybe(second["watermark_from"]) == times[0]
    assert maybe(second["watermark_to"]) == times[2]
    one, two, ready = rows(ledger, "SELECT * FROM watermarks_v ORDER BY watermark_id")
    assert maybe(one["current_run_ts"]) == maybe(two["last_processed_ts"]) == times[0]
    assert maybe(two["current_run_ts"]) == maybe(ready["last_processed_ts"]) == times[2]
    said = rows(ledger, "SELECT after_text, upto_text FROM runs ORDER BY id")
    assert [tuple(row.values()) for row in said] == [(None, texts[0]), (texts[0], texts[2])]


def maybe(value: Any) -> datetime | None:
    return None if value is None else moment(value)


def test_pipeline_watermark_history_has_a_row_for_each_table_and_event(ledger: SqlLedger) -> None:
    tables = ("bronze.a", "bronze.b")
    plan = ledger.plan([versions(tables)], owner=ME, run_id="x")["silver"]
    ledger.fail("silver", "silver", plan.plan_id, {"message": "no disk"}, owner=ME, run_id="x")
    ledger.complete("silver", "silver", plan.plan_id, owner=ME, run_id="x", rows={"bronze.a": 41})
    found = rows(ledger, "SELECT * FROM pipeline_watermark_history ORDER BY history_id")
    assert {row["run_id"] for row in found} == {plan.plan_id}
    by_table = [row for row in found if row["table_name"] == "bronze.a"]
    assert [row["status"] for row in by_table] == ["PLANNED", "SUCCESS"]
    assert [(row["start_version"], row["end_version"]) for row in by_table] == [(0, 7), (0, 7)]
    assert [row["last_processed_version"] for row in by_table] == [None, 7]
    assert by_table[1]["records_processed"] == 41
    assert by_table[1]["execution_duration"] >= 0
    [failed] = [row for row in found if row["status"] == "FAILED"]
    assert "no disk" in failed["error_message"]
    assert failed["failed_at"] is not None


def test_etl_pipeline_sync_control_has_document_004s_columns(ledger: SqlLedger) -> None:
    ran(ledger)
    ran(ledger, State.FAILED, start=1)
    ledger.plan([nothing_new("idle")], owner=ME, run_id="x")
    done, failed, idle = rows(ledger, "SELECT * FROM etl_pipeline_sync_control ORDER BY sync_run_id")
    assert list(done) == [
        "sync_run_id",
        "table_name",
        "sync_start_timestamp",
        "sync_end_timestamp",
        "watermark_from",
        "watermark_to",
        "rows_inserted",
        "rows_updated",
        "rows_processed",
        "sync_status",
        "error_message",
    ]
    assert (done["sync_status"], done["rows_processed"], done["error_message"]) == ("SUCCESS", 10, None)
    assert (done["rows_inserted"], done["rows_updated"]) == (6, 3)
    assert (idle["rows_inserted"], idle["rows_updated"]) == (0, 0)
    assert (failed["sync_status"], failed["error_message"]) == ("FAILED", 'it "broke" ☂')
    assert (idle["sync_status"], idle["rows_processed"], idle["watermark_to"]) == ("SUCCESS", 0, None)


def test_the_queries_of_document_004_run_unchanged_on_postgresql(postgres: Postgres) -> None:
    assert len(QUERIES) == 6
    database = postgres.create_database()
    with open_ledger(postgres.address(database), create=True) as ledger:
        assert isinstance(ledger, SqlLedger)
        ran(ledger)
        ran(ledger, State.FAILED, start=1)
        with postgres.connect(database) as connection:
            connection.execute("CREATE TABLE etl_pipeline_run_history_log (last_update_date timestamp)")
            connection.execute(
                "INSERT INTO etl_pipeline_run_history_log"
                " VALUES ('2025-08-13'), ('2025-08-15'), ('2025-08-16')"
            )
            last, failed, daily, wrong, furthest, beyond = (
                connection.execute(query).fetchall() for query in QUERIES
            )
    assert [row[9] for row in last] == ["FAILED", "SUCCESS"]
    assert [row[0] for row in failed] == [last[0][0]]
    [(_, total, succeeded, faults, _, _, seconds)] = daily
    assert (total, succeeded, faults) == (2, 1, 1)
    assert 0 <= seconds < 60
    assert wrong == [(last[0][0], 'it "broke" ☂')]
    assert furthest == [(datetime(2025, 8, 14, 0, 0, 1, 123456),)]
    assert beyond == [(2,)]


@pytest.mark.parametrize("name", ["text", "version", "files"])
def test_f3_the_table_in_delta_has_the_times_too(tmp_path: Path, name: str) -> None:
    times = EVERY[name][4]
    with open_ledger(f"delta:{tmp_path}/ledger", create=True) as ledger:
        list(walk(ledger, name))
    found = DeltaTable(tmp_path / "ledger/watermarks").to_pyarrow_table().sort_by("watermark_id").to_pylist()
    assert [row["status"] for row in found] == ["SUCCESS", "SUCCESS", "READY"]
    known = [at and at.replace(tzinfo=UTC) for at in times]
    assert [row["last_processed_ts"] for row in found] == [None, known[0], known[2]]
    assert found[0]["current_run_ts"] == known[0]
    if known[2]:
        assert found[1]["current_run_ts"] == known[2]
    numbers = {"version": [None, 3, 9], "files": [None, 1, 4], "text": [None, 1767261600000, 1767268800000]}
    assert [row["last_processed_version"] for row in found] == numbers[name]


def test_f3_a_json_ledger_has_the_time_of_a_version(tmp_path: Path) -> None:
    with open_ledger(f"json:{tmp_path}/ledger", create=True) as ledger:
        list(walk(ledger, "version"))
        list(walk(ledger, "text"))
    [versions_file] = (tmp_path / "ledger").rglob("version.json")
    assert json.loads(versions_file.read_text())["last_mysql_data_timestamp"] == "2026-01-01T12:00:00.000000Z"
    [texts_file] = (tmp_path / "ledger").rglob("text.json")
    assert json.loads(texts_file.read_text())["last_mysql_data_timestamp"] == "2026-01-01T12:00:00Z"


def test_a26_the_last_row_and_how_far_was_looked_stand_side_by_side(ledger: SqlLedger) -> None:
    one = draft("shop", batches=1)
    [part] = one.inputs
    bound = RowPosition(Value(ValueKind.TIMESTAMP, "2026-11-16 12:00:00"))
    plan = ledger.plan([replace(one, inputs=(replace(part, checked=bound),))], owner=ME, run_id="job")["shop"]
    claim = ledger.claim(plan, owner=ME, run_id="job", lease=MINUTE)
    ledger.begin(claim, 0)
    ledger.advance(claim, 0, receipt(plan, 0))
    [found] = rows(ledger, "SELECT watermark_ts, checked_ts, batches FROM watermark_positions")
    assert [str(found["watermark_ts"])[:19], str(found["checked_ts"])[:19], found["batches"]] == [
        "2025-08-14 00:00:01",
        "2026-11-16 12:00:00",
        1,
    ]


@pytest.mark.parametrize("name", ["text", "version"])
def test_f3_a_record_has_one_number_in_the_delta_table_and_in_sql(tmp_path: Path, name: str) -> None:
    with open_ledger(f"delta:{tmp_path}/ledger", create=True) as ledger:
        list(walk(ledger, name))
        ran(ledger)
        ran(ledger, State.FAILED, start=1)
        ledger.plan([draft("never run")], owner=ME, run_id="x")
        with open_views(ledger, ["watermarks_v"]) as views:
            asked = views.execute(
                "SELECT pipeline_name, status, job_id, watermark_id FROM watermarks_v ORDER BY ALL"
            ).fetchall()
    table = DeltaTable(tmp_path / "ledger/watermarks").to_pyarrow_table().to_pylist()
    shown = {
        (row["flow"], row["status"], row["job_id"], row["watermark_id"])
        for row in table
        if row["flow"] != "never run"
    }
    assert {(one.rpartition("/")[2], *rest) for one, *rest in asked} == shown
    assert len(shown) == len(asked) == 5
