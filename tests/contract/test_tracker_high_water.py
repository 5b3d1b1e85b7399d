"""High-water marks on every store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tidegauge import WatermarkTracker
from tidegauge.errors import ConfigError, LeaseLost, WrongState

NOON = datetime(2025, 8, 14, 12, 0, 0, 123456, tzinfo=UTC)


def test_a_mark_moves_forward(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        assert tracker.get_last_processed_timestamp("silver_workspace") is None
        tracker.commit_processing_state("silver_workspace", NOON, rows=5)
        assert tracker.get_last_processed_timestamp("silver_workspace") == NOON
        tracker.commit_processing_state("silver_workspace", NOON)
        later = tracker.commit_processing_state("silver_workspace", NOON + timedelta(microseconds=1))
        assert tracker.get_last_processed_timestamp("silver_workspace") == later
        assert 5 in {event.rows for event in tracker.history("silver_workspace")}


def test_a_time_without_a_zone_comes_back_without_one(store_address: str) -> None:
    naive = NOON.replace(tzinfo=None)
    with WatermarkTracker(store_address) as tracker:
        tracker.commit_processing_state("gold", naive)
        assert tracker.get_last_processed_timestamp("gold") == naive
        tracker.commit_processing_state("gold", NOON + timedelta(hours=1))
        assert tracker.get_last_processed_timestamp("gold") == naive + timedelta(hours=1)


@pytest.mark.shown_on("sqlite")
def test_b15_back_or_into_the_future_only_by_force_and_with_a_reason(store_address: str) -> None:
    future = datetime.now(UTC) + timedelta(hours=1)
    with WatermarkTracker(store_address, actor="ana@ops") as tracker:
        tracker.commit_processing_state("silver", NOON)
        for wrong, word in ((NOON - timedelta(microseconds=1), "before that"), (future, "in the future")):
            with pytest.raises(ConfigError, match=word):
                tracker.commit_processing_state("silver", wrong)
            with pytest.raises(ConfigError, match="reason"):
                tracker.commit_processing_state("silver", wrong, force=True)
            assert tracker.get_last_processed_timestamp("silver") == NOON
        back = NOON - timedelta(days=1)
        tracker.commit_processing_state("silver", back, force=True, reason="late files of the 13th")
        assert tracker.get_last_processed_timestamp("silver") == back
        event = tracker.history("silver", limit=1)[0]
        assert (event.event, event.actor, event.reason) == ("set", "ana@ops", "late files of the 13th")
        tracker.commit_processing_state("silver", future, force=True, reason="a test")
        assert tracker.get_last_processed_timestamp("silver") == future


@pytest.mark.shown_on("sqlite")
def test_a_mark_does_not_overtake_an_open_run(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        record = tracker.start_pipeline_run("silver", "job", end=NOON)
        with pytest.raises(WrongState, match="RUNNING"):
            tracker.commit_processing_state("silver", NOON)
        tracker.finalize_pipeline_run(record, "FAILED")
        with pytest.raises(WrongState, match="FAILED"):
            tracker.commit_processing_state("silver", NOON)
        tracker.finalize_pipeline_run(tracker.start_pipeline_run("silver"), "SUCCESS")
        tracker.commit_processing_state("silver", NOON + timedelta(hours=1))
        late = tracker.start_pipeline_run("silver", "job", end=NOON + timedelta(hours=3))
        # By force the run is given up: whoever holds it has lost it.
        tracker.commit_processing_state("silver", NOON + timedelta(hours=2), force=True, reason="by hand")
        with pytest.raises(LeaseLost):
            tracker.finalize_pipeline_run(late, "SUCCESS")
        assert [one.status for one in tracker.records("silver")][-2:] == ["SUPERSEDED", "READY"]
        assert tracker.get_last_processed_timestamp("silver") == NOON + timedelta(hours=2)


@pytest.mark.shown_on("sqlite")
def test_a_block_reads_the_mark_and_commits_once(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        with tracker.state("silver") as mark:
            assert mark.last is None
            mark.commit(NOON, rows=3)
            with pytest.raises(WrongState):
                mark.commit(NOON)
        with tracker.state("silver") as mark:
            assert mark.last == NOON
        assert tracker.history("silver", limit=1)[0].event == "skipped"
        with pytest.raises(RuntimeError), tracker.state("silver"):
            raise RuntimeError("no rows today")
        [event] = tracker.history("silver", failed=True)
        assert event.error == "RuntimeError: no rows today"
        assert tracker.get_last_processed_timestamp("silver") == NOON


def test_b7_of_two_blocks_at_once_only_one_commits(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        with tracker.state("silver") as slow:
            with tracker.state("silver") as quick:
                quick.commit(NOON)
            with pytest.raises(WrongState) as caught:
                slow.commit(NOON + timedelta(hours=1))
        assert caught.value.retryable
        assert tracker.get_last_processed_timestamp("silver") == NOON


def test_lag_is_measured_on_the_stores_clock(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        tracker.commit_processing_state("a", datetime.now(UTC) - timedelta(hours=2))
        tracker.commit_processing_state("b", datetime.now(UTC).replace(tzinfo=None) - timedelta(hours=1))
        tracker.prepare_processing_plan_for_schemas("versions", latest_versions={"t": 1})
        lag = tracker.lag()
        assert set(lag) == {"a", "b"}
        assert lag["a"] == pytest.approx(7200, abs=60)
        assert lag["b"] == pytest.approx(3600, abs=60)
        assert tracker.lag("a")["a"] == pytest.approx(7200, abs=60)
        assert tracker.lag("never") == {"never": None}


@pytest.mark.shown_on("sqlite")
def test_pruning_leaves_what_recovery_needs(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        for hour in range(5):
            tracker.commit_processing_state("silver", NOON + timedelta(hours=hour))
        failed = tracker.start_pipeline_run("open", "job", end=NOON)
        tracker.finalize_pipeline_run(failed, "FAILED", error="no")
        plan = tracker.prepare_processing_plan_for_schemas("versions", latest_versions={"a": 1, "b": 2})
        tracker.mark_run_completed(plan.run_id, ["a"])
        removed = tracker.prune("0")
        assert sum(removed.values()) > 0
        assert tracker.prune("90d") == dict.fromkeys(removed, 0)
        assert tracker.get_last_processed_timestamp("silver") == NOON + timedelta(hours=4)
        assert tracker.load_checkpoints(pipeline="versions") == {"a": 1}
        assert tracker.load_version_ranges("versions") == {"b": (0, 2)}
        assert tracker.records("open")[0].error_message == "no"
        assert tracker.records("silver")[-1].status == "READY"
        again = tracker.start_pipeline_run("open", "again")
        assert (again.current_run_ts, again.watermark_id) == (NOON, failed.watermark_id)
        tracker.mark_run_completed(plan.run_id)
        with pytest.raises(ConfigError):
            tracker.prune("a while")
