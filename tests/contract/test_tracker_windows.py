"""Windows of time on every store: records, windows, and how runs end."""

from __future__ import annotations

import dataclasses
import itertools
import pickle
import threading
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from tests.support.drafts import ME, draft
from tests.support.ledgers import needs_fresh_process
from tests.support.processes import run as in_a_process
from tests.support.project import until
from tidegauge import WatermarkTracker
from tidegauge.errors import ConfigError, FlowHeld, LeaseLost, WrongState
from tidegauge.ledger.open import open_ledger
from tidegauge.model.secret import Secret
from tidegauge.tracker import WatermarkRecord

NINE = [
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
NOON = datetime(2025, 8, 14, 12, tzinfo=UTC)
ENDS = ("SUCCESS", "FAILED", "SKIPPED")
NAMES = ("a/b\\c", "a.b..c", 'it\'s "so" `x`; --', "🌊 tide", "x" * 500, "CON", "%_%", " padded ")


def test_the_record_begins_with_the_documents_nine_fields() -> None:
    assert [field.name for field in dataclasses.fields(WatermarkRecord)][:9] == NINE


def test_success_moves_on_and_makes_the_ready_record(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        record = tracker.start_pipeline_run("wos", "job_001", end=NOON)
        assert (record.job_id, record.status, record.last_processed_ts) == ("job_001", "RUNNING", None)
        assert [one.status for one in tracker.records("wos")] == ["RUNNING"]
        done = tracker.finalize_pipeline_run(record, "success", rows=42)
        assert (done.status, done.records_processed) == ("SUCCESS", 42)
        [past, ready] = tracker.records("wos")
        assert (past.status, past.job_id, past.records_processed) == ("SUCCESS", "job_001", 42)
        assert past.run_duration is not None
        assert past.run_duration >= 0
        assert (past.watermark_id, past.created_at) == (record.watermark_id, record.created_at)
        assert (ready.status, ready.last_processed_ts, ready.current_run_ts) == ("READY", NOON, None)
        assert ready.last_processed_version == int(NOON.timestamp() * 1000)
        following = tracker.start_pipeline_run("wos", "job_002", end=NOON + timedelta(hours=1))
        assert following.watermark_id == ready.watermark_id != record.watermark_id
        assert tuple(tracker.get_delta_window("wos")) == (NOON, NOON + timedelta(hours=1))


@pytest.mark.shown_on("sqlite")
def test_b11_a_failed_run_is_taken_up_again_with_its_window_and_record(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        record = tracker.start_pipeline_run("wos", "job_001", end=NOON)
        tracker.finalize_pipeline_run(record, "FAILED", error=ValueError("no disk"))
        [failed] = tracker.records("wos")
        assert (failed.status, failed.error_message) == ("FAILED", "no disk")
        again = tracker.start_pipeline_run("wos", "job_002", end=NOON + timedelta(days=1))
        assert again.current_run_ts == NOON
        assert (again.watermark_id, again.created_at, again.run_id) == (
            record.watermark_id,
            record.created_at,
            record.run_id,
        )
        assert again.job_id == "job_002"
        tracker.finalize_pipeline_run(again, "COMPLETED")
        assert [one.status for one in tracker.records("wos")] == ["SUCCESS", "READY"]


@pytest.mark.shown_on("sqlite")
def test_skipped_ends_the_run_and_leaves_the_watermark(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        tracker.finalize_pipeline_run(tracker.start_pipeline_run("wos", "a", end=NOON), "SUCCESS")
        record = tracker.start_pipeline_run("wos", "b", end=NOON + timedelta(hours=1))
        tracker.finalize_pipeline_run(record, "SKIPPED", error="holiday")
        [_, skipped] = tracker.records("wos")
        assert (skipped.status, skipped.error_message) == ("SKIPPED", "holiday")
        assert tracker.get_last_processed_timestamp("wos") == NOON
        with pytest.raises(WrongState):
            tracker.get_delta_window("wos")
        # The next run has a window of its own, from the same start, under the same record.
        following = tracker.start_pipeline_run("wos", "c", end=NOON + timedelta(hours=2))
        assert following.watermark_id == skipped.watermark_id
        assert tuple(tracker.get_delta_window("wos")) == (NOON, NOON + timedelta(hours=2))
        assert [one.status for one in tracker.records("wos")] == ["SUCCESS", "RUNNING"]
        assert tracker.history("wos", failed=True) == []


@pytest.mark.shown_on("sqlite")
def test_a_status_that_is_none_is_refused_and_the_run_goes_on(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        record = tracker.start_pipeline_run("wos", "job_001")
        for wrong in ("DONE", "", "RUNNING", "PLANNED", "READY"):
            with pytest.raises(ConfigError) as caught:
                tracker.finalize_pipeline_run(record, wrong)
            assert "SKIPPED" in (caught.value.hint or "")
        for rows in (-1, True, "7"):
            with pytest.raises(ConfigError):
                tracker.finalize_pipeline_run(record, "SUCCESS", rows=rows)  # type: ignore[arg-type]
        tracker.finalize_pipeline_run(record, " Success ")


@pytest.mark.shown_on("sqlite")
def test_a_run_is_finalized_once(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        for first, second in itertools.product(ENDS, ENDS):
            name = f"{first} then {second}"
            record = tracker.start_pipeline_run(name, "job_001")
            tracker.finalize_pipeline_run(record, first)
            with pytest.raises(WrongState):
                tracker.finalize_pipeline_run(record, second)
            assert tracker.records(name)[0].status == first


def test_b8_a_runner_that_lost_its_lease_finalizes_nothing(store_address: str) -> None:
    with (
        WatermarkTracker(store_address, lease="1s") as tracker,
        WatermarkTracker(store_address, actor="other@there") as other,
    ):
        mine = {status: tracker.start_pipeline_run(status, "job_001", end=NOON) for status in ENDS}
        tracker._tracker_ledger.stop_heartbeat()  # as if paused: nothing renews the leases
        time.sleep(2.5)
        theirs = {status: other.start_pipeline_run(status, "job_002") for status in ENDS}
        for status, record in mine.items():
            with pytest.raises(LeaseLost) as caught:
                tracker.finalize_pipeline_run(record, status)
            assert "other@there" in caught.value.message
            assert theirs[status].current_run_ts == NOON
            other.finalize_pipeline_run(theirs[status], "SUCCESS")
            with pytest.raises(LeaseLost):
                tracker.finalize_pipeline_run(record, status)
            assert [(one.status, one.job_id) for one in other.records(status)] == [
                ("SUCCESS", "job_002"),
                ("READY", None),
            ]


@pytest.mark.shown_on("sqlite")
def test_the_heartbeat_keeps_a_run_longer_than_its_lease(store_address: str) -> None:
    with WatermarkTracker(store_address, lease="9s") as tracker, WatermarkTracker(store_address) as other:
        record = tracker.start_pipeline_run("wos", "job_001")
        [first] = other._tracker_ledger.ledger.status("wos")
        # Renewed: it ends later than the lease that was taken.
        until(lambda: other._tracker_ledger.ledger.status("wos")[0].lease_until != first.lease_until)
        with pytest.raises(FlowHeld) as caught:
            other.start_pipeline_run("wos", "job_002")
        assert "this very process" in (caught.value.hint or "")
        assert str(caught.value).endswith(f"hint: {caught.value.hint}")
        tracker.finalize_pipeline_run(record, "SUCCESS")
    beating = [thread for thread in threading.enumerate() if thread.name == "tidegauge-heartbeat"]
    assert not beating


@pytest.mark.shown_on("sqlite")
def test_closing_gives_back_what_is_open(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        tracker.start_pipeline_run("wos", "job_001", end=NOON)
    with WatermarkTracker(store_address) as tracker:
        assert tracker.start_pipeline_run("wos", "job_002").current_run_ts == NOON


def test_a_record_can_be_finalized_by_another_process(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        body = pickle.dumps(tracker.start_pipeline_run("wos", "job_001", end=NOON))

        def child() -> str:
            with WatermarkTracker(store_address) as theirs:
                return theirs.finalize_pipeline_run(pickle.loads(body), "SUCCESS", rows=1).status

        assert in_a_process(child, fresh=needs_fresh_process(store_address)) == "SUCCESS"
        assert [one.status for one in tracker.records("wos")] == ["SUCCESS", "READY"]
        with pytest.raises(ConfigError, match="listed"):
            tracker.finalize_pipeline_run(tracker.records("wos")[0], "SUCCESS")


@pytest.mark.shown_on("sqlite")
def test_the_end_may_be_given_in_any_zone_and_as_text(store_address: str) -> None:
    east = datetime(2025, 8, 14, 20, tzinfo=timezone(timedelta(hours=8)))
    with WatermarkTracker(store_address) as tracker:
        assert tracker.start_pipeline_run("a", "1", end=east).current_run_ts == NOON
        assert tracker.start_pipeline_run("b", "1", end="2025-08-14T14:00:00+02:00").current_run_ts == NOON
        naive = tracker.start_pipeline_run("c", "1", end="2025-08-14 12:00:00.123456")
        assert naive.current_run_ts == datetime(2025, 8, 14, 12, 0, 0, 123456)
        tracker.finalize_pipeline_run(naive, "SUCCESS")
        # A pipeline keeps the kind of time that it began with; without a zone is UTC.
        assert tracker.start_pipeline_run("c", "2", end=east + timedelta(hours=1)).current_run_ts == datetime(
            2025, 8, 14, 13
        )
        for wrong in ("yesterday", "", 7):
            with pytest.raises(ConfigError):
                tracker.start_pipeline_run("d", "1", end=wrong)  # type: ignore[arg-type]


@pytest.mark.shown_on("sqlite")
def test_a_window_that_would_end_before_its_start_is_refused(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        tracker.finalize_pipeline_run(tracker.start_pipeline_run("wos", "1", end=NOON), "SUCCESS")
        with pytest.raises(ConfigError, match="before its start"):
            tracker.start_pipeline_run("wos", "2", end=NOON - timedelta(microseconds=1))
        tracker.commit_processing_state("wos", datetime(2999, 1, 1, tzinfo=UTC), force=True, reason="test")
        with pytest.raises(ConfigError, match="the ledger's clock"):
            tracker.start_pipeline_run("wos", "2")


@pytest.mark.shown_on("sqlite")
def test_there_is_no_window_without_a_run(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        with pytest.raises(WrongState, match="no run that is open"):
            tracker.get_delta_window("wos")
        assert tracker.records() == []
        record = tracker.start_pipeline_run("wos", "1")
        tracker.finalize_pipeline_run(record, "FAILED")
        with pytest.raises(WrongState, match="FAILED"):
            tracker.get_delta_window("wos")


@pytest.mark.shown_on("sqlite")
def test_many_pipelines_run_at_once(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        records = [tracker.start_pipeline_run(f"p{n}", "job", end=NOON) for n in range(5)]
        for number, record in enumerate(records):
            tracker.finalize_pipeline_run(record, ["SUCCESS", "FAILED"][number % 2])
        statuses = {(one.pipeline_name, one.status) for one in tracker.records()}
        assert {("p0", "READY"), ("p1", "FAILED"), ("p4", "SUCCESS")} <= statuses
        assert len({one.watermark_id for one in tracker.records()}) == len(tracker.records())


# --- the block


@pytest.mark.shown_on("sqlite")
def test_a_block_ends_as_success_with_its_rows(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        with tracker.run("wos", end=NOON) as run:
            assert run.window == (None, NOON)
            run.rows = 7
        assert (run.record.status, run.record.records_processed) == ("SUCCESS", 7)
        with tracker.run("wos", "job", end=NOON + timedelta(hours=1)) as run:
            assert run.job_id == "job"
            run.skip("nothing on sundays")
        assert run.record.status == "SKIPPED"
        assert tracker.get_last_processed_timestamp("wos") == NOON


@pytest.mark.shown_on("sqlite")
def test_an_exception_in_the_block_is_failed_with_its_message_masked(store_address: str) -> None:
    secret = Secret("hunter2hunter2")
    with WatermarkTracker(store_address) as tracker:
        with pytest.raises(RuntimeError), tracker.run("wos", end=NOON):
            raise RuntimeError(f"cannot log in with {secret.reveal()}")
        [record] = tracker.records("wos")
        assert (record.status, record.error_message) == ("FAILED", "cannot log in with ***")
        assert all("hunter2" not in str(event) for event in tracker.history("wos"))
        with tracker.run("wos") as run:
            assert run.window == (None, NOON)


@pytest.mark.shown_on("sqlite")
def test_b8_a_block_that_lost_its_lease_says_so_at_its_end(store_address: str) -> None:
    with WatermarkTracker(store_address, lease="1s") as tracker, WatermarkTracker(store_address) as other:

        def work(error: Exception | None) -> None:
            with tracker.run("wos"):
                tracker._tracker_ledger.stop_heartbeat()
                time.sleep(2.5)
                taken.append(other.start_pipeline_run("wos"))
                if error:
                    raise error

        taken: list[WatermarkRecord] = []
        with pytest.raises(LeaseLost):
            work(None)
        other.finalize_pipeline_run(taken[0], "SUCCESS")
        with pytest.raises(KeyError) as caught:
            work(KeyError("the caller's own"))
        assert "taken over" in caught.value.__notes__[0]


# --- names, and kinds that do not mix


def test_any_name_is_a_name(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        for name in NAMES:
            with tracker.run(name, job_id=name, end=NOON):
                pass
            tables = {name: 3, f"{name}.{name}": 4}
            plan = tracker.prepare_processing_plan_for_schemas(f"{name}!", latest_versions=tables)
            tracker.mark_run_completed(plan.run_id, [name], records=1)
            tracker.mark_run_failed(plan.run_id, name)
        for name in NAMES:
            assert tracker.load_checkpoints(pipeline=f"{name}!") == {name: 3}
            assert tracker.load_version_ranges(f"{name}!") == {f"{name}.{name}": (0, 4)}
            [done, ready] = tracker.records(name)
            assert (done.status, done.job_id, ready.status) == ("SUCCESS", name, "READY")
            assert tracker.get_last_processed_timestamp(name) == NOON


@pytest.mark.shown_on("sqlite")
def test_what_is_no_name_is_refused(store_address: str) -> None:
    with WatermarkTracker(store_address) as tracker:
        for name in ("", "  ", "a\0b", None, 7):
            with pytest.raises(ConfigError):
                tracker.start_pipeline_run(name)  # type: ignore[arg-type]


@pytest.mark.shown_on("sqlite")
def test_two_kinds_of_pipeline_with_one_name_are_refused(store_address: str) -> None:
    with open_ledger(store_address, create=True) as ledger:
        ledger.plan([draft("orders", pipeline="shop")], owner=ME, run_id="r")
        ledger.plan([draft("same", pipeline="same")], owner=ME, run_id="r")
    with WatermarkTracker(store_address) as tracker:
        tracker.start_pipeline_run("time")
        tracker.prepare_processing_plan_for_schemas("versions", latest_versions={"a": 1})
        for work in (
            lambda: tracker.start_pipeline_run("versions"),
            lambda: tracker.commit_processing_state("versions", NOON),
            lambda: tracker.get_last_processed_timestamp("versions"),
            lambda: tracker.prepare_processing_plan_for_schemas("time", latest_versions={"a": 1}),
            lambda: tracker.load_checkpoints(pipeline="time"),
            lambda: tracker.load_version_ranges("shop"),
            lambda: tracker.start_pipeline_run("shop"),
            lambda: tracker.start_pipeline_run("same"),
            lambda: tracker.reset("same", reason="?"),
        ):
            with pytest.raises(ConfigError, match="with the same name") as caught:
                work()
            assert "name" in (caught.value.hint or "")
        assert {one.pipeline_name for one in tracker.records()} == {"time"}
        assert set(tracker.lag()) == {"time"}
