"""What a tracker says of time, on every store: ends to come, durations, zones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tidegauge import WatermarkTracker
from tidegauge.errors import ConfigError

NOON = datetime(2025, 8, 14, 12, tzinfo=UTC)


def test_b19_an_end_in_the_future_is_taken_only_when_it_is_meant(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        for end in ("2099-01-01", datetime(2099, 1, 1, tzinfo=UTC), datetime.now(UTC) + timedelta(minutes=7)):
            with pytest.raises(ConfigError, match="in the future of the ledger's clock") as caught:
                tracker.start_pipeline_run("wos", end=end)
            assert "allow_future=True" in (caught.value.hint or "")
            with pytest.raises(ConfigError, match="in the future"), tracker.run("wos", end=end):
                pass
        assert tracker.records("wos") == []
        source = datetime.now(UTC) + timedelta(minutes=4)
        with tracker.run("wos", end=source) as run:
            assert run.window.end == source
        with tracker.run("meant", end="2099-01-01", allow_future=True) as run:
            assert run.window.end == datetime(2099, 1, 1)
        # A run that failed has its window already, and is not asked for another.
        failed = tracker.start_pipeline_run("failed", end=NOON)
        tracker.finalize_pipeline_run(failed, "FAILED")
        assert tracker.start_pipeline_run("failed", end="2099-01-01").current_run_ts == NOON


@pytest.mark.shown_on("sqlite")
def test_b19_a_finalized_record_is_the_one_that_is_listed(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        for status, why in (("SUCCESS", None), ("FAILED", "because"), ("SKIPPED", "because")):
            record = tracker.start_pipeline_run(status, "job", end=NOON)
            done = tracker.finalize_pipeline_run(record, status, error=why)
            [listed, *_] = tracker.records(status)
            assert done == listed
            assert done.run_duration == (done.updated_at - record.updated_at).total_seconds()
            again = tracker.start_pipeline_run(status, "job", end=NOON + timedelta(hours=1))
            done = tracker.finalize_pipeline_run(again, "SUCCESS", rows=7)
            assert done in tracker.records(status)


@pytest.mark.shown_on("sqlite")
def test_b19_every_time_that_a_tracker_gives_has_its_zone(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        before = datetime.now(UTC) - timedelta(minutes=1)
        with tracker.run("wos", end=NOON):
            pass
        plan = tracker.prepare_processing_plan_for_schemas("silver", latest_versions={"bronze.a": 3})
        tracker.mark_run_failed(plan.run_id, "no")
        events = [
            *tracker.history("wos"),
            *tracker.history("silver"),
            *tracker.history("silver", failed=True),
        ]
        records = tracker.records()
        [stuck] = tracker.stuck_plans("0s")
        moments = [one.at for one in events] + [stuck.created_at, stuck.updated_at, stuck.failed_at]
        moments += [at for one in records for at in (one.created_at, one.updated_at)]
        for at in moments:
            assert at is not None
            assert at.tzinfo is UTC
            assert before < at < datetime.now(UTC) + timedelta(minutes=1)
