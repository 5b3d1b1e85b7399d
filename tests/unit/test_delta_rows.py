"""The tracker's record as a Delta ledger's table shows it, step by step."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.ledgers import timed
from tidegauge.ledger.delta_rows import WATERMARKS, decode, encode, next_rows, stored_flow_of
from tidegauge.ledger.delta_shares import Row
from tidegauge.ledger.document_store import StoredFlow
from tidegauge.model.spec import SparkSettings
from tidegauge.spark.jars import JarSet
from tidegauge.spark.session import _conf

NOON = "2026-01-01 12:00:00.000000"


class Table:
    """The rows of one flow as saves make them."""

    def __init__(self) -> None:
        self.current: Row | None = None
        self.ended: list[Row] = []
        self.number = 0

    def save(self, **shown: Any) -> Row:
        moments = {"created_at": "2026-01-01T00:00:00.000000", "updated_at": "2026-01-01T00:00:01.000000"}
        stored_flow = StoredFlow(
            "p", "f", {"save": self.number}, {"cursor": "timestamp"} | moments | timed(shown)
        )
        self.current, ended = next_rows(self.current, stored_flow, self.number + 1)
        self.number = max(self.number, self.current["watermark_id"])
        self.ended += [ended] if ended else []
        return self.current


def test_a_record_keeps_its_number_until_it_succeeds() -> None:
    table = Table()
    assert table.save(state="PLANNED", upto=NOON)["watermark_id"] == 1
    run = {"run_id": "r1", "started_at": "2026-01-01T12:00:00.000000", "upto": NOON}
    for state in ("RUNNING", "FAILED", "RUNNING"):
        row = table.save(state=state, run_state=state, **run)
        assert (row["watermark_id"], row["status"], row["job_id"]) == (1, state, "r1")
        assert row["current_run_ts"] == datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert table.ended == []
    row = table.save(state="SUCCESS", run_state="SUCCESS", position=NOON, **run)
    assert (row["watermark_id"], row["status"], row["job_id"], row["run_duration"]) == (
        2,
        "READY",
        None,
        None,
    )
    assert [(one["watermark_id"], one["status"]) for one in table.ended] == [(1, "SUCCESS")]


def test_a_record_shows_where_its_window_began_however_far_its_batches_have_come() -> None:
    table = Table()
    table.save(state="SUCCESS", run_id="r0", run_state="SUCCESS", position="2026-01-01 06:00:00")
    table.save(state="RUNNING", run_id="r1", run_state="RUNNING", position="2026-01-01 06:00:00", upto=NOON)
    table.save(state="RUNNING", run_id="r1", run_state="RUNNING", position="2026-01-01 09:00:00", upto=NOON)
    table.save(state="SUCCESS", run_id="r1", run_state="SUCCESS", position=NOON)
    ended = table.ended[-1]
    assert (ended["last_processed_ts"].hour, ended["current_run_ts"].hour) == (6, 12)
    assert table.current is not None
    assert table.current["last_processed_ts"].hour == 12


def test_a_plan_that_no_run_has_taken_yet_does_not_show_the_run_before() -> None:
    table = Table()
    before = {"run_id": "r0", "run_state": "SUCCESS", "rows": 7, "position": NOON}
    table.save(state="SUCCESS", **before)
    row = table.save(state="PLANNED", upto="2026-01-01 18:00:00", **before)
    assert (row["status"], row["job_id"], row["records_processed"]) == ("PLANNED", None, None)
    assert (row["last_processed_ts"].hour, row["current_run_ts"].hour) == (12, 18)


def test_nothing_new_leaves_the_record_and_says_skipped() -> None:
    table = Table()
    table.save(state="SUCCESS", run_id="r0", run_state="SUCCESS", position=NOON)
    row = table.save(state="SKIPPED", run_id="r1", run_state="SKIPPED", position=NOON)
    assert (row["watermark_id"], row["status"], row["job_id"]) == (2, "SKIPPED", "r1")
    row = table.save(state="RUNNING", run_id="r2", run_state="RUNNING", position=NOON)
    assert (row["watermark_id"], row["status"]) == (2, "RUNNING")
    assert len(table.ended) == 1


def test_a_success_is_counted_once_and_a_position_set_by_hand_is_shown() -> None:
    table = Table()
    for _ in range(3):
        table.save(state="SUCCESS", run_id="r0", run_state="SUCCESS", position=NOON)
    row = table.save(state="SUCCESS", run_id="r0", run_state="SUCCESS", position="2026-01-01 06:00:00")
    assert len(table.ended) == 1
    assert (row["status"], row["last_processed_ts"].hour) == ("READY", 6)


def test_versions_and_positions_that_are_no_timestamps() -> None:
    row = Table().save(
        state="RUNNING", cursor="version", version=41, upto=44, started_at="2026-01-01T12:00:00.000000"
    )
    assert (row["last_processed_version"], row["last_processed_ts"]) == (41, None)
    assert row["current_run_ts"] == datetime(2026, 1, 1, 12, tzinfo=UTC)
    for text, shown in {
        "2026-01-01 12:00:00.123456789": datetime(2026, 1, 1, 12, 0, 0, 123456, UTC),
        "2026-01-01 12:00:00+02:00": datetime(2026, 1, 1, 10, tzinfo=UTC),
        "infinity": None,
        "0000-00-00": None,
    }.items():
        assert Table().save(state="SKIPPED", position=text)["last_processed_ts"] == shown


def test_rows_come_back_from_a_file_as_they_went_in() -> None:
    table = Table()
    table.save(state="SUCCESS", run_id="r0", run_state="SUCCESS", position=NOON, rows=2**40)
    rows = [*table.ended, table.current or {}]
    assert decode(WATERMARKS, encode(WATERMARKS, rows)) == rows


def test_a_session_knows_delta_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegauge.spark.session.jars", lambda needs, conf: [])
    own = {"spark.databricks.delta.snapshotPartitions": "7"}
    found = _conf(SparkSettings("local[1]", own), [JarSet.DELTA])
    assert found["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
    assert found["spark.sql.catalog.spark_catalog"] == "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    assert found["spark.databricks.delta.snapshotPartitions"] == "7"
    assert "spark.sql.extensions" not in _conf(SparkSettings("local[1]", {}), [JarSet.JDBC])


def test_half_a_surrogate_pair_in_a_flow_s_state_comes_back() -> None:
    body = {"note": "half \ud800 and ☂", "number": 1.5}
    row, _ = next_rows(None, StoredFlow("p", "f", body, {}), 1)
    row["ledger"].encode()
    assert stored_flow_of("p", row).body == body
