"""The views beside the ledger's tables, on every SQL store; and the queries of `docs/monitoring.md`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.contract.test_ledger_alone import versions
from tests.drafts import ME, draft, nothing_new, receipt
from tests.servers import Postgres
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.store import SqlLedger
from tidegauge.model.state import State

pytestmark = pytest.mark.contract

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


def ran(ledger: SqlLedger, state: State = State.SUCCESS, *, start: int = 0) -> None:
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


def test_watermarks_v_has_the_nine_columns_and_a_ready_row_only_after_success(ledger: SqlLedger) -> None:
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
    ]
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
