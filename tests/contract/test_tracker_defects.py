"""Three defects of the requirements paper on a watermark tracker: what its code does, and what ours does."""

from __future__ import annotations

import itertools
import os
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.ledgers import needs_fresh_process
from tests.support.processes import KILLED, run
from tests.support.tracker_on_paper import TrackerOnPaper
from tidegauge import WatermarkTracker
from tidegauge.errors import FlowHeld
from tidegauge.tracker.ledger import TrackerLedger


def inside(window: Any, stamps: list[Any]) -> list[Any]:
    start, end = window
    return [stamp for stamp in stamps if (start is None or stamp > start) and stamp <= end]


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


# --- 1: the window's end is a second now()


def test_on_paper_a_row_that_lands_during_the_run_is_read_twice(tmp_path: Path) -> None:
    clock = itertools.count(1)
    paper = TrackerOnPaper(tmp_path / "table", lambda: next(clock))
    first = paper.start_pipeline_run("wos", "job_000")
    paper.finalize_pipeline_run(first, "SUCCESS")

    second = paper.start_pipeline_run("wos", "job_001")
    late = second["current_run_ts"] + 0.5  # committed at the source after the run has started
    read = inside(paper.get_delta_window("wos"), [late])
    paper.finalize_pipeline_run(second, "SUCCESS")
    paper.start_pipeline_run("wos", "job_002")
    read += inside(paper.get_delta_window("wos"), [late])
    assert read == [late, late]


@pytest.mark.shown_on("sqlite", "delta")
def test_the_windows_end_is_frozen_when_the_run_starts(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        record = tracker.start_pipeline_run("wos", "job_001")
        assert record.current_run_ts is not None
        late = record.current_run_ts + timedelta(microseconds=1)
        time.sleep(1.1)
        read = inside(tracker.get_delta_window("wos"), [late])
        assert tracker.get_delta_window("wos") == (None, record.current_run_ts)
        tracker.finalize_pipeline_run(record, "SUCCESS")
        following = tracker.start_pipeline_run("wos", "job_002")
        assert following.last_processed_ts == record.current_run_ts
        read += inside(tracker.get_delta_window("wos"), [late])
        assert read == [late]


# --- 2: two writes, and a crash between them


def test_on_paper_a_crash_between_its_two_writes_loses_the_ready_row(tmp_path: Path) -> None:
    file = tmp_path / "table"
    paper = TrackerOnPaper(file, time.time)
    paper.finalize_pipeline_run(paper.start_pipeline_run("wos", "job_000"), "SUCCESS")
    before = paper.get_delta_window("wos")[0]

    def child() -> None:
        paper.between_the_writes = _kill
        paper.finalize_pipeline_run(paper.start_pipeline_run("wos", "job_001"), "SUCCESS")

    assert run(child) is KILLED
    assert [row["status"] for row in paper.rows()] == ["SUCCESS"]  # and no READY
    paper.start_pipeline_run("wos", "job_002")
    assert paper.get_delta_window("wos")[0] == before  # all that job_001 has written comes again


@pytest.mark.shown_on("sqlite", "delta")
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_crash_around_the_one_write_loses_nothing(store_address: str, side: str) -> None:
    end = datetime(2025, 8, 14, 15, 30, tzinfo=UTC)

    def child() -> None:
        tracker = WatermarkTracker(store_address)
        record = tracker.start_pipeline_run("wos", "job_001", end=end)
        complete = TrackerLedger.complete

        def killed(*args: Any, **options: Any) -> Any:
            if side == "after":
                complete(*args, **options)
            _kill()

        TrackerLedger.complete = killed  # type: ignore[method-assign]
        tracker.finalize_pipeline_run(record, "SUCCESS")

    assert run(child, fresh=needs_fresh_process(store_address)) is KILLED
    with WatermarkTracker(store_address) as tracker:
        shown = [(one.status, one.last_processed_ts, one.current_run_ts) for one in tracker.records("wos")]
        if side == "before":
            assert shown == [("RUNNING", None, end)]
            # The process is gone, so nobody waits for its lease; and the window is the same.
            again = tracker.start_pipeline_run("wos", "job_002")
            assert (again.last_processed_ts, again.current_run_ts) == (None, end)
        else:
            assert shown == [("SUCCESS", None, end), ("READY", end, None)]
            assert tracker.start_pipeline_run("wos", "job_002").last_processed_ts == end


# --- 3: two runs at once


def test_on_paper_two_runs_at_once_move_the_watermark_back(tmp_path: Path) -> None:
    clock = itertools.count(1)
    paper = TrackerOnPaper(tmp_path / "table", lambda: next(clock))
    paper.finalize_pipeline_run(paper.start_pipeline_run("wos", "job_000"), "SUCCESS")
    one = paper.start_pipeline_run("wos", "job_001")
    row = one["current_run_ts"] + 0.5
    two = paper.start_pipeline_run("wos", "job_002")
    read = inside(paper.get_delta_window("wos"), [row])
    paper.finalize_pipeline_run(two, "SUCCESS")
    paper.finalize_pipeline_run(one, "SUCCESS")
    assert paper.get_delta_window("wos")[0] == one["current_run_ts"] < two["current_run_ts"]
    paper.start_pipeline_run("wos", "job_003")
    assert inside(paper.get_delta_window("wos"), [row]) == read == [row]


def test_b7_of_two_runs_at_once_the_second_is_refused_and_told_by_whom(store_address: str) -> None:
    def child() -> tuple[str, str | None, bool]:
        with WatermarkTracker(store_address) as tracker:
            try:
                tracker.start_pipeline_run("wos", "job_002")
            except FlowHeld as error:
                return error.message, error.hint, error.retryable
        raise AssertionError("two runs at once")

    with WatermarkTracker(store_address, actor="nightly@etl") as tracker:
        record = tracker.start_pipeline_run("wos", "job_001")
        message, hint, retryable = run(child, fresh=needs_fresh_process(store_address))
        assert f"nightly@etl (process {os.getpid()})" in message
        assert hint
        assert retryable
        done = tracker.finalize_pipeline_run(record, "SUCCESS")
        assert tracker.start_pipeline_run("wos", "job_003").last_processed_ts == done.current_run_ts
